package main

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestYieldToOthers lowers the priority of a process of its own, since it cannot be
// raised again, and looks at threads that are there and at threads that begin later.
func TestYieldToOthers(t *testing.T) {
	if os.Getenv("SNAPCTL_TEST_YIELD") == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestYieldToOthers$", "-test.v")
		child.Env = append(os.Environ(), "SNAPCTL_TEST_YIELD=yes")
		if printed, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		return
	}
	end := make(chan struct{})
	var started, ended sync.WaitGroup
	threads := func(n int) {
		started.Add(n)
		for range n {
			ended.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				started.Done()
				<-end
			})
		}
		started.Wait()
	}
	threads(8)
	yieldToOthers()
	threads(8)
	all, err := os.ReadDir("/proc/self/task")
	if err != nil || len(all) < 16 {
		t.Fatalf("%d threads, %v", len(all), err)
	}
	for _, thread := range all {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		if priority, err := unix.Getpriority(unix.PRIO_PROCESS, id); err != nil || 20-priority < backgroundNice {
			t.Errorf("thread %d of %d has niceness %d, %v", id, len(all), 20-priority, err)
		}
	}
	close(end)
	ended.Wait()
}
