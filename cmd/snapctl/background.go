package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// backgroundNice is the niceness of a collection. Where a thread of niceness 0 wants the
// same processor, it gets a tenth of its time: see sched(7).
const backgroundNice = 10

// yieldToOthers lowers the priority of this process, for which nobody waits, so that it
// takes no processor from those beside it. It never fails: what it saves is time.
//
// On Linux each thread has a niceness of its own, which new ones take from the thread
// that makes them. So it looks again while it finds threads that others made meanwhile.
func yieldToOthers() {
	for range 8 { // more than it takes, where the system does as it says
		if lowerThreads() == 0 {
			return
		}
	}
}

// lowerThreads returns how many threads it has lowered.
func lowerThreads() (lowered int) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		priority, err := unix.Getpriority(unix.PRIO_PROCESS, id) // 20 - niceness
		if err == nil && 20-priority < backgroundNice && unix.Setpriority(unix.PRIO_PROCESS, id, backgroundNice) == nil {
			lowered++
		}
	}
	return lowered
}
