//go:build !race

package workspace

const (
	hugeDirectory = 1_000_000
	hugeMemory    = 150 << 20 // bytes, above what the process had before
)
