package engine

import (
	"errors"
	"sync"
	"testing"
)

// The race detector sees two calls at a time.
func TestEventsComeInTurn(t *testing.T) {
	calls := 0
	events := Events{Progress: func(Progress) { calls++ }, Warning: func(Warning) { calls++ }}.inTurn()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 100 {
				events.Progress(Progress{})
				events.warn("", "", errors.New("a warning"))
			}
		})
	}
	wg.Wait()
	if calls != 400 {
		t.Errorf("%d calls, want 400", calls)
	}
	silent := Events{}.inTurn()
	if silent.Progress != nil || silent.Warning != nil {
		t.Error("nobody asked for events")
	}
}
