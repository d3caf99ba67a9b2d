package retention_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/packfile/blob"
)

// history draws the snapshots of a repository: chains and forks, with clocks that
// are off by up to 26 hours, and labels that mean something.
func history(t *rapid.T) []retention.Snapshot {
	n := rapid.IntRange(0, 24).Draw(t, "snapshots")
	var all []retention.Snapshot
	for i := range n {
		hours := float64(i)*rapid.SampledFrom([]float64{0.1, 3, 30, 700}).Draw(t, "pace") + float64(rapid.IntRange(-26, 26).Draw(t, "skew"))
		s := snap(i+1, hours, rapid.IntRange(0, i).Draw(t, "parent"))
		s.Source = rapid.SampledFrom([]string{"/a", "/b"}).Draw(t, "source")
		for key, values := range map[string][]string{"pin": {"", "x"}, "ttl": {"1h", "60d", "2026-02-01T00:00:00Z", "?"}, "keep": {"1", "2"}} {
			if rapid.IntRange(0, 5).Draw(t, key) == 0 {
				s.Labels[key] = rapid.SampledFrom(values).Draw(t, "value")
			}
		}
		all = append(all, s)
	}
	return all
}

func anyRules(t *rapid.T) retention.Rules {
	few := func(name string) int { return rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, name) }
	r := retention.Rules{
		Last: few("last"), Hourly: few("hourly"), Daily: few("daily"), Weekly: few("weekly"), Monthly: few("monthly"), Yearly: few("yearly"),
		Within: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 50, 2000}).Draw(t, "within")) * time.Hour,
		All:    rapid.IntRange(0, 9).Draw(t, "all") == 0,
	}
	if rapid.Bool().Draw(t, "label") {
		r.Labels = []retention.Label{{Key: "keep", Value: rapid.SampledFrom([]string{"", "1"}).Draw(t, "value")}}
	}
	return r
}

func anyGrouping(t *rapid.T) retention.Grouping {
	return rapid.SampledFrom([]retention.Grouping{retention.BySource(), retention.ByLabel("keep"), retention.Together()}).Draw(t, "grouping")
}

func anyPolicy(t *rapid.T) retention.Policy {
	p := retention.Policy{Sections: []retention.Section{{Rules: anyRules(t), GroupBy: anyGrouping(t)}}}
	if rapid.Bool().Draw(t, "sections") {
		p.Sections = append([]retention.Section{{Name: "a", Select: retention.Selector{Source: "/a"}, Rules: anyRules(t), GroupBy: anyGrouping(t)}}, p.Sections...)
	}
	return p
}

// present is a time before, among or after the snapshots.
func present(t *rapid.T) retention.Options {
	return retention.Options{Now: noon.Add(time.Duration(rapid.IntRange(-100, 10000).Draw(t, "now")) * time.Hour)}
}

func mustPlan(t *rapid.T, snapshots []retention.Snapshot, policy retention.Policy, opts retention.Options) *retention.Plan {
	p, err := retention.NewPlan(snapshots, policy, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every snapshot is in the plan once, with a reason, and what is pinned stays.
func TestPlansAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshots := history(t)
		p := mustPlan(t, snapshots, anyPolicy(t), present(t))
		var ids []blob.ID
		for _, g := range p.Groups {
			for _, d := range g.Decisions {
				ids = append(ids, d.Snapshot.ID)
				if len(d.Reasons) == 0 || !d.Keep && len(d.Reasons) != 1 {
					t.Fatalf("%v: reasons %q", d.Snapshot.ID, d.Reasons)
				}
				if !d.Keep && retention.Pinned(d.Snapshot.Labels) {
					t.Fatalf("%v is pinned and goes: %q", d.Snapshot.ID, d.Reasons)
				}
			}
		}
		slices.SortFunc(ids, blob.ID.Compare)
		if len(slices.Compact(ids)) != len(snapshots) || p.Stays()+len(p.Goes()) != len(snapshots) {
			t.Fatalf("%d of %d snapshots are in the plan", len(ids), len(snapshots))
		}
	})
}

