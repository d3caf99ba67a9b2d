package retention

import "github.com/snapctl/snapctl/packfile/blob"

// ForgetNamed plans to forget snapshots that somebody names one by one. A pinned
// one among them is an objection.
func ForgetNamed(snapshots []Snapshot, ids []blob.ID) (*Plan, error) {
	named := make(map[blob.ID]bool, len(ids))
	for _, id := range ids {
		named[id] = true
	}
	return choose(snapshots, func(s Snapshot) bool { return named[s.ID] }, func(p *Plan, d *Decision) {
		d.Reasons = []string{"named"}
		if Pinned(d.Snapshot.Labels) {
			d.Reasons = []string{"named, though it is pinned"}
			p.Objections = append(p.Objections, Objection{"snapshot " + d.Snapshot.ID.String(), ErrPinned})
		}
	})
}

// ForgetMatching plans to forget the snapshots that match, but for pinned ones.
func ForgetMatching(snapshots []Snapshot, matches func(Snapshot) bool) (*Plan, error) {
	p, err := choose(snapshots, matches, func(_ *Plan, d *Decision) {
		d.Reasons = []string{"selected"}
		if Pinned(d.Snapshot.Labels) {
			d.keep("pinned")
		}
	})
	if err == nil && len(p.Groups) == 0 {
		p.Objections = append(p.Objections, Objection{"selector", ErrMatchesNothing})
	}
	return p, err
}

// choose makes a plan of the chosen snapshots alone, by source. To forget all
// there is of a source is what it may be for; to forget all there is is not.
func choose(snapshots []Snapshot, chosen func(Snapshot) bool, judge func(*Plan, *Decision)) (*Plan, error) {
	all, err := inOrder(snapshots)
	if err != nil {
		return nil, err
	}
	p := planner{opts: Options{Only: chosen}, all: all, sections: []Section{{}}}
	p.plan.Groups = p.decide()
	for n := range p.plan.Groups {
		g := &p.plan.Groups[n]
		g.Chosen = true
		for i := range g.Decisions {
			d := &g.Decisions[i]
			*d = Decision{Snapshot: d.Snapshot, Effective: d.Effective}
			judge(&p.plan, d)
		}
	}
	if goes := len(p.plan.Goes()); goes > 0 && goes == len(all) {
		p.plan.Objections = append(p.plan.Objections, Objection{Err: ErrRemovesAll})
	}
	return &p.plan, nil
}
