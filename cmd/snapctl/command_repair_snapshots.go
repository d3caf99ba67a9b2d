package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine"
)

func newRepairSnapshotsCommand(c *cli) *cobra.Command {
	var opts engine.RepairSnapshotsOptions
	dryRun := false
	cmd := c.command(spec{
		use: "snapshots [SNAP]...", args: cobra.ArbitraryArgs, exits: exitsPartial,
		short: "make snapshots without what is lost from damaged ones",
		long: `A snapshot that has lost something gets a successor that holds all the rest: a
snapshot of its own, with the labels of the damaged one and repaired-from=SNAP, which
names each path that it lacks, and why. The damaged one is kept unless
--forget-damaged is given; collections may stop at it. One of which nothing can be read
stays too, unless that is given.

Labels that cannot be read are replaced by pin=damaged-label, since they may have been
pins, and no snapshot can be listed beside them.
A damaged record of a snapshot that another record tells of is replaced by a tombstone.

First take a new snapshot of the workspace, or push from a copy, then run "snapctl
repair index" and "snapctl repair packs": what they bring back need not be given up.`,
		example: "  snapctl repair snapshots --dry-run\n  snapctl repair snapshots\n  snapctl repair snapshots 3f9a1c22 --forget-damaged",
	}, func(ctx context.Context, args []string) error { return c.repairSnapshots(ctx, args, opts, dryRun) })
	cmd.Flags().BoolVar(&opts.ForgetDamaged, "forget-damaged", false, "forget the damaged snapshots that have a successor, and those of which nothing can be read, pinned ones too")
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "say what would be left out, and why; change nothing")
	return cmd
}

func (c *cli) repairSnapshots(ctx context.Context, snaps []string, opts engine.RepairSnapshotsOptions, dryRun bool) error {
	return c.withRepository(ctx, func(repo *engine.Repository) (err error) {
		if opts.Snapshots, err = resolveAll(ctx, repo, snaps); err != nil {
			return err
		}
		start := time.Now()
		c.talk.begin("repair snapshots")
		plan, err := repo.PlanRepairSnapshots(ctx, opts)
		c.talk.done()
		if err != nil {
			return err
		}
		if err := c.printSnapshotsPlan(plan); err != nil {
			return err
		}
		s := snapshotsSummary{Type: "summary", DryRun: dryRun, Damaged: len(plan.Snapshots), Labels: uint64(len(plan.Labels)), Records: uint64(len(plan.Records)), Hopeless: plan.Hopeless()}
		if dryRun {
			s.DurationMS = time.Since(start).Milliseconds()
			err := toDo(plan.Empty(), "there are snapshots to repair")
			if err == nil && s.Hopeless > 0 {
				err = fmt.Errorf("%w: nothing can be read of %s", engine.ErrDamaged, plural(uint64(s.Hopeless), "snapshot"))
			}
			return errors.Join(c.printer().print(s), hintHopeless(err))
		}
		c.talk.begin("repair snapshots")
		result, err := repo.RepairSnapshots(ctx, plan)
		c.talk.done()
		s.DurationMS = time.Since(start).Milliseconds()
		return errors.Join(c.printRepaired(plan, result, s), hintHopeless(err))
	})
}

// hintHopeless says what to do about snapshots of which nothing is left.
func hintHopeless(err error) error {
	if err == nil || !errors.Is(err, engine.ErrDamaged) {
		return err
	}
	return &hinted{err, "a push from a copy may still bring it back; --forget-damaged gives it up"}
}

func (c *cli) printSnapshotsPlan(plan *engine.RepairSnapshotsPlan) error {
	p := c.printer()
	for _, problem := range slices.Concat(plan.Labels, plan.Records) {
		if err := p.print(problemReportOf(problem)); err != nil {
			return err
		}
	}
	for _, s := range plan.Snapshots {
		if err := p.print(snapshotRepairOf(s)); err != nil {
			return err
		}
	}
	return c.out.Flush() // it is to be read before anything happens
}

