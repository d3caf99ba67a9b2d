package retention

import (
	"errors"
	"fmt"
	"time"
)

// Policy says what stays. A snapshot belongs to the first section that selects
// it; one that no section selects stays.
type Policy struct {
	Sections []Section
}

// Section is a part of a policy, for some of the snapshots.
type Section struct {
	Name    string // for people; empty for the part that has none
	Select  Selector
	GroupBy Grouping
	Rules   Rules
	// Optional says that it is no mistake if the section, or a keep-label rule of
	// it, matches nothing.
	Optional bool
}

// Rules name snapshots of a group that stay; one is enough. The zero value keeps
// nothing. Counts are at least 0, which keeps nothing. Hours, days, weeks (from
// Monday, ISO 8601), months and years are those of UTC, so that a policy means the
// same on every machine.
type Rules struct {
	All     bool          // every snapshot: only a ttl removes any
	Last    int           // so many, the newest
	Within  time.Duration // those that are not older than this, counted from the newest
	Hourly  int           // the newest one of each of so many hours that have any
	Daily   int
	Weekly  int
	Monthly int
	Yearly  int
	Labels  []Label // those with any of these labels, also beyond their ttl
}

// ErrInvalid says that a policy makes no sense, whoever insists.
var ErrInvalid = errors.New("invalid policy")

// Check reports whether the policy makes sense: errors wrap ErrInvalid.
func (p Policy) Check() error {
	if len(p.Sections) == 0 {
		return fmt.Errorf("%w: it says nothing", ErrInvalid)
	}
	for _, s := range p.Sections {
		if err := s.check(); err != nil {
			return fmt.Errorf("%w: %s%w", ErrInvalid, s.prefix(), err)
		}
	}
	return nil
}

// prefix names the section in front of a message.
func (s Section) prefix() string {
	if s.Name == "" {
		return ""
	}
	return fmt.Sprintf("section %q: ", s.Name)
}

func (s Section) check() error {
	for _, c := range s.Rules.counts() {
		if *c.count < 0 {
			return fmt.Errorf("%s %d is negative", c.setting, *c.count)
		}
	}
	if s.Rules.Within < 0 {
		return fmt.Errorf("keep-within %v is negative", s.Rules.Within)
	}
	for _, l := range append(s.Select.Labels, s.Rules.Labels...) {
		if l.Key == "" {
			return errors.New("a label without a key")
		}
	}
	return nil
}

// keepsNothing reports whether no snapshot could ever stay by the rules.
func (r Rules) keepsNothing() bool {
	for _, c := range r.counts() {
		if *c.count > 0 {
			return false
		}
	}
	return !r.All && r.Within <= 0 && len(r.Labels) == 0
}

// count is a rule that keeps so many.
type count struct {
	setting string // its name in a policy file
	count   *int
}

func (r *Rules) counts() []count {
	return []count{
		{"keep-last", &r.Last}, {"keep-hourly", &r.Hourly}, {"keep-daily", &r.Daily},
		{"keep-weekly", &r.Weekly}, {"keep-monthly", &r.Monthly}, {"keep-yearly", &r.Yearly},
	}
}
