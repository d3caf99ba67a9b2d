package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/gc"
	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// gcOptions are the options of gc as they are written.
type gcOptions struct {
	maxUnused   string
	maxCopy     string
	maxDuration string
	undoWindow  string
	grace       string
	offline     bool
	dryRun      bool
}

func (o *gcOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "say what would be deleted and copied, and why; change nothing")
	f.StringVar(&o.maxUnused, "max-unused", "5%", "leave this `share` of the bytes in packs unused, so that less is copied; \"unlimited\" copies nothing")
	f.StringVar(&o.maxCopy, "max-repack", "", "copy what is needed of packs of at most this many `bytes`, such as 10G")
	f.StringVar(&o.maxDuration, "max-duration", "", "stop copying after this `time`, such as 30m; the next run goes on")
	f.StringVar(&o.undoWindow, "undo-window", "1d", "keep what snapshots need that were forgotten within this `time`; 0 keeps nothing")
	f.StringVar(&o.grace, "grace", "1d", "leave packs and attempts alone that nobody finished within this `time`, which is longer than any snapshot takes; 0 spares none")
	f.BoolVar(&o.offline, "offline", false, "nobody else uses the repository: collect also where the store guarantees too little")
}

func newGCCommand(c *cli) *cobra.Command {
	o := &gcOptions{}
	cmd := c.command(spec{
		use: "gc", group: groupDefault, args: cobra.NoArgs, exits: exitsPartial,
		short: "free what no snapshot needs any more",
		long: `Packs that no snapshot needs are deleted; what is needed of packs that are little
used is copied to new ones first. Snapshots can be taken, restored and forgotten
meanwhile, on any machine, and several collections may run at once: nobody waits,
and nothing is locked. The command gives way to other processes of this machine, as if
it were begun by "nice -n 10". A run that was killed leaves nothing to clean up; the
next one goes on.

Snapshots that were forgotten within --undo-window still keep their content, for
"snapctl forget --undo". The exit status is 3 when less was done than planned, because
the time was over or the store is full.`,
		example: "  snapctl gc --dry-run\n  snapctl gc\n  snapctl gc --undo-window 0 --max-unused 0%\n  snapctl gc --max-duration 30m --max-repack 50G",
	}, func(ctx context.Context, _ []string) error { return c.collect(ctx, o) })
	o.addFlags(cmd.Flags())
	return cmd
}

// parsed returns the options as the engine takes them.
func (o *gcOptions) parsed() (opts engine.CollectOptions, err error) {
	opts.Offline = o.offline
	if opts.MaxUnused, err = parseUnused(o.maxUnused); err != nil {
		return opts, err
	}
	if o.maxCopy != "" {
		if opts.MaxCopy, err = parseSize(o.maxCopy); err != nil || opts.MaxCopy == 0 {
			return opts, &usageError{err: fmt.Errorf("--max-repack: %q is no number of bytes above 0", o.maxCopy), hint: "write a number of bytes such as 10G; --max-unused unlimited copies nothing"}
		}
	}
	if o.maxDuration != "" {
		if opts.MaxDuration, err = parsePeriod("--max-duration", o.maxDuration); err != nil {
			return opts, err
		}
	}
	if opts.UndoWindow, err = parsePeriod("--undo-window", o.undoWindow); err != nil {
		return opts, err
	}
	opts.Grace, err = parsePeriod("--grace", o.grace)
	return opts, err
}

// parseUnused reads a share of which 0 means none.
func parseUnused(text string) (float64, error) {
	switch text {
	case "unlimited":
		return 1, nil
	case "0", "0%":
		return -1, nil
	}
	share, err := parseShare(text)
	if err != nil {
		return 0, &usageError{err: fmt.Errorf("--max-unused: %w", err), hint: `write a percentage such as 5%, 0%, or "unlimited"`}
	}
	return share, nil
}