// printRepaired tells what came of a plan that was printed.
func (c *cli) printRepaired(plan *engine.RepairSnapshotsPlan, result *engine.RepairSnapshotsResult, s snapshotsSummary) error {
	p := c.printer()
	kept := uint64(0)
	for i, repaired := range result.Snapshots {
		if !repaired.Forget && repaired.Hopeless == nil {
			kept++
		}
		if repaired.Successor.IsZero() || !plan.Snapshots[i].Successor.IsZero() {
			continue
		}
		s.Repaired++
		if err := p.print(repairedReport{"repaired", repaired.ID.String(), repaired.Successor.String()}); err != nil {
			return err
		}
	}
	s.Labels, s.Records, s.Forgotten, s.StoredBytes = result.Labels, result.Records, result.Forgotten, result.StoredBytes
	c.talk.say("repaired %s, forgot %s, %s written", plural(s.Repaired, "snapshot"), plural(s.Forgotten, "snapshot"), size(s.StoredBytes))
	if s.Labels > 0 {
		c.talk.say("put pins in place of %s that could not be read: `snapctl list --label pin=%s` shows of which snapshots", plural(s.Labels, "label change"), engine.DamagedLabel)
	}
	if kept > 0 {
		c.talk.say("kept %s: collections may stop there until --forget-damaged", plural(kept, "damaged snapshot"))
	}
	return p.print(s)
}

// snapshotRepair is what becomes of a damaged snapshot.
type snapshotRepair struct {
	Type      string  `json:"type"`
	Snapshot  string  `json:"snapshot"`
	Successor *string `json:"successor"` // that an earlier repair made
	// Action is repair, done if there is a successor, or none if nothing can be read.
	Action  string     `json:"action"`
	Forget  bool       `json:"forget"`
	Error   string     `json:"error,omitempty"` // why nothing can be read
	Dropped []omission `json:"dropped"`
	More    uint64     `json:"more_dropped,omitempty"`
}

func snapshotRepairOf(s engine.SnapshotRepair) snapshotRepair {
	r := snapshotRepair{Type: "snapshot", Snapshot: s.ID.String(), Action: "repair", Forget: s.Forget, Dropped: omissionsOf(s.Dropped), More: s.MoreDropped}
	if !s.Successor.IsZero() {
		successor := s.Successor.String()
		r.Successor, r.Action = &successor, "done"
	}
	if s.Hopeless != nil {
		r.Action, r.Error = "none", s.Hopeless.Error()
	}
	return r
}

func (r snapshotRepair) text(w *bufio.Writer) {
	w.WriteString(r.Snapshot[:12])
	switch r.Action {
	case "none":
		fmt.Fprintf(w, ": nothing can be read: %s", printable(r.Error))
	case "done":
		fmt.Fprintf(w, ": was repaired, see %s", (*r.Successor)[:12])
	default:
		w.WriteString(": repair without")
	}
	if r.Forget {
		w.WriteString("; forget")
	}
	fmt.Fprintln(w)
	if r.Action != "repair" {
		return
	}
	for _, o := range r.Dropped {
		fmt.Fprintf(w, "  %s: %s\n", displayPath(o.raw()), printable(o.Reason))
	}
	if r.More > 0 {
		fmt.Fprintf(w, "  and %s more\n", plural(r.More, "path"))
	}
}

// repairedReport is a snapshot that was made from a damaged one.
type repairedReport struct {
	Type      string `json:"type"`
	Snapshot  string `json:"snapshot"`
	Successor string `json:"successor"`
}

func (r repairedReport) text(w *bufio.Writer) {
	fmt.Fprintf(w, "%s is the repaired %s\n", r.Successor, r.Snapshot[:12])
}

type snapshotsSummary struct {
	Type        string `json:"type"`
	DryRun      bool   `json:"dry_run"`
	Damaged     int    `json:"damaged"`
	Repaired    uint64 `json:"repaired"`
	Forgotten   uint64 `json:"forgotten"`
	Labels      uint64 `json:"labels"`   // replaced by pins; in a dry run, to be replaced
	Records     uint64 `json:"records"`  // replaced by tombstones, since another can be read; in a dry run, to be replaced
	Hopeless    int    `json:"hopeless"` // snapshots of which nothing can be read, and that stay
	StoredBytes uint64 `json:"stored_bytes"`
	DurationMS  int64  `json:"duration_ms"`
}

func (snapshotsSummary) text(*bufio.Writer) {}
