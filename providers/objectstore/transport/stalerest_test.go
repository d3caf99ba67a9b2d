package transport

import (
	"testing"
	"testing/synctest"
)

// TestLateTimerSparesTheNextRest has the timer of a rest fire when that rest has ended and
// another has begun, as happens when a place is used again in the same moment.
func TestLateTimerSparesTheNextRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newLane(1)
		if _, err := in.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := newPlace(in)
		p.rest()
		if err := p.use(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.rest()
		p.giveUp()
		if !p.kept() {
			t.Error("the place was given up before its time")
		}
		p.leave()
	})
}
