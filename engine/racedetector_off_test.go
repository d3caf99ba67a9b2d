//go:build !race

package engine_test

// sweepStep: each call to the store goes wrong.
const sweepStep = 1