// parsePeriod reads a length of time, of which 0 means none: negative, for the
// engine.
func parsePeriod(option, text string) (time.Duration, error) {
	if text == "0" {
		return -1, nil
	}
	age, err := retention.ParseDuration(text)
	if err != nil {
		return 0, &usageError{err: fmt.Errorf("%s: %q is no length of time", option, text), hint: "write 30m, 12h, 7d or 0"}
	}
	return age, nil
}

func (c *cli) collect(ctx context.Context, o *gcOptions) error {
	opts, err := o.parsed()
	if err != nil {
		return err
	}
	return c.withStore(ctx, func(store backing, repo *engine.Repository) (err error) {
		if err := refuseCached(store, o.offline); err != nil {
			return err
		}
		yieldToOthers()
		start := time.Now()
		c.talk.begin("gc")
		plan, err := repo.PlanCollection(ctx, opts)
		if err != nil {
			c.talk.done()
			return hintWeakStore(err)
		}
		defer func() { err = errors.Join(err, plan.Close()) }()
		if o.dryRun {
			c.talk.done()
			return c.printCollectPlan(plan.Plan, time.Since(start))
		}
		result, err := plan.Execute(ctx)
		c.talk.done()
		c.tidy(ctx, store)
		if err == nil && result.Stopped != nil {
			hint := "what was done counts; run `snapctl gc` again to go on"
			if errors.Is(result.Stopped, objectstore.ErrNoSpace) {
				hint = "what was done counts; make room where the repository is, or forget more snapshots, then run `snapctl gc` again"
			}
			err = &hinted{fmt.Errorf("%w: %w", engine.ErrPartial, result.Stopped), hint}
		}
		if err != nil && !errors.Is(err, engine.ErrPartial) && result.Deleted+result.NewPacks == 0 {
			return err
		}
		return errors.Join(err, c.printCollected(plan.Plan, result, time.Since(start)))
	})
}

// refuseCached refuses a directory whose listings other machines may see late.
func refuseCached(store backing, offline bool) error {
	dir, ok := store.(directory)
	if !ok || offline {
		return nil
	}
	name, cached := dir.FilesystemType()
	if !cached {
		return nil
	}
	return hintWeakStore(fmt.Errorf("the repository is on %s, where other machines may see old listings: %w", name, engine.ErrWeakStore))
}

func hintWeakStore(err error) error {
	if !errors.Is(err, engine.ErrWeakStore) {
		return err
	}
	return &hinted{err, "stop all writers and run `snapctl gc --offline`; `snapctl check --store` says what is missing"}
}

func (c *cli) printCollectPlan(plan *gc.Plan, took time.Duration) error {
	p := c.printer()
	for _, group := range []struct {
		action string
		packs  []gc.Pack
	}{{"delete", plan.Sweep}, {"delete", plan.Delete}, {"copy", plan.Copy}} {
		for _, pack := range group.packs {
			if err := p.print(collectPackReport{"pack", group.action, pack.Name.String(), pack.Size, pack.Live, string(pack.Reason)}); err != nil {
				return err
			}
		}
	}
	deleted := packBytes(plan.Sweep) + packBytes(plan.Delete)
	c.talk.say("would delete %s of %s, copy %s of %s, and free about %s of %s",
		plural(uint64(len(plan.Sweep)+len(plan.Delete)), "pack"), size(deleted),
		size(liveBytes(plan.Copy)), plural(uint64(len(plan.Copy)), "pack"), size(uint64(max(plan.Freed, 0))), size(uint64(plan.Bytes)))
	c.sayUndoable(plan)
	return p.print(collectSummary{
		Type: "summary", DryRun: true, Packs: plan.Packs, Bytes: plan.Bytes, Live: plan.Live, Deleted: len(plan.Sweep) + len(plan.Delete), DeletedBytes: int64(deleted),
		Copied: len(plan.Copy), Freed: plan.Freed, Undoable: len(plan.Undoable), UndoableBytes: undoableBytes(plan), Expired: len(plan.Expire), Tombstones: len(plan.Tombstones),
		DurationMS: took.Milliseconds(),
	})
}