// Whoever lists the snapshots, in whatever order: the plan is the same.
func TestPlansDoNotDependOnTheOrderOfTheInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshots, policy, opts := history(t), anyPolicy(t), present(t)
		shuffled := rapid.Permutation(snapshots).Draw(t, "order")
		a, b := mustPlan(t, snapshots, policy, opts), mustPlan(t, shuffled, policy, opts)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%q and %q", verdicts(a), verdicts(b))
		}
	})
}

// One more rule, or a larger count, never costs a snapshot.
func TestMoreRulesNeverForgetMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshots, policy, opts, more := history(t), anyPolicy(t), present(t), anyRules(t)
		less := mustPlan(t, snapshots, policy, opts).Goes()
		i := rapid.IntRange(0, len(policy.Sections)-1).Draw(t, "section")
		r := &policy.Sections[i].Rules
		r.Last += more.Last
		r.Hourly += more.Hourly
		r.Daily += more.Daily
		r.Weekly += more.Weekly
		r.Monthly += more.Monthly
		r.Yearly += more.Yearly
		r.Within += more.Within
		r.All = r.All || more.All
		r.Labels = append(r.Labels, more.Labels...)
		for _, id := range mustPlan(t, snapshots, policy, opts).Goes() {
			if !slices.Contains(less, id) {
				t.Fatalf("%v goes only with more rules", id)
			}
		}
	})
}

// A pin never costs another snapshot.
func TestPinsNeverForgetMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshots, policy, opts := history(t), anyPolicy(t), present(t)
		if len(snapshots) == 0 {
			return
		}
		less := mustPlan(t, snapshots, policy, opts).Goes()
		rapid.SampledFrom(snapshots).Draw(t, "pinned").Labels["pin"] = "now"
		for _, id := range mustPlan(t, snapshots, policy, opts).Goes() {
			if !slices.Contains(less, id) {
				t.Fatalf("%v goes only with one more pin", id)
			}
		}
	})
}

// kin tells ancestors within a repository.
type kin map[blob.ID]blob.ID

func kinOf(snapshots []retention.Snapshot) kin {
	k := kin{}
	for _, s := range snapshots {
		k[s.ID] = s.Parent
	}
	return k
}

func (k kin) descends(id, from blob.ID) bool {
	for id = k[id]; !id.IsZero(); id = k[id] {
		if id == from {
			return true
		}
	}
	return false
}

// In a group, no descendant comes before an ancestor, whatever the clocks say.
func TestGroupsAreInTopologicalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshots := history(t)
		kin := kinOf(snapshots)
		for _, g := range mustPlan(t, snapshots, anyPolicy(t), present(t)).Groups {
			for i, older := range g.Decisions {
				for _, newer := range g.Decisions[i+1:] {
					if kin.descends(older.Snapshot.ID, newer.Snapshot.ID) || newer.Effective.Before(older.Effective) {
						t.Fatalf("%v at %v comes before %v at %v", older.Snapshot.ID, older.Effective, newer.Snapshot.ID, newer.Effective)
					}
				}
			}
		}
	})
}

// A rule by count that keeps an ancestor keeps its descendants, or, where it counts
// periods, a snapshot of each period that has descendants: none of them older
// than those.
func TestCountsPreferDescendants(t *testing.T) {
	names := map[string]retention.Period{"last": "", "hourly": retention.Hour, "daily": retention.Day, "weekly": retention.Week, "monthly": retention.Month, "yearly": retention.Year}
	rapid.Check(t, func(t *rapid.T) {
		snapshots := history(t)
		kin := kinOf(snapshots)
		rule := rapid.SampledFrom([]string{"last", "hourly", "daily", "weekly", "monthly", "yearly"}).Draw(t, "rule")
		n := rapid.IntRange(1, 4).Draw(t, "count")
		r := map[string]retention.Rules{"last": {Last: n}, "hourly": {Hourly: n}, "daily": {Daily: n}, "weekly": {Weekly: n}, "monthly": {Monthly: n}, "yearly": {Yearly: n}}[rule]
		period := names[rule]
		for _, g := range mustPlan(t, snapshots, retention.Policy{Sections: []retention.Section{{Rules: r, GroupBy: anyGrouping(t)}}}, retention.Options{}).Groups {
			byRule := func(d retention.Decision) bool { return strings.Contains(strings.Join(d.Reasons, " "), rule) }
			kept := 0
			for i, d := range g.Decisions {
				if !byRule(d) {
					continue
				}
				kept++
				for _, newer := range g.Decisions[i+1:] {
					if !kin.descends(newer.Snapshot.ID, d.Snapshot.ID) || byRule(newer) {
						continue
					}
					if period == "" || period.Of(newer.Effective) == period.Of(d.Effective) {
						t.Fatalf("%v stays by %q, and its descendant %v does not", d.Snapshot.ID, d.Reasons, newer.Snapshot.ID)
					}
					if !slices.ContainsFunc(g.Decisions[i+1:], func(other retention.Decision) bool {
						return byRule(other) && period.Of(other.Effective) == period.Of(newer.Effective)
					}) {
						t.Fatalf("nothing of %s stays, but %v from before does", period.Of(newer.Effective), d.Snapshot.ID)
					}
				}
			}
			if kept > n || kept == 0 || !byRule(g.Decisions[len(g.Decisions)-1]) {
				t.Fatalf("%d of %d stay by %s: %q", kept, n, rule, verdicts(&retention.Plan{Groups: []retention.Group{g}}))
			}
		}
	})
}

