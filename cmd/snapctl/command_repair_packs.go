package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine"
)

func newRepairPacksCommand(c *cli) *cobra.Command {
	dryRun := false
	cmd := c.command(spec{
		use: "packs", args: cobra.NoArgs, exits: exitsPartial,
		short: "save what can be read of damaged packs",
		long: `Packs that a check has marked as damaged, or that have another size than the index
says, are read. Whatever can be read of them, and no other pack holds, is compared
with its id and stored again. The damaged packs stay, marked, until a collection
takes them. What could not be had is named, and the exit status is 13: "snapctl
check" says which files need it, if any.`,
		example: "  snapctl check --read-data\n  snapctl repair packs --dry-run\n  snapctl repair packs",
	}, func(ctx context.Context, _ []string) error { return c.repairPacks(ctx, dryRun) })
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "say what can be saved and what is lost; change nothing")
	return cmd
}

func (c *cli) repairPacks(ctx context.Context, dryRun bool) error {
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		start := time.Now()
		c.talk.begin("repair packs")
		plan, err := repo.PlanRepairPacks(ctx)
		c.talk.done()
		if err != nil {
			return err
		}
		p := c.printer()
		for _, pack := range plan.Packs {
			if err := p.print(packRepairOf(pack)); err != nil {
				return err
			}
		}
		if err := c.out.Flush(); err != nil { // it is to be read before anything happens
			return err
		}
		s := packsSummary{Type: "summary", DryRun: dryRun, Packs: len(plan.Packs)}
		s.Lost, s.Unknown = plan.Lost()
		if dryRun {
			s.DurationMS = time.Since(start).Milliseconds()
			err := toDo(plan.Empty(), "there are packs to repair")
			if err == nil && s.Lost+s.Unknown > 0 {
				err = fmt.Errorf("%w: nothing more can be saved", engine.ErrDamaged)
			}
			return errors.Join(p.print(s), hintLost(err))
		}
		c.talk.begin("repair packs")
		result, err := repo.RepairPacks(ctx, plan)
		c.talk.done()
		s.add(result)
		s.DurationMS = time.Since(start).Milliseconds()
		c.talk.say("saved %s of %s from %s, %s written", plural(result.Blobs, "blob"), size(result.Bytes), plural(uint64(len(plan.Packs)), "pack"), size(result.StoredBytes))
		return errors.Join(p.print(s), hintLost(err))
	})
}

// hintLost says what to do about what no repair of packs brings back.
func hintLost(err error) error {
	if err == nil || !errors.Is(err, engine.ErrDamaged) {
		return err
	}
	return &hinted{err, "a new snapshot of the workspace, or a push from a copy, may still bring it back; `snapctl check` says what it affects, and `snapctl repair snapshots` gives it up"}
}

// packRepair is what becomes of a pack.
type packRepair struct {
	Type         string     `json:"type"`
	Object       string     `json:"object"`
	What         string     `json:"what"` // missing, damaged or whole
	Error        string     `json:"error,omitempty"`
	Mark         bool       `json:"mark"`    // it is to be marked
	Unmark       bool       `json:"unmark"`  // its mark is to be taken away
	Unknown      bool       `json:"unknown"` // what it held is not known
	Held         uint64     `json:"held"`    // blobs that other packs hold
	Salvage      uint64     `json:"salvage"` // blobs that are stored again
	SalvageBytes uint64     `json:"salvage_bytes"`
	Lost         []lostBlob `json:"lost,omitempty"`
	MoreLost     uint64     `json:"more_lost,omitempty"`
}

type lostBlob struct {
	Kind string `json:"kind"`
	Blob string `json:"blob"`
}

func packRepairOf(p engine.PackRepair) packRepair {
	r := packRepair{
		Type: "pack", Object: p.Object, What: string(p.What), Mark: p.Mark, Unmark: p.Whole, Unknown: p.Unknown,
		Held: p.Held, Salvage: p.Salvage, SalvageBytes: p.SalvageBytes, MoreLost: p.MoreLost,
	}
	if p.Whole {
		r.What = "whole"
	}
	if p.Err != nil {
		r.Error = p.Err.Error()
	}
	for _, lost := range p.Lost {
		r.Lost = append(r.Lost, lostBlob{lost.Kind.String(), lost.ID.String()})
	}
	return r
}

func (r packRepair) text(w *bufio.Writer) {
	fmt.Fprintf(w, "%s %s", r.What, r.Object)
	switch {
	case r.Unmark:
		fmt.Fprintln(w, ": take its mark away")
		return
	case r.Unknown:
		fmt.Fprintln(w, ": neither its footer nor the index says what it held")
		return
	}
	var parts []string
	for _, part := range []struct {
		blobs uint64
		text  string
	}{
		{r.Salvage, "save %s, " + size(r.SalvageBytes)}, {r.Held, "in other packs: %s"}, {uint64(len(r.Lost)) + r.MoreLost, "lost: %s"},
	} {
		if part.blobs > 0 {
			parts = append(parts, fmt.Sprintf(part.text, plural(part.blobs, "blob")))
		}
	}
	fmt.Fprintf(w, ": %s\n", strings.Join(parts, "; "))
	for _, lost := range r.Lost {
		fmt.Fprintf(w, "  lost %s blob %s\n", lost.Kind, lost.Blob)
	}
	if r.MoreLost > 0 {
		fmt.Fprintf(w, "  and %s more\n", plural(r.MoreLost, "blob"))
	}
}

type packsSummary struct {
	Type        string `json:"type"`
	DryRun      bool   `json:"dry_run"`
	Packs       int    `json:"packs"` // that were looked at
	Marked      uint64 `json:"marked"`
	Unmarked    uint64 `json:"unmarked"`
	Blobs       uint64 `json:"blobs"` // stored again
	Bytes       uint64 `json:"bytes"`
	NewPacks    uint64 `json:"new_packs"`
	StoredBytes uint64 `json:"stored_bytes"`
	Lost        uint64 `json:"lost"`    // blobs
	Unknown     uint64 `json:"unknown"` // packs of which it is not known what they held
	DurationMS  int64  `json:"duration_ms"`
}

func (s *packsSummary) add(r *engine.RepairPacksResult) {
	s.Marked, s.Unmarked, s.Blobs, s.Bytes, s.NewPacks, s.StoredBytes = r.Marked, r.Unmarked, r.Blobs, r.Bytes, r.NewPacks, r.StoredBytes
}

func (packsSummary) text(*bufio.Writer) {}
