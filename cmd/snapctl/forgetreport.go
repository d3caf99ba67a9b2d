package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/gc/retention"
)

func (c *cli) printForgetPlan(plan *engine.ForgetPlan) error {
	for _, u := range plan.Unreadable {
		c.talk.warn("snapshot %v cannot be read, and stays: %v", u.ID, u.Err)
	}
	for _, g := range plan.Groups {
		for _, d := range g.Decisions {
			if d.Warning != "" {
				c.talk.warn("snapshot %v: %s", d.Snapshot.ID, d.Warning)
			}
		}
		if err := c.printForgetGroup(g); err != nil {
			return err
		}
	}
	return nil
}

// printForgetGroup prints a group as a table, or each of its snapshots as a line of
// JSON.
func (c *cli) printForgetGroup(g retention.Group) error {
	if !c.globals.json {
		return c.printer().print(forgetTable{g})
	}
	for _, d := range g.Decisions {
		if err := c.printer().print(forgetLineOf(g, d)); err != nil {
			return err
		}
	}
	return nil
}

type forgetTable struct{ group retention.Group }

func (t forgetTable) text(w *bufio.Writer) {
	g := t.group
	section := ""
	if g.Section != "" {
		section = quote(g.Section) + ", "
	}
	fmt.Fprintf(w, "%s%s: %s\n", section, quote(g.Key.String()), countsOf(g))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, d := range g.Decisions {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", actionOf(d), shortID(d.Snapshot.ID), shortTime(manifest.TimeOf(d.Effective)), printable(strings.Join(d.Reasons, ", ")))
	}
	table.Flush()
}

// countsOf does not say that none stay where nobody looked at the others.
func countsOf(g retention.Group) string {
	stay := g.Stays()
	goes := len(g.Decisions) - stay
	if g.Chosen && stay == 0 {
		return fmt.Sprintf("%d go", goes)
	}
	return fmt.Sprintf("%d stay, %d go", stay, goes)
}

func actionOf(d retention.Decision) string {
	if d.Keep {
		return "keep"
	}
	return "forget"
}

// forgetLine is one snapshot of a plan.
type forgetLine struct {
	Type     string   `json:"type"`
	Snapshot string   `json:"snapshot"`
	Action   string   `json:"action"` // "keep" or "forget"
	Reasons  []string `json:"reasons"`
	Time     string   `json:"time"` // effective
	sourceFields
	Labels  map[string]string `json:"labels"`
	Section string            `json:"section,omitempty"` // of the policy
	GroupBy string            `json:"group_by"`          // "source", "label:KEY" or "none"
}

func forgetLineOf(g retention.Group, d retention.Decision) forgetLine {
	by := retention.BySource()
	switch {
	case g.Key.All:
		by = retention.Together()
	case g.Key.Label.Key != "":
		by = retention.ByLabel(g.Key.Label.Key)
	}
	labels := d.Snapshot.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return forgetLine{
		Type: "snapshot", Snapshot: d.Snapshot.ID.String(), Action: actionOf(d), Reasons: d.Reasons, Time: stamp(manifest.TimeOf(d.Effective)),
		sourceFields: sourceOf(d.Snapshot.Source), Labels: labels, Section: g.Section, GroupBy: by.String(),
	}
}

func (forgetLine) text(*bufio.Writer) {}

type forgetSummary struct {
	Type       string  `json:"type"`
	Kept       int     `json:"kept"`
	Forgotten  int     `json:"forgotten"` // or would be
	Pinned     int     `json:"pinned"`    // since the plan was made, and kept
	Unreadable int     `json:"unreadable"`
	DryRun     bool    `json:"dry_run"`
	Freed      *weight `json:"freed,omitempty"` // of a dry run: what a collection could free
}

func (s forgetSummary) text(w *bufio.Writer) {
	if s.Freed != nil {
		fmt.Fprintf(w, "forgetting %s would let a collection free about %s\n", plural(uint64(s.Forgotten), "snapshot"), s.Freed.stored())
	}
}

// undoForget has a forgotten snapshot back. One that is there already stays.
func (c *cli) undoForget(ctx context.Context, repo *engine.Repository, name string) error {
	id, err := repo.ResolveForgotten(ctx, name)
	if errors.Is(err, engine.ErrNotFound) {
		if there, resolveErr := repo.Resolve(ctx, name, engine.Filter{}); resolveErr == nil && name != engine.Latest {
			id, err = there, nil
		}
	}
	if errors.Is(err, engine.ErrNotFound) {
		return &hinted{err, "`snapctl forget --forgotten` lists what can be had back"}
	}
	if err != nil {
		return err
	}
	c.talk.begin("undo")
	info, err := repo.UndoForget(ctx, id)
	c.talk.done()
	if errors.Is(err, engine.ErrCollected) {
		return &hinted{err, "run `snapctl repair index` and try again; if another repository has the snapshot, `snapctl pull` brings it back"}
	}
	if err != nil {
		return err
	}
	c.talk.say("snapshot %v is there; a policy may forget it again: `snapctl label %s pin=` protects it", info.ID, shortID(info.ID))
	return c.printer().print(undoReport{"summary", info.ID.String()})
}

type undoReport struct {
	Type     string `json:"type"`
	Snapshot string `json:"snapshot"`
}

func (r undoReport) text(w *bufio.Writer) { fmt.Fprintln(w, r.Snapshot) }

func (c *cli) listForgotten(ctx context.Context, repo *engine.Repository) error {
	all, err := repo.Forgotten(ctx)
	if err != nil {
		return err
	}
	report := forgottenReport{Type: "summary", Snapshots: make([]forgottenSnapshot, len(all))}
	for i, f := range all {
		report.Snapshots[i] = forgottenSnapshot{manifestReportOf(f.Info), stamp(manifest.TimeOf(f.At))}
	}
	return c.printer().print(report)
}

type forgottenReport struct {
	Type      string              `json:"type"`
	Snapshots []forgottenSnapshot `json:"snapshots"`
}

type forgottenSnapshot struct {
	manifestReport
	Forgotten string `json:"forgotten"` // when
}

func (r forgottenReport) text(w *bufio.Writer) {
	if len(r.Snapshots) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SNAPSHOT\tFORGOTTEN\tTIME\tFILES\tSIZE\tSOURCE\tLABELS")
	for _, s := range r.Snapshots {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", s.Snapshot[:12], s.Forgotten, shortTime(s.time), s.Files, size(s.Bytes), quote(s.Source), labelText(s.Labels))
	}
	table.Flush()
}