// Where times agree with parentage, as writers see to it, a second run finds
// nothing to do: so a run that was interrupted is completed by the next one.
func TestSecondRunHasNothingToDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshots, policy, opts := history(t), anyPolicy(t), present(t)
		ordered, err := retention.Order(snapshots)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range ordered {
			snapshots[i] = d.Snapshot
			snapshots[i].Time = d.Effective.Add(time.Duration(i)) // a child is later by a nanosecond at least
		}
		goes := mustPlan(t, snapshots, policy, opts).Goes()
		done := goes
		if len(goes) > 0 && rapid.Bool().Draw(t, "interrupted") {
			done = rapid.Permutation(goes).Draw(t, "done")[:rapid.IntRange(0, len(goes)).Draw(t, "so far")]
		}
		left := slices.DeleteFunc(slices.Clone(snapshots), func(s retention.Snapshot) bool { return slices.Contains(done, s.ID) })
		rest := mustPlan(t, left, policy, opts).Goes()
		all := slices.Concat(done, rest)
		slices.SortFunc(all, blob.ID.Compare)
		slices.SortFunc(goes, blob.ID.Compare)
		if !slices.Equal(all, goes) {
			t.Fatalf("%v and then %v go, at once %v", done, rest, goes)
		}
	})
}

// Without an objection something stays: in the repository, and in each group that
// has not expired.
func TestNoObjectionMeansSomethingStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := mustPlan(t, history(t), anyPolicy(t), present(t))
		if p.Refusal() != nil || len(p.Groups) == 0 {
			return
		}
		if p.Stays() == 0 {
			t.Fatalf("nothing stays: %q", verdicts(p))
		}
		for _, g := range p.Groups {
			lines := verdicts(&retention.Plan{Groups: []retention.Group{g}})
			if g.Stays() == 0 && strings.Count(strings.Join(lines, "\n"), "ttl ended") != len(lines) {
				t.Fatalf("nothing of a group stays: %q", lines)
			}
		}
	})
}

// A pattern of sources means what the regular expression does.
func TestSourcePatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab/:*?é\\]{0,8}`).Draw(t, "pattern")
		source := rapid.StringMatching(`[ab/:*?é\\]{0,12}`).Draw(t, "source")
		var re strings.Builder
		for i := 0; i < len(pattern); i++ {
			switch c := pattern[i]; {
			case c == '*':
				re.WriteString(`.*`)
			case c == '?':
				re.WriteString(`.`)
			case c == '\\' && i+1 < len(pattern) && pattern[i+1] < 0x80:
				i++
				re.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
			case c == '\\' && i+1 < len(pattern):
			default:
				re.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
			}
		}
		text := re.String()
		want := pattern == "" || regexp.MustCompile(`\A(?s:(.*:)?(`+text+`))\z`).MatchString(source)
		if got := (retention.Selector{Source: pattern}).Matches(retention.Snapshot{Source: source}); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, source, got, want)
		}
	})
}
