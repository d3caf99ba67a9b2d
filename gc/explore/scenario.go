package explore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Scenario is what is explored: some actors, and the store that they meet.
type Scenario struct {
	Actors []*Actor
	// Start holds the objects that are there in the beginning.
	Start objectstore.Store
	// Fixed tells the keys, and prefixes of listings, that nobody ever writes: to
	// read them is no step.
	Fixed func(key string) bool
	// Page is how many keys a listing shows at a time; the actors can act between
	// two pages. 0: a listing is one step.
	Page int
	// Exact tells apart the orders in which an actor gets the answers to requests that
	// it made at the same time. Otherwise two orders count as one if it asks for the
	// same afterwards.
	Exact bool
	// Faults is how many requests may meet a fault in one run. Those that write meet
	// those of Kinds; those that read meet none but, if Reads is set, remain without an
	// answer. Spare tells keys whose requests meet none. May be nil.
	Faults int
	Kinds  []how
	Reads  bool
	Spare  func(key string) bool
	// May tells the errors that actors may end with; nil: any. After a fault any may
	// follow.
	May func(error) bool
	// Keys open what lies in the store.
	Keys func(objectstore.Store) commit.Repo
}

// AllFaults are all that can become of a request that changes the store.
var AllFaults = []how{lost, retried, delayed, repeated}

// stage is a scenario that is being explored.
type stage struct {
	*Scenario
	first     cells // objects of Start
	objects   *objects
	random    *random
	histories *histories
	mutations mutations
	judge     *judge
	initial   *state

	interruptions int // that are allowed in the present search; 0: any number
}

// perform runs f on a stage, in a world whose time stands still at epoch.
func perform(t *testing.T, scenario *Scenario, f func(*testing.T, *stage)) {
	t.Helper()
	random := newRandom(t)
	s := &stage{Scenario: scenario, objects: newObjects(), random: random}
	for info, err := range scenario.Start.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, err := objectstore.ReadAll(t.Context(), scenario.Start, info.Key, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		s.first = s.objects.with(s.first, info.Key, s.objects.content(data))
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(epoch))
		s.histories = &histories{stage: s}
		s.judge = newJudge(s.objects, scenario.Keys(nil))
		defer s.histories.parked.clear()
		f(t, s)
	})
}

// begin is the state in which nobody has made a call.
func (s *stage) begin() (*state, error) {
	at := &state{store: s.first, faults: s.Faults, turn: -1, left: int8(s.interruptions)}
	for i := range s.Actors {
		if len(s.histories.roots) == i {
			h, err := s.histories.begin(i)
			if err != nil {
				return nil, err
			}
			s.histories.roots = append(s.histories.roots, h)
		}
		at.actors = append(at.actors, s.histories.roots[i].number)
	}
	s.initial = at
	return at, nil
}
