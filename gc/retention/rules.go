package retention

import (
	"fmt"
	"slices"
	"time"
)

// apply decides about the members of a group, given oldest first. Snapshots whose
// ttl has ended take no place in what is counted: otherwise a rule would keep one
// less for each of them, and a rule that keeps one of them could cost another.
func (r Rules) apply(members []*placed, now time.Time) []Decision {
	g := ruling{decisions: make([]Decision, len(members))}
	for i, s := range members {
		d := &g.decisions[i]
		*d = Decision{Snapshot: s.Snapshot, Effective: s.at}
		ended, expired, err := s.expired(now)
		if err != nil {
			d.Warning = err.Error()
		}
		if d.byTTL = expired; expired {
			d.Reasons = []string{"ttl ended " + ended.UTC().Format(time.RFC3339)}
		} else {
			g.counted = append(g.counted, d)
		}
	}
	slices.Reverse(g.counted)
	g.apply(r)
	return g.decisions
}

// ruling is one group while rules are applied to it.
type ruling struct {
	decisions []Decision  // oldest first
	counted   []*Decision // those that have not expired, newest first
}

func (g *ruling) apply(r Rules) {
	g.pins()
	g.labels(r.Labels)
	g.all(r.All)
	g.last(r.Last)
	g.within(r.Within)
	g.periods("hourly", Hour, r.Hourly)
	g.periods("daily", Day, r.Daily)
	g.periods("weekly", Week, r.Weekly)
	g.periods("monthly", Month, r.Monthly)
	g.periods("yearly", Year, r.Yearly)
	for i := range g.decisions {
		if d := &g.decisions[i]; len(d.Reasons) == 0 {
			d.Reasons = []string{"no rule keeps it"}
		}
	}
}

// keep lets a snapshot stay. What was said against it counts no more.
func (d *Decision) keep(format string, args ...any) {
	if !d.Keep {
		d.Keep, d.byTTL, d.Reasons = true, false, nil
	}
	d.Reasons = append(d.Reasons, fmt.Sprintf(format, args...))
}

func (g *ruling) pins() {
	for i := range g.decisions {
		if d := &g.decisions[i]; Pinned(d.Snapshot.Labels) {
			d.keep("pinned")
		}
	}
}

func (g *ruling) labels(labels []Label) {
	for _, l := range labels {
		for i := range g.decisions {
			if d := &g.decisions[i]; l.on(d.Snapshot) {
				d.keep("label %v", l)
			}
		}
	}
}

func (g *ruling) all(all bool) {
	if !all {
		return
	}
	for _, d := range g.counted {
		d.keep("all are kept")
	}
}

func (g *ruling) last(n int) {
	for i, d := range g.counted[:min(n, len(g.counted))] {
		d.keep("last %d of %d", i+1, n)
	}
}

func (g *ruling) within(age time.Duration) {
	if age <= 0 {
		return
	}
	for _, d := range g.counted {
		if since := g.counted[0].Effective.Add(-age); d.Effective.Before(since) {
			return
		}
		d.keep("within %s of the newest", formatDuration(age))
	}
}

// periods keeps the newest snapshot of each of the last n periods that have one.
// A period's snapshots are neighbours, since their times ascend.
func (g *ruling) periods(rule string, period Period, n int) {
	last := ""
	for _, d := range g.counted {
		name := period.Of(d.Effective)
		if name == last {
			continue
		}
		if n == 0 {
			return
		}
		n, last = n-1, name
		d.keep("%s %s", rule, name)
	}
}
