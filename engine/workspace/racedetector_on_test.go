//go:build race

package workspace

// The race detector makes everything ten times slower and several times larger:
// the million, and the bound on memory that matters, are for `make test-servers`,
// which runs this suite without it.
const (
	hugeDirectory = 100_000
	hugeMemory    = 1 << 30
)
