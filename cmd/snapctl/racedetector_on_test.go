//go:build race

package main

// crashKills is how often TestKilledAtRandom kills. What is killed is the real
// program, which has no race detector: all it does here is to make the test slow.
const crashKills = 40
