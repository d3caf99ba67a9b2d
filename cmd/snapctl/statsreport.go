package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/gc/retention"
)

func (c *cli) usage(ctx context.Context, repo *engine.Repository, by usageBy) error {
	u, err := repo.Usage(ctx, by.name)
	if err != nil {
		return err
	}
	if by.kind != "snapshot" { // those are in the order of time
		slices.SortFunc(u.Groups, func(a, b engine.Usage) int { return cmp.Compare(a.Name, b.Name) })
	}
	report := usageReport{By: by.kind, Whole: usageLineOf(u.Whole), Unreferenced: weightOf(u.Unreferenced), Lines: make([]usageLine, len(u.Groups))}
	if by.kind == "label" {
		report.Label = &by.label
	}
	for i, g := range u.Groups {
		report.Lines[i] = by.line(g)
	}
	return errors.Join(c.printer().print(report), c.incomplete(u.Gaps))
}

// usageReport says who takes how much.
type usageReport struct {
	By           string      `json:"by"` // "snapshot", "source" or "label"
	Label        *string     `json:"label,omitempty"`
	Lines        []usageLine `json:"lines"`
	Whole        usageLine   `json:"whole"`
	Unreferenced *weight     `json:"unreferenced"` // reached by no snapshot
}

// usageLine is what some snapshots take. Exactly one of the names is there, and
// none in the line of the whole; "value" is null for those without the label.
type usageLine struct {
	Snapshot string `json:"snapshot,omitempty"`
	*sourceFields
	Value     *nullable `json:"value,omitempty"`
	Snapshots int       `json:"snapshots"`
	Logical   uint64    `json:"logical_bytes"`
	Total     *weight   `json:"total"`
	Unique    *weight   `json:"unique"`
	Shared    *weight   `json:"shared"`

	name string // for people
}

// nullable is a text that may be null.
type nullable struct{ text *string }

// MarshalJSON implements json.Marshaler.
func (n nullable) MarshalJSON() ([]byte, error) { return marshalLine(n.text) }

func usageLineOf(u engine.Usage) usageLine {
	return usageLine{
		Snapshots: u.Snapshots, Logical: u.Logical,
		Total: weightOf(u.Total), Unique: weightOf(u.Unique), Shared: weightOf(u.Shared()),
	}
}

func (b usageBy) line(u engine.Usage) usageLine {
	line := usageLineOf(u)
	switch {
	case b.kind == "snapshot":
		line.Snapshot, line.name = u.Name, u.Name[:12]
	case b.kind == "source":
		source := sourceOf(u.Name)
		line.sourceFields, line.name = &source, quote(u.Name)
	case u.Name == withoutLabel:
		line.Value, line.name = &nullable{}, "without "+quote(b.label)
	default:
		value := u.Name[1:]
		line.Value, line.name = &nullable{&value}, quote(b.label+u.Name)
	}
	return line
}

func (r usageReport) text(w *bufio.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LOGICAL\tSTORED\tUNIQUE\tSHARED\tSNAPSHOTS\tOF")
	r.Whole.name = "all"
	for _, l := range append(slices.Clone(r.Lines), r.Whole) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", size(l.Logical), size(l.Total.StoredBytes), size(l.Unique.StoredBytes), size(l.Shared.StoredBytes), l.Snapshots, l.name)
	}
	table.Flush()
	if r.Unreferenced.Blobs > 0 {
		fmt.Fprintf(w, "no snapshot needs %s\n", r.Unreferenced.stored())
	}
}

func (c *cli) growth(ctx context.Context, repo *engine.Repository, period retention.Period) error {
	g, err := repo.Growth(ctx, period)
	if err != nil {
		return err
	}
	report := growthReport{Period: string(period), Lines: make([]growthLine, len(g.Periods))}
	for i, p := range g.Periods {
		report.Lines[i] = growthLine{p.Period, p.Snapshots, p.Logical, weightOf(p.New)}
	}
	return errors.Join(c.printer().print(report), c.incomplete(g.Gaps))
}

// growthReport says what each period added.
type growthReport struct {
	Period string       `json:"period"` // "day", "week" or "month"
	Lines  []growthLine `json:"lines"`
}

type growthLine struct {
	Name      string  `json:"name"` // such as 2026-01-03
	Snapshots int     `json:"snapshots"`
	Logical   uint64  `json:"logical_bytes"`
	New       *weight `json:"new"` // what no earlier snapshot reaches
}

func (r growthReport) text(w *bufio.Writer) {
	if len(r.Lines) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PERIOD\tSNAPSHOTS\tLOGICAL\tNEW\tSTORED\tSTORED SO FAR")
	total := uint64(0)
	for _, l := range r.Lines {
		total += l.New.StoredBytes
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\n", l.Name, l.Snapshots, size(l.Logical), size(l.New.Bytes), size(l.New.StoredBytes), size(total))
	}
	table.Flush()
}

func (c *cli) wouldFree(ctx context.Context, repo *engine.Repository, names []string) error {
	var ids []engine.ID
	for _, name := range names {
		id, err := repo.Resolve(ctx, name, engine.Filter{})
		if err != nil {
			return err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	freed, err := repo.WouldFree(ctx, ids...)
	if err != nil {
		return err
	}
	report := freeReport{Snapshots: make([]string, len(ids)), Freed: weightOf(freed.Weight)}
	for i, id := range ids {
		report.Snapshots[i] = id.String()
	}
	return errors.Join(c.printer().print(report), c.incomplete(freed.Gaps))
}

// freeReport is what forgetting snapshots would free.
type freeReport struct {
	Snapshots []string `json:"snapshots"`
	Freed     *weight  `json:"freed"`
}

func (r freeReport) text(w *bufio.Writer) {
	fmt.Fprintf(w, "forgetting %s would let a collection free about %s\n", plural(uint64(len(r.Snapshots)), "snapshot"), r.Freed.stored())
}