func packBytes(packs []gc.Pack) uint64 {
	n := uint64(0)
	for _, pack := range packs {
		n += uint64(pack.Size)
	}
	return n
}

func liveBytes(packs []gc.Pack) uint64 {
	n := uint64(0)
	for _, pack := range packs {
		n += uint64(pack.Live)
	}
	return n
}

// undoableBytes is how much the forgotten snapshots that can be had back keep, at most:
// attempts that are about to publish are in it.
func undoableBytes(plan *gc.Plan) int64 {
	if len(plan.Undoable) == 0 {
		return 0
	}
	return plan.Held
}

// sayUndoable tells who expects to see everything freed why it is not.
func (c *cli) sayUndoable(plan *gc.Plan) {
	if len(plan.Undoable) > 0 {
		c.talk.say("%s can still be had back (up to %s): --undo-window 0 frees them now", plural(uint64(len(plan.Undoable)), "forgotten snapshot"), size(uint64(undoableBytes(plan))))
	}
}

func (c *cli) printCollected(plan *gc.Plan, r *gc.Result, took time.Duration) error {
	c.talk.say("deleted %s of %s, copied what is needed of %s to %s of %s, freed %s in %s",
		plural(uint64(r.Deleted), "pack"), size(uint64(r.DeletedBytes)), plural(uint64(r.Copied), "pack"),
		plural(uint64(r.NewPacks), "new pack"), size(uint64(r.NewBytes)), size(uint64(max(r.DeletedBytes-r.NewBytes, 0))), seconds(took))
	if r.Spared > 0 {
		c.talk.detail("%s were condemned and are needed after all", plural(uint64(r.Spared), "pack"))
	}
	c.sayUndoable(plan)
	s := collectSummary{
		Type: "summary", Packs: plan.Packs, Bytes: plan.Bytes, Live: plan.Live, Deleted: r.Deleted, DeletedBytes: r.DeletedBytes, Copied: r.Copied,
		NewPacks: r.NewPacks, NewBytes: r.NewBytes, Freed: r.DeletedBytes - r.NewBytes, Spared: r.Spared, Undoable: len(plan.Undoable), UndoableBytes: undoableBytes(plan),
		Generations: slices.Concat(r.Adopted, r.Generations), Expired: r.Expired, Tombstones: r.Tombstones, DurationMS: took.Milliseconds(),
	}
	if r.Stopped != nil {
		s.Stopped = r.Stopped.Error()
	}
	return c.printer().print(s)
}

type collectPackReport struct {
	Type   string `json:"type"`
	Action string `json:"action"` // delete; copy: what is needed of it, then delete
	Pack   string `json:"pack"`
	Size   int64  `json:"size"`
	Live   int64  `json:"live"` // bytes of it that are needed, about
	Reason string `json:"reason"`
}

func (r collectPackReport) text(w *bufio.Writer) {
	fmt.Fprintf(w, "%-6s  packs/%s  %9s  %s\n", r.Action, r.Pack, size(uint64(r.Size)), r.Reason)
}

type collectSummary struct {
	Type          string   `json:"type"`
	DryRun        bool     `json:"dry_run"`
	Packs         int      `json:"packs"` // before
	Bytes         int64    `json:"bytes"` // of them
	Live          int64    `json:"live"`  // of those, about
	Deleted       int      `json:"deleted"`
	DeletedBytes  int64    `json:"deleted_bytes"`
	Copied        int      `json:"copied"`
	NewPacks      int      `json:"new_packs"`
	NewBytes      int64    `json:"new_bytes"`
	Freed         int64    `json:"freed"`
	Spared        int      `json:"spared"`
	Undoable      int      `json:"undoable"`
	UndoableBytes int64    `json:"undoable_bytes"` // at most
	Generations   []uint64 `json:"generations,omitempty"`
	Expired       int      `json:"expired"`
	Tombstones    int      `json:"tombstones"`
	Stopped       string   `json:"stopped,omitempty"`
	DurationMS    int64    `json:"duration_ms"`
}

func (collectSummary) text(*bufio.Writer) {}
