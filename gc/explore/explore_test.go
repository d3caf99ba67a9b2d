package explore

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	full  = flag.Bool("full", false, "search long: see \"make explore\"")
	limit = flag.Int("states", 5_000_000, "with -full: states of a scenario to look at; 0: all")
)

// The budgets of "make test", in states: deterministic, and a minute with the race
// detector on a busy machine.
const (
	quickStates = 400
	smallStates = 20_000
)

// TestScenarios searches every scenario without faults but its own: those that are
// small to the end, the others to a limit. With -full all are searched, as far as
// -states allows, and then again with one fault at any request.
func TestScenarios(t *testing.T) {
	defer printTable()
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			switch {
			case *full:
				sc.search(t, 0, 4, *limit)
			case sc.small:
				sc.search(t, 0, 1, smallStates)
			default:
				sc.search(t, 0, 1, cmp.Or(sc.states, quickStates))
			}
		})
	}
}

// TestFaultsOfRequests searches with one fault at any request that writes.
func TestFaultsOfRequests(t *testing.T) {
	defer printTable()
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			if *full {
				sc.search(t, 1, 2, *limit)
			} else {
				sc.search(t, 1, 0, quickStates)
			}
		})
	}
}

// search fails the test for a violation, and if a search that saw all has not met
// what the scenario is about.
func (sc scenario) search(t *testing.T, faults, quick, limit int) {
	t.Helper()
	s := sc.set(newGround(t))
	if faults > 0 && s.Faults == 0 {
		s.Faults = faults
	}
	r := Explore(t, s, quick, limit)
	r.tell(t, sc.name)
	rows = append(rows, row{fmt.Sprintf("%s, %d faults", sc.name, s.Faults), r})
	if !r.Exhausted {
		return
	}
	for _, part := range sc.shows {
		if !slices.ContainsFunc(outcomes(r), func(outcome string) bool { return strings.Contains(outcome, part) }) {
			t.Errorf("no run shows %q", part)
		}
	}
}

// rows are what was searched with -full, for the table in the end.
var rows []row

type row struct {
	name string
	Report
}

// printTable prints the rows, and begins anew.
func printTable() {
	if *full {
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "scenario\tstates\ttransitions\tschedules\tlongest\thistories\truns\ttime\texhausted\t")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%d\t%d\t%.2g\t%d\t%d\t%d\t%v\t%v\t\n", r.name, r.States, r.Transitions, r.Schedules, r.Depth, r.Histories, r.Runs, r.Duration.Round(time.Second), r.Exhausted)
		}
		w.Flush()
	}
	rows = nil
}

// tell prints what was seen, and fails the test for a violation.
func (r Report) tell(t *testing.T, name string) {
	t.Helper()
	all := "to a limit"
	if r.Exhausted {
		all = "exhausted"
	}
	t.Logf("%s: %d states, %d transitions, %.3g schedules of at most %d steps, %s; %d histories by %d runs of %d steps; %v",
		name, r.States, r.Transitions, r.Schedules, r.Depth, all, r.Histories, r.Runs, r.Steps, r.Duration.Round(1e7))
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		t.Logf("%8d ends: %s", r.Outcomes[outcome], outcome)
	}
	if r.Violation != nil {
		t.Errorf("violation, with at most %d interruptions: %v\n%s", r.Interruptions, r.Violation.Err, r.Violation.Schedule)
	}
}

// TestWalks lets everybody loose at once, with two faults.
func TestWalks(t *testing.T) {
	seeds, schedules := uint64(1), 8
	if *full {
		seeds, schedules = 2, 2000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := crowd(newGround(t))
			s.Faults, s.Reads = 2, true
			Walk(t, s, seed, schedules).tell(t, "crowd")
		})
	}
}

// What docs/collection.md assumes of the store is needed: a request to publish that
// arrives after the grace period would bring back a snapshot without its content.
func TestLateRequestsNeedTheGracePeriod(t *testing.T) {
	r := Explore(t, publishedTwice(newGround(t), hasty), 1, 0)
	if r.Violation == nil || !strings.Contains(r.Violation.Err.Error(), "lost content") {
		t.Errorf("without a grace period: %v", r.Violation)
	}
	r = Explore(t, publishedTwice(newGround(t), thorough), 1, quickStates)
	r.tell(t, "with a grace period")
}

func outcomes(r Report) []string { return slices.Sorted(maps.Keys(r.Outcomes)) }
