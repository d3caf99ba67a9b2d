package retention

import (
	"slices"
	"time"

	"github.com/snapctl/snapctl/packfile/blob"
)

// Plan says of every snapshot whether it stays and why. It is plain data: making
// one changes nothing.
type Plan struct {
	Groups     []Group // in the order of the sections, then of their keys
	Objections []Objection
}

// Group is what was counted together.
type Group struct {
	Section   string // name of the section; empty if it has none
	Key       GroupKey
	Decisions []Decision // oldest first
	// Chosen says that somebody chose the snapshots. The others of the group stay, and
	// have no decision.
	Chosen bool

	section Section
}

// Decision is what becomes of one snapshot.
type Decision struct {
	Snapshot  Snapshot
	Effective time.Time // see the package's documentation
	Keep      bool
	Reasons   []string // at least one
	Warning   string   // about a label that makes no sense; empty if none

	byTTL bool // it goes because of its own label, not for want of a rule
}

// Options complete a policy.
type Options struct {
	// Now is the present time, for ttl labels.
	Now time.Time
	// Only narrows the plan: snapshots that it refuses are not in the plan, though
	// they have their place in the order. Nil: all.
	Only func(Snapshot) bool
}

// NewPlan applies a policy to all snapshots of a repository, in any order. The
// error is about a policy, or snapshots, that make no sense (ErrInvalid for the
// policy). A plan that looks like a mistake comes with objections.
func NewPlan(snapshots []Snapshot, policy Policy, opts Options) (*Plan, error) {
	if err := policy.Check(); err != nil {
		return nil, err
	}
	all, err := inOrder(snapshots)
	if err != nil {
		return nil, err
	}
	p := planner{opts: opts, all: all, sections: slices.Concat(policy.Sections, []Section{unselected})}
	p.plan.Groups = p.decide()
	p.plan.Objections = p.object()
	return &p.plan, nil
}

// Goes returns the ids of the snapshots that go, group by group, oldest first.
func (p *Plan) Goes() []blob.ID {
	var ids []blob.ID
	for _, g := range p.Groups {
		for _, d := range g.Decisions {
			if !d.Keep {
				ids = append(ids, d.Snapshot.ID)
			}
		}
	}
	return ids
}

// Stays is the number of snapshots of the plan that stay.
func (p *Plan) Stays() int {
	n := 0
	for _, g := range p.Groups {
		n += g.Stays()
	}
	return n
}

// Stays is the number of snapshots of the group that stay.
func (g Group) Stays() int {
	n := 0
	for _, d := range g.Decisions {
		if d.Keep {
			n++
		}
	}
	return n
}

// unselected is the section for what no other one selects.
var unselected = Section{Rules: Rules{All: true}}

type planner struct {
	opts     Options
	sections []Section // of the policy, and the one for the rest
	all      []*placed // oldest first
	plan     Plan
}

func (p *planner) decide() []Group {
	var groups []Group
	for i, part := range p.split() {
		section := p.sections[i]
		members := map[GroupKey][]*placed{}
		for _, s := range part {
			key := section.GroupBy.key(s.Snapshot)
			members[key] = append(members[key], s)
		}
		var keys []GroupKey
		for key := range members {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, GroupKey.compare)
		for _, key := range keys {
			g := Group{Section: section.Name, Key: key, Decisions: section.Rules.apply(members[key], p.opts.Now), section: section}
			if i == len(p.sections)-1 {
				g.explainUnselected()
			}
			groups = append(groups, g)
		}
	}
	return groups
}

// split assigns the snapshots to the first sections that select them.
func (p *planner) split() [][]*placed {
	parts := make([][]*placed, len(p.sections))
	for _, s := range p.all {
		if p.opts.Only != nil && !p.opts.Only(s.Snapshot) {
			continue
		}
		i := slices.IndexFunc(p.sections, func(section Section) bool { return section.Select.Matches(s.Snapshot) })
		parts[i] = append(parts[i], s)
	}
	return parts
}

// explainUnselected lets everything stay, expired or not: no part of the policy
// speaks of it.
func (g *Group) explainUnselected() {
	for i := range g.Decisions {
		d := &g.Decisions[i]
		d.Keep, d.byTTL, d.Reasons = true, false, []string{"no section selects it"}
	}
}
