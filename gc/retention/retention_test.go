package retention_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/packfile/blob"
)

var noon = time.Date(2026, 1, 3, 12, 0, 0, 0, time.UTC) // a Saturday

// snap is a snapshot of /ws that was taken so many hours after noon. Its parent is
// the snapshot of that number, if it is above zero.
func snap(n int, hours float64, parent int, labels ...string) retention.Snapshot {
	s := retention.Snapshot{ID: id(n), Time: noon.Add(time.Duration(hours * float64(time.Hour))), Source: "/ws", Labels: map[string]string{}}
	if parent > 0 {
		s.Parent = id(parent)
	}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		s.Labels[key] = value
	}
	return s
}

// id makes ids that do not ascend with n.
func id(n int) blob.ID { return blob.ID{byte(101 * n), byte(n >> 8), byte(n)} }

func number(id blob.ID) int { return int(id[1])<<8 + int(id[2]) }

func rules(r retention.Rules) retention.Policy {
	return retention.Policy{Sections: []retention.Section{{Rules: r}}}
}

func plan(t *testing.T, snapshots []retention.Snapshot, policy retention.Policy, opts retention.Options) *retention.Plan {
	t.Helper()
	p, err := retention.NewPlan(snapshots, policy, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// verdicts writes a plan as lines: "+3 last 1 of 2, daily 2026-01-03".
func verdicts(p *retention.Plan) []string {
	var lines []string
	for _, g := range p.Groups {
		for _, d := range g.Decisions {
			sign := "-"
			if d.Keep {
				sign = "+"
			}
			lines = append(lines, fmt.Sprintf("%s%d %s", sign, number(d.Snapshot.ID), strings.Join(d.Reasons, ", ")))
		}
	}
	return lines
}

func expect(t *testing.T, p *retention.Plan, want ...string) {
	t.Helper()
	if got := verdicts(p); !slices.Equal(got, want) {
		t.Errorf("plan\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRules(t *testing.T) {
	const day = 24
	chain := []retention.Snapshot{
		snap(1, -40*day, 0), snap(2, -9*day, 1), snap(3, -day-1, 2), snap(4, -day, 3, "release=1.0"), snap(5, -1, 4), snap(6, 0, 5),
	}
	for name, tc := range map[string]struct {
		rules retention.Rules
		want  []string
	}{
		"last": {retention.Rules{Last: 2}, []string{
			"-1 no rule keeps it", "-2 no rule keeps it", "-3 no rule keeps it", "-4 no rule keeps it", "+5 last 2 of 2", "+6 last 1 of 2"}},
		"more than there are": {retention.Rules{Last: 7}, []string{
			"+1 last 6 of 7", "+2 last 5 of 7", "+3 last 4 of 7", "+4 last 3 of 7", "+5 last 2 of 7", "+6 last 1 of 7"}},
		"daily": {retention.Rules{Daily: 2}, []string{
			"-1 no rule keeps it", "-2 no rule keeps it", "-3 no rule keeps it", "+4 daily 2026-01-02", "-5 no rule keeps it", "+6 daily 2026-01-03"}},
		"hourly": {retention.Rules{Hourly: 3}, []string{
			"-1 no rule keeps it", "-2 no rule keeps it", "-3 no rule keeps it", "+4 hourly 2026-01-02T12", "+5 hourly 2026-01-03T11", "+6 hourly 2026-01-03T12"}},
		"weekly, monthly and yearly": {retention.Rules{Weekly: 2, Monthly: 9, Yearly: 1}, []string{
			"+1 monthly 2025-11", "+2 weekly 2025-W52, monthly 2025-12", "-3 no rule keeps it", "-4 no rule keeps it", "-5 no rule keeps it",
			"+6 weekly 2026-W01, monthly 2026-01, yearly 2026"}},
		"within, its end included": {retention.Rules{Within: 25 * time.Hour}, []string{
			"-1 no rule keeps it", "-2 no rule keeps it", "+3 within 1d1h of the newest", "+4 within 1d1h of the newest", "+5 within 1d1h of the newest", "+6 within 1d1h of the newest"}},
		"label": {retention.Rules{Labels: []retention.Label{{Key: "release"}}, Last: 1}, []string{
			"-1 no rule keeps it", "-2 no rule keeps it", "-3 no rule keeps it", "+4 label release", "-5 no rule keeps it", "+6 last 1 of 1"}},
		"all": {retention.Rules{All: true}, []string{
			"+1 all are kept", "+2 all are kept", "+3 all are kept", "+4 all are kept", "+5 all are kept", "+6 all are kept"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(t, chain, rules(tc.rules), retention.Options{Now: noon})
			expect(t, p, tc.want...)
			if err := p.Refusal(); err != nil {
				t.Error(err)
			}
			if stays := p.Stays(); stays+len(p.Goes()) != len(chain) || stays != strings.Count(strings.Join(verdicts(p), "\n"), "+") {
				t.Errorf("%d stay, %d go", stays, len(p.Goes()))
			}
		})
	}
}

// A clock that is 26 hours off neither makes a child older than its parent nor
// lets a rule prefer the parent.
func TestClocks(t *testing.T) {
	for _, skew := range []float64{-26, 26} {
		t.Run(fmt.Sprint(skew), func(t *testing.T) {
			// 2 and 4 come from the machine whose clock is wrong. They are children of 1
			// and 3, whatever the times say.
			snapshots := []retention.Snapshot{snap(1, 0, 0), snap(2, 1+skew, 1), snap(3, 2, 2), snap(4, 3+skew, 3)}
			p := plan(t, snapshots, rules(retention.Rules{Last: 1}), retention.Options{Now: noon})
			expect(t, p, "-1 no rule keeps it", "-2 no rule keeps it", "-3 no rule keeps it", "+4 last 1 of 1")
			p = plan(t, snapshots, rules(retention.Rules{Daily: 1}), retention.Options{Now: noon})
			if goes := p.Goes(); slices.Contains(goes, id(4)) || len(goes) != 3 {
				t.Errorf("goes %v", goes)
			}
			p = plan(t, snapshots, rules(retention.Rules{Within: 4 * time.Hour}), retention.Options{Now: noon})
			if goes := p.Goes(); slices.Contains(goes, id(4)) {
				t.Errorf("goes %v", goes)
			}
		})
	}
}

// The order holds also where an ancestor in between is in another group.
func TestOrderThroughAnotherGroup(t *testing.T) {
	between := snap(2, 10, 1)
	between.Source = "/elsewhere"
	p := plan(t, []retention.Snapshot{snap(1, 10, 0), between, snap(3, -10, 2)}, rules(retention.Rules{Last: 1}), retention.Options{Now: noon})
	expect(t, p, "+2 last 1 of 1", "-1 no rule keeps it", "+3 last 1 of 1")
	if at := p.Groups[1].Decisions[1].Effective; !at.Equal(noon.Add(10 * time.Hour)) {
		t.Errorf("effective time %v", at)
	}
}

func TestPinsAndTTL(t *testing.T) {
	now := noon.Add(48 * time.Hour)
	future := snap(9, 72, 0, "ttl=1h")
	atFixedTime := snap(8, 73, 0, "ttl=2026-01-04T00:00:00Z")
	for name, tc := range map[string]struct {
		snapshots []retention.Snapshot
		rules     retention.Rules
		want      []string
	}{
		"pinned goes before every rule": {[]retention.Snapshot{snap(1, 0, 0, "pin="), snap(2, 1, 0)}, retention.Rules{Last: 1},
			[]string{"+1 pinned", "+2 last 1 of 1"}},
		"expired goes although it is the last": {[]retention.Snapshot{snap(1, 0, 0), snap(2, 1, 0, "ttl=1h")}, retention.Rules{Last: 1},
			[]string{"+1 last 1 of 1", "-2 ttl ended 2026-01-03T14:00:00Z"}},
		"expired takes no place, kept or not": {[]retention.Snapshot{snap(1, 0, 0), snap(2, 1, 0, "ttl=1h", "keep=it"), snap(3, 2, 0, "ttl=1h", "pin=x")},
			retention.Rules{Last: 1, Within: time.Minute, Daily: 1, Labels: []retention.Label{{Key: "keep"}}},
			[]string{"+1 last 1 of 1, within 1m of the newest, daily 2026-01-03", "+2 label keep", "+3 pinned"}},
		"expired goes though all are kept": {[]retention.Snapshot{snap(1, 0, 0, "ttl=2026-01-05T11:59:59Z"), snap(2, 0.1, 0, "ttl=2026-01-05T12:00:01Z"), snap(3, 0.2, 0)}, retention.Rules{All: true},
			[]string{"-1 ttl ended 2026-01-05T11:59:59Z", "+2 all are kept", "+3 all are kept"}},
		"a ttl that has not ended protects from nothing": {[]retention.Snapshot{snap(1, 0, 0, "ttl=9d"), snap(2, 0, 0)}, retention.Rules{Last: 1},
			[]string{"-1 no rule keeps it", "+2 last 1 of 1"}},
		"what lies in the future has not expired": {[]retention.Snapshot{future, atFixedTime}, retention.Rules{Last: 2},
			[]string{"+9 last 2 of 2", "+8 last 1 of 2"}},
		"ttl counts from the effective time": {[]retention.Snapshot{snap(1, 40, 0), snap(2, -40, 1, "ttl=10h")}, retention.Rules{Last: 2},
			[]string{"+1 last 2 of 2", "+2 last 1 of 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, plan(t, tc.snapshots, rules(tc.rules), retention.Options{Now: now}), tc.want...)
		})
	}
}

func TestTTLThatMakesNoSenseIsNamed(t *testing.T) {
	p := plan(t, []retention.Snapshot{snap(1, 0, 0, "ttl=tomorrow")}, rules(retention.Rules{Last: 1}), retention.Options{Now: noon.Add(1e6 * time.Hour)})
	expect(t, p, "+1 last 1 of 1")
	if w := p.Groups[0].Decisions[0].Warning; !strings.Contains(w, `ttl="tomorrow"`) {
		t.Errorf("warning %q", w)
	}
}

func TestGroups(t *testing.T) {
	other := snap(3, 2, 0)
	other.Source = "/other"
	snapshots := []retention.Snapshot{snap(1, 0, 0, "agent=7"), snap(2, 1, 0, "agent=8"), other, snap(4, 3, 0)}
	for grouping, want := range map[retention.Grouping][]string{
		retention.BySource():       {"source /other -", "source /ws 4"},
		retention.ByLabel("agent"): {"source /other -", "source /ws -", "label agent=7 -", "label agent=8 -"},
		retention.Together():       {"all snapshots 4"},
	} {
		policy := rules(retention.Rules{Last: 1})
		policy.Sections[0].GroupBy = grouping
		var got []string
		p := plan(t, snapshots, policy, retention.Options{Now: noon})
		for _, g := range p.Groups {
			kept := "-" // there is no other one in the group
			if len(g.Decisions) > 1 {
				kept = fmt.Sprint(number(g.Decisions[len(g.Decisions)-1].Snapshot.ID))
			}
			if g.Stays() != 1 {
				t.Errorf("%v: %d stay", g.Key, g.Stays())
			}
			got = append(got, g.Key.String()+" "+kept)
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %v: %q, want %q", grouping, got, want)
		}
		if again, err := retention.ParseGrouping(grouping.String()); again != grouping || err != nil {
			t.Errorf("%v is read as %v, %v", grouping, again, err)
		}
	}
	for _, bad := range []string{"", "label:", "host", "None"} {
		if g, err := retention.ParseGrouping(bad); err == nil {
			t.Errorf("%q is read as %v", bad, g)
		}
	}
}

// A section takes what it selects from those behind it; what none selects stays.
func TestSections(t *testing.T) {
	policy := retention.Policy{Sections: []retention.Section{
		{Name: "scratch", Select: retention.Selector{Labels: []retention.Label{{Key: "tier", Value: "scratch"}}}, Rules: retention.Rules{Last: 1}},
		{Name: "all tiers", Select: retention.Selector{Labels: []retention.Label{{Key: "tier"}}}, GroupBy: retention.Together(), Rules: retention.Rules{Last: 2}},
	}}
	snapshots := []retention.Snapshot{
		snap(1, 0, 0, "tier=scratch"), snap(2, 1, 0, "tier=scratch"), snap(3, 2, 0, "tier=gold"), snap(4, 3, 0, "tier=gold"), snap(5, 4, 0, "tier=gold"),
		snap(6, 5, 0, "ttl=1s"),
	}
	p := plan(t, snapshots, policy, retention.Options{Now: noon.Add(99 * time.Hour)})
	expect(t, p, "-1 no rule keeps it", "+2 last 1 of 1", "-3 no rule keeps it", "+4 last 2 of 2", "+5 last 1 of 2", "+6 no section selects it")
	if err := p.Refusal(); err != nil {
		t.Error(err)
	}
	if names := []string{p.Groups[0].Section, p.Groups[1].Section, p.Groups[2].Section}; !slices.Equal(names, []string{"scratch", "all tiers", ""}) {
		t.Errorf("sections %q", names)
	}
}

func TestSelectors(t *testing.T) {
	s := retention.Snapshot{Source: "host:/home/x/ws", Labels: map[string]string{"a": "1", "b": ""}}
	for _, tc := range []struct {
		selector retention.Selector
		want     bool
	}{
		{retention.Selector{}, true},
		{retention.Selector{Labels: []retention.Label{{"a", "1"}, {"b", ""}}}, true},
		{retention.Selector{Labels: []retention.Label{{"a", "1"}, {"b", "2"}}}, false},
		{retention.Selector{Labels: []retention.Label{{"c", ""}}}, false},
		{retention.Selector{Source: "/home/*/ws"}, true},
		{retention.Selector{Source: "host:*"}, true},
		{retention.Selector{Source: "*/w?"}, true},
		{retention.Selector{Source: "home/*/ws"}, false},
		{retention.Selector{Source: "/home/x"}, false},
		{retention.Selector{Source: "/home/\\*/ws"}, false},
		{retention.Selector{Source: "/home/\\x/ws", Labels: []retention.Label{{"a", ""}}}, true},
	} {
		if got := tc.selector.Matches(s); got != tc.want {
			t.Errorf("%+v matches: %v", tc.selector, got)
		}
	}
}

func TestOnlyNarrows(t *testing.T) {
	only := func(s retention.Snapshot) bool { return s.Labels["stage"] == "ci" }
	snapshots := []retention.Snapshot{snap(1, 0, 0, "stage=ci"), snap(2, 1, 0), snap(3, 2, 0, "stage=ci"), snap(4, 3, 0)}
	expect(t, plan(t, snapshots, rules(retention.Rules{Last: 1}), retention.Options{Now: noon, Only: only}), "-1 no rule keeps it", "+3 last 1 of 1")
}

func TestObjections(t *testing.T) {
	two := []retention.Snapshot{snap(1, 0, 0), snap(2, 1, 1)}
	expired := []retention.Snapshot{snap(1, 0, 0, "ttl=1h"), snap(2, 1, 1, "ttl=1h")}
	labelled := append([]retention.Snapshot{snap(3, 0, 0, "release=1")}, two...)
	labelled[0].Source = "/released"
	later := noon.Add(99 * time.Hour)
	section := func(s retention.Section) retention.Policy {
		return retention.Policy{Sections: []retention.Section{s, {Rules: retention.Rules{All: true}}}}
	}
	match := func(text string) []retention.Label {
		l, err := retention.ParseLabel(text)
		if err != nil {
			t.Fatal(err)
		}
		return []retention.Label{l}
	}
	for name, tc := range map[string]struct {
		snapshots []retention.Snapshot
		policy    retention.Policy
		want      []error
		about     string // in the first objection
	}{
		"nothing is kept":           {two, rules(retention.Rules{}), []error{retention.ErrKeepsNothing, retention.ErrRemovesAll}, "policy"},
		"a group would be gone":     {labelled, rules(retention.Rules{Labels: match("release")}), []error{retention.ErrRemovesGroup}, "source /ws"},
		"a label that nothing has":  {two, rules(retention.Rules{Labels: match("relase"), Last: 1}), []error{retention.ErrMatchesNothing}, "keep-label relase"},
		"a value that nothing has":  {labelled, rules(retention.Rules{Labels: match("release=2"), Last: 1}), []error{retention.ErrMatchesNothing}, "keep-label release=2"},
		"a section without any":     {two, section(retention.Section{Name: "ci", Select: retention.Selector{Source: "/ci"}, Rules: retention.Rules{Last: 1}}), []error{retention.ErrMatchesNothing}, `section "ci": selector`},
		"an optional section":       {two, section(retention.Section{Name: "ci", Optional: true, Select: retention.Selector{Source: "/ci"}, Rules: retention.Rules{Last: 1, Labels: match("x")}}), nil, ""},
		"all have expired":          {expired, rules(retention.Rules{Last: 1}), []error{retention.ErrRemovesAll}, ""},
		"a whole group has expired": {append(labelled[:1:1], expired...), rules(retention.Rules{Last: 1}), nil, ""},
		"the newest lies far ahead": {[]retention.Snapshot{snap(1, 0, 0), snap(2, 99+53, 1)}, rules(retention.Rules{Within: time.Hour}), []error{retention.ErrFuture}, "source /ws"},
		"the newest lies ahead":     {[]retention.Snapshot{snap(1, 0, 0), snap(2, 99+51, 1)}, rules(retention.Rules{Within: time.Hour}), nil, ""},
		"no snapshots":              {nil, rules(retention.Rules{Labels: match("x")}), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(t, tc.snapshots, tc.policy, retention.Options{Now: later})
			err := p.Refusal()
			if len(p.Objections) != len(tc.want) || (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("objections %v", p.Objections)
			}
			for _, want := range tc.want {
				if !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
			}
			if len(p.Objections) > 0 && p.Objections[0].About != tc.about {
				t.Errorf("about %q", p.Objections[0].About)
			}
		})
	}
}

func TestForgetNamed(t *testing.T) {
	snapshots := []retention.Snapshot{snap(1, 0, 0, "pin="), snap(2, 1, 0, "ttl=1s"), snap(3, 2, 0)}
	p, err := retention.ForgetNamed(snapshots, []blob.ID{id(2)})
	if err != nil || p.Refusal() != nil {
		t.Fatal(err, p.Refusal())
	}
	expect(t, p, "-2 named")
	p, err = retention.ForgetNamed(snapshots, []blob.ID{id(1), id(3)})
	if err != nil || !errors.Is(p.Refusal(), retention.ErrPinned) || errors.Is(p.Refusal(), retention.ErrRemovesAll) {
		t.Error(err, p.Refusal())
	}
	expect(t, p, "-1 named, though it is pinned", "-3 named")
	if p, err = retention.ForgetNamed(snapshots[1:], []blob.ID{id(2), id(3)}); err != nil || !errors.Is(p.Refusal(), retention.ErrRemovesAll) {
		t.Error(err, p.Refusal())
	}
}

func TestForgetMatching(t *testing.T) {
	snapshots := []retention.Snapshot{snap(1, 0, 0, "pin=", "x=1"), snap(2, 1, 0, "x=1"), snap(3, 2, 0, "x=2")}
	labelled := func(text string) func(retention.Snapshot) bool {
		l, err := retention.ParseLabel(text)
		if err != nil {
			t.Fatal(err)
		}
		return retention.Selector{Labels: []retention.Label{l}}.Matches
	}
	p, err := retention.ForgetMatching(snapshots, labelled("x=1"))
	if err != nil || p.Refusal() != nil {
		t.Fatal(err, p.Refusal())
	}
	expect(t, p, "+1 pinned", "-2 selected")
	if p, err = retention.ForgetMatching(snapshots, labelled("y")); err != nil || !errors.Is(p.Refusal(), retention.ErrMatchesNothing) {
		t.Error(err, p.Refusal())
	}
	if p, err = retention.ForgetMatching(snapshots[1:], labelled("x")); err != nil || !errors.Is(p.Refusal(), retention.ErrRemovesAll) {
		t.Error(err, p.Refusal())
	}
}

func TestRefusalNamesFew(t *testing.T) {
	var snapshots []retention.Snapshot
	for n := range 9 {
		s := snap(n+1, 0, 0, "keep=it")
		s.Source = fmt.Sprintf("/ws/%d", n)
		if n > 0 {
			s.Labels = nil
		}
		snapshots = append(snapshots, s)
	}
	err := plan(t, snapshots, rules(retention.Rules{Labels: []retention.Label{{Key: "keep"}}}), retention.Options{Now: noon}).Refusal()
	if err == nil || !strings.Contains(err.Error(), "/ws/1") || !strings.HasSuffix(err.Error(), "and 5 more objections") {
		t.Errorf("error %v", err)
	}
}

func TestPoliciesThatMakeNoSense(t *testing.T) {
	for name, policy := range map[string]retention.Policy{
		"empty":             {},
		"negative":          rules(retention.Rules{Daily: -1, Last: 3}),
		"negative duration": rules(retention.Rules{Within: -time.Hour}),
		"label without key": rules(retention.Rules{Labels: []retention.Label{{Value: "x"}}}),
	} {
		if p, err := retention.NewPlan(nil, policy, retention.Options{}); !errors.Is(err, retention.ErrInvalid) || p != nil {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

func TestSnapshotsThatMakeNoSense(t *testing.T) {
	for name, snapshots := range map[string][]retention.Snapshot{
		"twice":            {snap(1, 0, 0), snap(1, 0, 0)},
		"its own parent":   {snap(1, 0, 1)},
		"its own ancestor": {snap(4, 0, 3), snap(1, 0, 3), snap(2, 0, 1), snap(3, 0, 2)},
	} {
		if _, err := retention.NewPlan(snapshots, rules(retention.Rules{Last: 1}), retention.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"90m": 90 * time.Minute, "14d": 336 * time.Hour, "1w": 168 * time.Hour, "1d12h": 36 * time.Hour, "5s": 5 * time.Second} {
		if got, err := retention.ParseDuration(text); got != want || err != nil {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0d", "3", "d", "-3d", "3 d", "3x", "9999999w", "1.5d", "99999999999999999999s"} {
		if got, err := retention.ParseDuration(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestOrderIsOldestFirst(t *testing.T) {
	decisions, err := retention.Order([]retention.Snapshot{snap(3, -9, 2), snap(2, 0, 1), snap(1, 0, 0), snap(4, -1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, d := range decisions {
		got = append(got, number(d.Snapshot.ID))
	}
	if !slices.Equal(got, []int{4, 1, 2, 3}) {
		t.Errorf("order %v", got)
	}
}
