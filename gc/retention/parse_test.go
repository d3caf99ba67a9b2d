package retention_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/gc/retention"
)

func TestParsePolicy(t *testing.T) {
	got, err := retention.ParsePolicy(`
# a fleet
group-by label:agent
keep-last	3
  keep-daily 7
keep-label release

[scratch]
select-label tier=scratch
select-label team
group-by source
keep-within 1d12h
keep-last 0

[ci builds]
select-source */ci
keep-label "note=a \"b\" "
keep-label stage=
keep-hourly 1
keep-weekly 2
keep-monthly 3
keep-yearly 4
optional

[forever]
select-source "\xff"
keep-all
`)
	if err != nil {
		t.Fatal(err)
	}
	want := retention.Policy{Sections: []retention.Section{
		{Name: "scratch", Select: retention.Selector{Labels: []retention.Label{{"tier", "scratch"}, {"team", ""}}}, Rules: retention.Rules{Within: 36 * time.Hour}},
		{Name: "ci builds", Select: retention.Selector{Source: "*/ci"}, GroupBy: retention.ByLabel("agent"), Optional: true,
			Rules: retention.Rules{Hourly: 1, Weekly: 2, Monthly: 3, Yearly: 4, Labels: []retention.Label{{"note", `a "b" `}, {"stage", ""}}}},
		{Name: "forever", Select: retention.Selector{Source: "\xff"}, GroupBy: retention.ByLabel("agent"), Rules: retention.Rules{All: true}},
		{GroupBy: retention.ByLabel("agent"), Rules: retention.Rules{Last: 3, Daily: 7, Labels: []retention.Label{{"release", ""}}}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read as\n%+v, want\n%+v", got, want)
	}
}

func TestPolicyErrorsNameTheLine(t *testing.T) {
	const section = "[a]\nselect-label x\n"
	for text, want := range map[string]string{
		"keep-last 3\nkeep-dayly 7":            `line 2: unknown setting "keep-dayly"`,
		"keep-last":                            `line 1: keep-last: "" is no count`,
		"keep-last -1":                         `line 1: keep-last: "-1" is no count`,
		"keep-last 1e3":                        `line 1: keep-last: "1e3" is no count`,
		"keep-last 3 4":                        `line 1: keep-last: "3 4" is no count`,
		"keep-last 4294967296":                 `is no count`,
		"keep-last 3\nkeep-last 4":             `line 2: keep-last is there twice`,
		"\nkeep-within soon":                   `line 2: keep-within: "soon" is no duration`,
		"keep-label =x":                        `line 1: keep-label: a label is KEY=VALUE`,
		`keep-label "x`:                        `line 1: keep-label: "x is no quoted string`,
		"keep-all yes":                         `line 1: keep-all: it takes no value`,
		"group-by host":                        `line 1: group-by: "host" is not`,
		"select-label x":                       `line 1: select-label: it belongs in a section`,
		"optional":                             `line 1: optional: it belongs in a section`,
		"keep-last 1\xff":                      `line 1: it is not UTF-8`,
		"[]":                                   `line 1: a section begins with [NAME]`,
		"[a":                                   `line 1: a section begins with [NAME]`,
		section + "keep-last 1\n[a]":           `line 4: section "a" is there twice`,
		section + "keep-last 1\nselect-source": `line 4: select-source: a pattern is needed`,
		"[a]\nkeep-last 1\n[b]":                `line 3: section "a" selects nothing`,
		"[a]\nkeep-last 1":                     `line 2: section "a" selects nothing`,
		section + "group-by none":              `line 3: section "a" has no rule`,
		"":                                     `it says nothing`,
		"# nothing\ngroup-by none":             `it says nothing`,
		strings.Repeat("#", 1<<20+1):           `more than 1048576`,
	} {
		p, err := retention.ParsePolicy(text)
		if !errors.Is(err, retention.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q; read as %+v", text, err, want, p)
		}
	}
}

// A rule that keeps nothing is read, and objected to when it is applied.
func TestZeroIsACount(t *testing.T) {
	policy, err := retention.ParsePolicy("keep-last 0")
	if err != nil {
		t.Fatal(err)
	}
	p := plan(t, []retention.Snapshot{snap(1, 0, 0)}, policy, retention.Options{Now: noon})
	if err := p.Refusal(); !errors.Is(err, retention.ErrKeepsNothing) {
		t.Errorf("error %v", err)
	}
}
