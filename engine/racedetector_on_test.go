//go:build race

package engine_test

// sweepStep: the race detector, which makes an attempt five times slower, sees every
// fifth call go wrong in one of four ways. `make test-servers` has all of them.
const sweepStep = 5
