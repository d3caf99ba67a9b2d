package explore

import (
	"fmt"
	"hash/maphash"
	"testing"
	"time"
)

// Report is what a search saw.
type Report struct {
	States      int     // different ones
	Transitions int     // moves made, to new states and to known ones
	Schedules   float64 // ways from the first state to one in which nothing can happen
	Ends        int     // states in which nothing can happen
	Depth       int     // moves from the first state to the farthest
	Histories   int     // different ones, of all actors
	Runs, Steps int     // programs started, and calls answered to them
	Exhausted   bool    // there are no other states
	// Interruptions of an actor by another: all schedules with so many were searched,
	// or, if there is a violation, it was found with that bound. 0: no bound.
	Interruptions int
	Outcomes      map[string]int
	Violation     *Violation
	Duration      time.Duration
}

// Violation is a way to a state that the judge refused.
type Violation struct {
	Err      error
	Schedule string // one line a step
}

// Explore visits the states of a scenario until it has seen all, or the judge
// refuses one, or there are more than limit, if that is not 0.
//
// It begins with schedules of few interruptions, as many as quick and less, since
// most mistakes show in one of them, and people can follow them: that is iterative
// context bounding, after Musuvathi and Qadeer (PLDI 2007). Then come all others. A
// violation that is found there is looked for again with as few interruptions as
// possible.
func Explore(t *testing.T, scenario *Scenario, quick, limit int) Report {
	t.Helper()
	start := time.Now()
	var report Report
	perform(t, scenario, func(t *testing.T, s *stage) {
		var err error
		if report, err = s.explore(quick, limit); err != nil {
			t.Fatal(err)
		}
		report.Histories, report.Runs, report.Steps = len(s.histories.all), s.histories.runs, s.histories.steps
	})
	report.Duration = time.Since(start)
	return report
}

func (s *stage) explore(quick, limit int) (Report, error) {
	interruptions := 0
	bounded := func(n int) (Report, error) {
		interruptions = n
		return s.search(n, limit)
	}
	for n := range quick {
		if report, err := bounded(n + 1); err != nil || report.Violation != nil {
			return report, err
		}
	}
	report, err := s.search(unbounded, limit)
	if err != nil || report.Violation == nil {
		report.Interruptions = interruptions
		return report, err
	}
	for n := quick + 1; n < maxInterruptions; n++ {
		if again, err := bounded(n); err != nil || again.Violation != nil {
			return again, err
		}
	}
	return report, nil
}

const (
	unbounded        = 0
	maxInterruptions = 8 // looked for, in a violation that is to be told
)

// search is one depth-first search. Depth first, since the programs then follow one
// history to its end: each runs once for each end, and not once for each step.
type search struct {
	*stage
	limit  int
	seeds  [2]maphash.Seed
	seen   map[[2]uint64]uint32 // number by hash: two of 10^9 states agree with probability 2^-69
	ways   []float64            // by number: schedules from there to an end
	left   []int8               // by number: interruptions that were allowed from there on
	path   []place
	encode []byte
	report Report
}

// place is a state on the way from the first to the present one.
type place struct {
	state  *state
	number uint32
	moves  []move
	next   int // of moves
}

// search runs one search from the beginning, with a bound on interruptions if that
// is not 0.
func (s *stage) search(interruptions, limit int) (Report, error) {
	s.interruptions = interruptions
	first, err := s.begin()
	if err != nil {
		return Report{}, err
	}
	search := &search{stage: s, limit: limit, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		seen: map[[2]uint64]uint32{}, report: Report{Outcomes: map[string]int{}, Exhausted: true, Interruptions: interruptions}}
	err = search.run(first)
	return search.report, err
}

func (s *search) run(first *state) error {
	s.meet(first)
	for len(s.path) > 0 && s.report.Violation == nil {
		at := &s.path[len(s.path)-1]
		if at.next == len(at.moves) {
			s.leave()
			continue
		}
		m := at.moves[at.next]
		at.next++
		next, err := s.make(at.state, m)
		if err != nil {
			return fmt.Errorf("%w\nafter\n%s", err, s.schedule())
		}
		s.report.Transitions++
		s.meet(next)
	}
	s.report.States, s.report.Schedules = len(s.seen), s.ways[0]
	s.report.Exhausted = s.report.Exhausted && s.report.Violation == nil
	return nil
}

// meet judges a state, and enters it, if it is new.
func (s *search) meet(at *state) {
	s.encode = at.encode(s.encode[:0])
	hash := [2]uint64{maphash.Bytes(s.seeds[0], s.encode), maphash.Bytes(s.seeds[1], s.encode)}
	number, known := s.seen[hash]
	switch {
	case known && s.left[number] >= at.left:
		s.ways[s.path[len(s.path)-1].number] += s.ways[number]
		return
	case !known && s.limit > 0 && len(s.seen) >= s.limit:
		s.report.Exhausted = false
		return
	case !known:
		number = uint32(len(s.seen))
		s.seen[hash], s.ways, s.left = number, append(s.ways, 0), append(s.left, at.left)
	}
	s.left[number] = at.left
	s.path = append(s.path, place{state: at, number: number, moves: s.moves(at)})
	s.report.Depth = max(s.report.Depth, len(s.path)-1)
	if known { // judged, but with fewer interruptions to come
		return
	}
	if err := s.verdict(at); err != nil {
		s.report.Violation = &Violation{err, s.schedule()}
	}
	if len(s.path[len(s.path)-1].moves) == 0 {
		s.ways[number] = 1
		s.report.count(s.stage, at)
	}
}

// leave goes back from a state of which all is known.
func (s *search) leave() {
	last := s.path[len(s.path)-1]
	s.path[len(s.path)-1] = place{}
	s.path = s.path[:len(s.path)-1]
	if len(s.path) > 0 {
		s.ways[s.path[len(s.path)-1].number] += s.ways[last.number]
	}
}

// count enters a state in which nothing can happen.
func (r *Report) count(s *stage, at *state) {
	r.Ends++
	for i, number := range at.actors {
		r.Outcomes[s.Actors[i].Name+": "+s.histories.all[number].summary()]++
	}
}

func (h *history) summary() string {
	if h.err != nil {
		return "failed"
	}
	return h.outcome.Summary
}

// schedule tells the way to the present state.
func (s *search) schedule() string {
	var moves []move
	for _, at := range s.path {
		if at.next > 0 {
			moves = append(moves, at.moves[at.next-1])
		}
	}
	return s.tellSchedule(moves)
}
