package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// forgetOptions are the options of snapctl forget.
type forgetOptions struct {
	choose    chooseOptions
	policy    policyOptions
	dryRun    bool
	force     bool
	undo      string
	forgotten bool
}

func (o *forgetOptions) addFlags(f *pflag.FlagSet) {
	o.choose.addFlags(f)
	o.policy.addFlags(f)
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "print the plan and what it would free, forget nothing")
	f.BoolVar(&o.force, "force", false, "also do what looks like a mistake")
	f.StringVar(&o.undo, "undo", "", "have this forgotten `snapshot` back")
	f.BoolVar(&o.forgotten, "forgotten", false, "list the snapshots that can be had back")
}

const forgetLong = `Forgets the named snapshots; or those that pass --label and --source, but for
pinned ones; or, with a policy, those of them that no rule keeps. What is kept is
counted for each source apart (--group-by). The plan is printed first, with the
reasons.

A snapshot with the label "pin" stays. One with the label "ttl", a duration or a
time, goes when that has ended, unless it is pinned or --keep-label keeps it.
What would leave nothing, or matches nothing, is refused without --force.

Forgetting frees no space: "snapctl gc" does, later. Until then --undo has a
snapshot back.`

func newForgetCommand(c *cli) *cobra.Command {
	var o forgetOptions
	cmd := c.command(spec{
		use: "forget [SNAP]...", group: groupDefault, args: cobra.ArbitraryArgs, exits: exitsRepository,
		short: "forget snapshots, by name or by policy", long: forgetLong,
		example: "  snapctl forget 4f1d0c22 90ab73fe\n" +
			"  snapctl forget --keep-last 3 --keep-daily 7 --keep-weekly 5 --dry-run\n" +
			"  snapctl forget --label tier=scratch --keep-within 14d\n" +
			"  snapctl forget --policy retention.conf\n" +
			"  snapctl forget --undo 4f1d0c22",
	}, func(ctx context.Context, args []string) error { return c.forget(ctx, args, &o) })
	o.addFlags(cmd.Flags())
	o.policy.flags = cmd.Flags()
	for _, other := range []string{"dry-run", "force", "label", "source", "policy"} {
		cmd.MarkFlagsMutuallyExclusive("undo", other)
		cmd.MarkFlagsMutuallyExclusive("forgotten", other)
	}
	cmd.MarkFlagsMutuallyExclusive("undo", "forgotten")
	return cmd
}

func (c *cli) forget(ctx context.Context, names []string, o *forgetOptions) error {
	policy, err := o.policy.policy()
	if err != nil {
		return err
	}
	filter, err := o.choose.filter()
	if err != nil {
		return err
	}
	if err := o.check(names, policy != nil); err != nil {
		return err
	}
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		switch {
		case o.undo != "":
			return c.undoForget(ctx, repo, o.undo)
		case o.forgotten:
			return c.listForgotten(ctx, repo)
		}
		opts := engine.ForgetOptions{Filter: filter, Policy: policy, Force: o.force}
		for _, name := range names {
			id, err := repo.Resolve(ctx, name, filter)
			if err != nil {
				return err
			}
			opts.Snapshots = append(opts.Snapshots, id)
		}
		return c.forgetPlanned(ctx, repo, opts, o.dryRun)
	})
}

// check refuses command lines that say two things, or none.
func (o *forgetOptions) check(names []string, byPolicy bool) error {
	filtered := len(o.choose.labels) > 0 || o.choose.source != ""
	other := o.undo != "" || o.forgotten
	switch {
	case other && (len(names) > 0 || byPolicy):
		return &usageError{err: errors.New("--undo and --forgotten go with nothing else")}
	case byPolicy && len(names) > 0:
		return &usageError{err: errors.New("a policy leaves no snapshot to be named"), hint: "narrow it with --label or --source, or name snapshots without a policy"}
	case !other && !byPolicy && !filtered && len(names) == 0:
		return &usageError{err: errors.New("nothing says which snapshots to forget"), hint: "name some, or give --label, --source, --policy or rules such as --keep-daily 7"}
	}
	return nil
}

// forgetPlanned prints the plan before anything happens, and stops there if it
// cannot be printed.
func (c *cli) forgetPlanned(ctx context.Context, repo *engine.Repository, opts engine.ForgetOptions, dryRun bool) error {
	plan, refused := repo.PlanForget(ctx, opts)
	if plan == nil {
		return forgetFailed(refused)
	}
	if err := c.printForgetPlan(plan); err != nil {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return fmt.Errorf("write the plan, so that nothing was forgotten: %w", err)
	}
	summary := forgetSummary{Type: "summary", Kept: plan.Stays(), Unreadable: len(plan.Unreadable), DryRun: dryRun}
	if dryRun {
		return errors.Join(forgetFailed(refused), c.rehearseForget(ctx, repo, plan, summary))
	}
	if refused != nil {
		return forgetFailed(refused)
	}
	c.talk.begin("forget")
	result, err := repo.Forget(ctx, plan)
	c.talk.done()
	if result == nil {
		return err
	}
	summary.Forgotten, summary.Pinned = len(result.Forgotten), len(result.Pinned)
	for _, id := range result.Pinned {
		c.talk.warn("snapshot %v was pinned meanwhile, and stays", id)
	}
	c.talk.say("forgot %s; `snapctl gc` frees what only they need, `snapctl forget --undo SNAP` has one back until then", plural(uint64(summary.Forgotten), "snapshot"))
	return errors.Join(forgetFailed(err), c.printer().print(summary), unreadable(plan.Unreadable))
}

// rehearseForget says what the plan would free.
func (c *cli) rehearseForget(ctx context.Context, repo *engine.Repository, plan *engine.ForgetPlan, summary forgetSummary) error {
	goes := plan.Goes()
	summary.Forgotten = len(goes)
	freed, err := repo.WouldFree(ctx, goes...)
	if err != nil {
		return err
	}
	summary.Freed = weightOf(freed.Weight)
	c.warnOfGaps(engine.Gaps{Missing: freed.Missing}) // the plan named what is unreadable
	return errors.Join(c.printer().print(summary), unreadable(plan.Unreadable))
}

// unreadable is the error that ends a command which passed damaged snapshots over.
func unreadable(snapshots []engine.UnreadableSnapshot) error {
	if len(snapshots) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s cannot be read, and stay as they are", engine.ErrDamaged, plural(uint64(len(snapshots)), "snapshot"))
}

// forgetFailed says what can be done about an error.
func forgetFailed(err error) error {
	var refused *retention.RefusedError
	switch {
	case errors.As(err, &refused):
		return &hinted{err, "look at the plan; --force carries it out all the same"}
	case errors.Is(err, retention.ErrInvalid):
		return &usageError{err: err}
	case errors.Is(err, objectstore.ErrNoSpace):
		return &hinted{err, "run `snapctl gc`, then this command again"}
	}
	return err
}
