package retention

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// What a plan can look like that is rather a mistake than meant.
var (
	// ErrKeepsNothing says that the rules of a section keep nothing at all.
	ErrKeepsNothing = errors.New("the rules keep nothing")
	// ErrRemovesAll says that no snapshot of the repository would be left.
	ErrRemovesAll = errors.New("no snapshot of the repository would be left")
	// ErrRemovesGroup says that no snapshot of a group would be left, and not
	// because all of them have expired.
	ErrRemovesGroup = errors.New("no snapshot of the group would be left")
	// ErrMatchesNothing says that a section or a keep-label rule matches no
	// snapshot of the repository: its name is perhaps misspelt.
	ErrMatchesNothing = errors.New("it matches no snapshot")
	// ErrFuture says that the snapshot that keep-within counts from lies in the
	// future, so that others would go too early.
	ErrFuture = errors.New("the newest snapshot lies in the future")
	// ErrPinned says that a snapshot that was named is protected.
	ErrPinned = errors.New("it is pinned")
)

// maxSkew is how far the newest snapshot of a group may lie in the future before
// keep-within is not trusted: clocks are known to be wrong by as much as 26 hours,
// and here two of them may be, in opposite directions.
const maxSkew = 2 * 26 * time.Hour

// Objection says what looks like a mistake. It wraps one of the errors above.
type Objection struct {
	About string // a section, a rule or a group; empty: the plan as a whole
	Err   error
}

func (o Objection) Error() string {
	if o.About == "" {
		return o.Err.Error()
	}
	return o.About + ": " + o.Err.Error()
}

// Unwrap returns the cause.
func (o Objection) Unwrap() error { return o.Err }

// RefusedError is why a plan should not be executed unless somebody insists.
type RefusedError struct{ Objections []Objection }

// maxNamed is how many objections a message names.
const maxNamed = 3

func (e *RefusedError) Error() string {
	var parts []string
	for _, o := range e.Objections[:min(maxNamed, len(e.Objections))] {
		parts = append(parts, o.Error())
	}
	if more := len(e.Objections) - maxNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more objections", more))
	}
	return "the plan looks like a mistake: " + strings.Join(parts, "; ")
}

// Unwrap returns the objections.
func (e *RefusedError) Unwrap() []error {
	errs := make([]error, len(e.Objections))
	for i, o := range e.Objections {
		errs[i] = o
	}
	return errs
}

// Refusal returns a *RefusedError if there are objections, otherwise nil.
func (p *Plan) Refusal() error {
	if len(p.Objections) == 0 {
		return nil
	}
	return &RefusedError{p.Objections}
}

// object looks for mistakes. A repository without snapshots has nothing to lose.
func (p *planner) object() []Objection {
	if len(p.all) == 0 {
		return nil
	}
	var all []Objection
	for _, s := range p.sections {
		all = append(all, p.objectToSection(s)...)
	}
	for _, g := range p.plan.Groups {
		all = append(all, p.objectToGroup(g)...)
	}
	if goes := len(p.plan.Goes()); goes == len(p.all) {
		all = append(all, Objection{Err: ErrRemovesAll})
	}
	return all
}

// objectToSection finds what matches nothing: neither what is planned for nor
// anything else in the repository, of which a misspelt name is a sign.
func (p *planner) objectToSection(s Section) []Objection {
	var all []Objection
	about := func(what string) string { return s.prefix() + what }
	if s.Rules.keepsNothing() {
		all = append(all, Objection{about("policy"), ErrKeepsNothing})
	}
	if s.Optional {
		return all
	}
	if !p.any(s.Select.Matches) {
		all = append(all, Objection{about("selector"), ErrMatchesNothing})
	}
	for _, l := range s.Rules.Labels {
		if !p.any(l.on) {
			all = append(all, Objection{about("keep-label " + l.String()), ErrMatchesNothing})
		}
	}
	return all
}

func (p *planner) any(matches func(Snapshot) bool) bool {
	for _, s := range p.all {
		if matches(s.Snapshot) {
			return true
		}
	}
	return false
}

func (p *planner) objectToGroup(g Group) []Objection {
	if g.section.Rules.keepsNothing() {
		return nil // said of the section
	}
	about := g.section.prefix() + g.Key.String()
	expired := true
	for _, d := range g.Decisions {
		expired = expired && d.byTTL
	}
	if g.Stays() == 0 && !expired {
		return []Objection{{about, ErrRemovesGroup}}
	}
	newest := g.Decisions[len(g.Decisions)-1].Effective
	some := g.Stays() < len(g.Decisions)
	if some && g.section.Rules.Within > 0 && newest.After(p.opts.Now.Add(maxSkew)) {
		return []Objection{{about, fmt.Errorf("%w, at %s: keep-within would count from there", ErrFuture, newest.UTC().Format(time.RFC3339))}}
	}
	return nil
}
