package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine"
)

func newRepairCommand(c *cli) *cobra.Command {
	return parent(spec{
		use: "repair", group: groupAdvanced, short: "repair what can be repaired, in the order of these commands",
		example: "  snapctl check --read-data\n  snapctl repair index\n  snapctl repair packs\n  snapctl repair snapshots --dry-run",
	}, newRepairIndexCommand(c), newRepairPacksCommand(c), newRepairSnapshotsCommand(c), newRepairSessionsCommand(c))
}

// todo is the end of a rehearsal that found something to do. Its exit status is that
// of incomplete work.
type todo struct{ what string }

func (t todo) Error() string { return t.what }

// Is makes it incomplete work.
func (t todo) Is(target error) bool { return target == engine.ErrPartial }

const hintDoIt = "nothing was changed; without --dry-run it is done"

// toDo is nil if there is nothing to do.
func toDo(empty bool, what string) error {
	if empty {
		return nil
	}
	return &hinted{todo{what}, hintDoIt}
}

func newRepairIndexCommand(c *cli) *cobra.Command {
	dryRun := false
	cmd := c.command(spec{
		use: "index", args: cobra.NoArgs, exits: exitsPartial,
		short: "build the index anew from the packs",
		long: `The packs say themselves what they hold. Those that cannot be read are named and
marked as damaged, and the exit status is 13.`,
		example: "  snapctl repair index --dry-run\n  snapctl repair index",
	}, func(ctx context.Context, _ []string) error {
		if dryRun {
			return c.planRepairIndex(ctx)
		}
		return c.repairIndex(ctx)
	})
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "say what is wrong with the index; change nothing")
	return cmd
}

func (c *cli) planRepairIndex(ctx context.Context) error {
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		c.talk.begin("repair index")
		plan, err := repo.PlanRepairIndex(ctx)
		c.talk.done()
		if err != nil {
			return err
		}
		p := c.printer()
		for _, problems := range [][]engine.Problem{plan.Segments, plan.Unindexed, plan.Missing} {
			for _, problem := range problems {
				if err := p.print(problemReportOf(problem)); err != nil {
					return err
				}
			}
		}
		s := repairSummary{Type: "summary", DryRun: true, DamagedSegments: len(plan.Segments), Unindexed: len(plan.Unindexed), Missing: len(plan.Missing)}
		return errors.Join(p.print(s), toDo(plan.Empty(), "the index is not what the packs say"))
	})
}

func (c *cli) repairIndex(ctx context.Context) error {
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		c.talk.begin("repair index")
		result, err := repo.RepairIndex(ctx)
		c.talk.done()
		if result == nil {
			return err
		}
		p := c.printer()
		for _, problem := range result.Damaged {
			err = errors.Join(err, p.print(problemReportOf(problem)))
		}
		c.talk.say("indexed %s in %s, %s written", plural(result.Blobs, "blob"), plural(result.Packs, "pack"), plural(result.Segments, "segment"))
		return errors.Join(err, p.print(repairSummary{Type: "summary", Packs: result.Packs, Blobs: result.Blobs, Segments: result.Segments, Damaged: len(result.Damaged)}))
	})
}

type repairSummary struct {
	Type            string `json:"type"`
	DryRun          bool   `json:"dry_run"`
	Packs           uint64 `json:"packs"`
	Blobs           uint64 `json:"blobs"`
	Segments        uint64 `json:"segments"`
	Damaged         int    `json:"damaged"`
	DamagedSegments int    `json:"damaged_segments"`
	Unindexed       int    `json:"unindexed"`
	Missing         int    `json:"missing"`
}

func (repairSummary) text(*bufio.Writer) {}

func newRepairSessionsCommand(c *cli) *cobra.Command {
	var force, dryRun bool
	cmd := c.command(spec{
		use: "sessions", args: cobra.NoArgs, exits: exitsPartial,
		short: "list attempts to publish that cannot be read, and delete them",
		long: `What such an attempt is about to publish is not known, so that no collection can
begin. It is deleted with --force, which says that no snapshot and no push into this
repository runs, here or on another machine.`,
		example: "  snapctl repair sessions\n  snapctl repair sessions --force",
	}, func(ctx context.Context, _ []string) error {
		if dryRun {
			force = false
		}
		return c.repairSessions(ctx, force)
	})
	cmd.Flags().BoolVar(&force, "force", false, "no snapshot or push runs: delete them")
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "list them; change nothing")
	return cmd
}

func (c *cli) repairSessions(ctx context.Context, force bool) error {
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		plan, err := repo.PlanRepairSessions(ctx)
		if err != nil {
			return err
		}
		p := c.printer()
		for _, s := range plan.Sessions {
			if err := p.print(sessionReport{"session", s.Object, s.Began.UTC().Format(time.RFC3339), s.Err.Error()}); err != nil {
				return err
			}
		}
		if err := c.out.Flush(); err != nil { // it is to be read before anything happens
			return err
		}
		summary := sessionsSummary{Type: "summary", DryRun: !force, Sessions: len(plan.Sessions)}
		if !force {
			err = toDo(plan.Empty(), plural(uint64(len(plan.Sessions)), "attempt")+" to publish cannot be read")
			if err != nil {
				err = &hinted{err, "make sure that no snapshot and no push runs, here or elsewhere; then add --force"}
			}
			return errors.Join(p.print(summary), err)
		}
		summary.Deleted, err = repo.RepairSessions(ctx, plan)
		c.talk.say("deleted %s", plural(uint64(summary.Deleted), "attempt"))
		return errors.Join(err, p.print(summary))
	})
}

// sessionReport is an attempt to publish that cannot be read.
type sessionReport struct {
	Type   string `json:"type"`
	Object string `json:"object"`
	Began  string `json:"began"` // by the clock of the store
	Error  string `json:"error"`
}

func (r sessionReport) text(w *bufio.Writer) {
	fmt.Fprintf(w, "%s, of %s: %s\n", quote(r.Object), r.Began, printable(r.Error))
}

type sessionsSummary struct {
	Type     string `json:"type"`
	DryRun   bool   `json:"dry_run"`
	Sessions int    `json:"sessions"`
	Deleted  int    `json:"deleted"`
}

func (sessionsSummary) text(*bufio.Writer) {}
