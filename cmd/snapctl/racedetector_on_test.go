//go:build race

package main

// crashKills is how often TestKilledAtRandom kills. What is killed is the real
// program, which has no race detector: all it does here is to make the test slow.
const crashKills = 40

// asBuilt tells the scripts that run the program as people have it: without the race
// detector, which makes each of some thousand commands four times slower. Those of
// what it does at the same time have the detector, and two that set the clock.
func asBuilt(script string) bool {
	switch script {
	case "forget_clocks", "forget_policy", "gc", "plain", "progress", "prompt", "push", "restore", "snapshot":
		return false
	}
	return true
}
