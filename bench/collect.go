package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/bench/measure"
)

// collect compares what it takes to forget half of the snapshots of ws-node and to
// free what only they needed.
type collect struct {
	*bench
	set      string
	ours     tool
	theirs   tool
	workTree string
}

// Snapshots of the history that is collected, and how many of them are kept.
const (
	collectSnapshots = 20
	collectKept      = 10
)

func (b *bench) collect(ctx context.Context) error {
	c := collect{bench: b, set: "ws-node"}
	for _, t := range b.tools {
		switch t.name {
		case "snapctl":
			c.ours = t
		case "restic":
			c.theirs = t
		}
	}
	if c.ours.name == "" || c.theirs.name == "" {
		return errors.New("this needs snapctl, by `make build`, and restic")
	}
	if err := c.history(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{c.forgetHalf, c.verify, c.beside} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// history fills both repositories with snapshots, each twenty edits after the last.
func (c *collect) history(ctx context.Context) error {
	workspace, err := c.workspace(ctx, c.set)
	if err != nil {
		return err
	}
	c.workTree = workspace
	for _, t := range []tool{c.ours, c.theirs} {
		if err := t.reset(ctx); err != nil {
			return err
		}
	}
	for n := range uint64(collectSnapshots) {
		if n > 0 {
			if err := editTree(workspace, n); err != nil {
				return err
			}
		}
		for _, t := range []tool{c.ours, c.theirs} {
			if _, err := t.run(ctx, t.save, workspace, ""); err != nil {
				return err
			}
		}
	}
	for _, t := range []tool{c.ours, c.theirs} { // what each measured run begins with
		if err := copyTree(ctx, filepath.Dir(t.repo), filepath.Dir(t.repo)+"-before"); err != nil {
			return err
		}
	}
	return nil
}

// again puts a tool's repository and local state back to what they were.
func (c *collect) again(ctx context.Context, t tool) error {
	if err := os.RemoveAll(filepath.Dir(t.repo)); err != nil {
		return err
	}
	return copyTree(ctx, filepath.Dir(t.repo)+"-before", filepath.Dir(t.repo))
}

// snapctl returns a command of ours.
func (c *collect) snapctl(args ...string) []string {
	return append(slices.Clone(c.ours.save[:slices.Index(c.ours.save, "snapshot")]), args...)
}

// script runs commands one after the other, as one.
func script(commands ...[]string) []string {
	lines := make([]string, len(commands))
	for i, command := range commands {
		lines[i] = strings.Join(command, " ")
	}
	return []string{"sh", "-c", strings.Join(lines, " && ")}
}

// forgetHalf measures the first collection, and a second one after one more
// snapshot.
func (c *collect) forgetHalf(ctx context.Context) error {
	ours, theirs, second := measure.Series{}, measure.Series{}, measure.Series{}
	var freedOurs, freedTheirs, shareOurs, shareTheirs []float64
	forget := script(c.snapctl("forget", "--keep-last", fmt.Sprint(collectKept)), c.snapctl("gc", "--undo-window", "0"))
	prune := append(slices.Clone(c.theirs.save[:slices.Index(c.theirs.save, "backup")]), "forget", "--prune", "--keep-last", fmt.Sprint(collectKept))
	for n := range c.runs + 1 {
		run, freed, share, err := c.freed(ctx, c.ours, forget)
		if err != nil {
			return err
		}
		next, err := c.second(ctx, uint64(n))
		if err != nil {
			return err
		}
		other, freedThere, shareThere, err := c.freed(ctx, c.theirs, prune)
		if err != nil {
			return err
		}
		if n > 0 {
			ours, theirs, second = append(ours, run), append(theirs, other), append(second, next)
			freedOurs, freedTheirs = append(freedOurs, freed), append(freedTheirs, freedThere)
			shareOurs, shareTheirs = append(shareOurs, share), append(shareTheirs, shareThere)
		}
	}
	median := func(values []float64) float64 { return measure.Median(values, func(v float64) float64 { return v }) }
	fmt.Printf("\nforget %d of %d snapshots and collect, %s\n", collectSnapshots-collectKept, collectSnapshots, c.set)
	fmt.Printf("  snapctl   %7.3f s, peak %d MiB, freed %.3f MB, %.2f percent\n", ours.Wall().Seconds(), ours.RSS()>>20, median(freedOurs)/1e6, 100*median(shareOurs))
	fmt.Printf("  restic    %7.3f s, peak %d MiB, freed %.3f MB, %.2f percent\n", theirs.Wall().Seconds(), theirs.RSS()>>20, median(freedTheirs)/1e6, 100*median(shareTheirs))
	fmt.Printf("  wall  / restic    %5.2f x, goal 0.50 x\n", measure.Ratio(ours, theirs))
	fmt.Printf("collect again after one more snapshot\n  snapctl   %7.3f s, peak %d MiB\n", second.Wall().Seconds(), second.RSS()>>20)
	fmt.Printf("  wall  / the first %5.2f x, goal 0.20 x\n", measure.Ratio(second, ours))
	return nil
}

// freed runs a collection, and tells how many bytes it freed, and their share.
func (c *collect) freed(ctx context.Context, t tool, command []string) (measure.Run, float64, float64, error) {
	if err := c.again(ctx, t); err != nil {
		return measure.Run{}, 0, 0, err
	}
	before := float64(t.stored())
	run, err := t.run(ctx, command, c.workTree, "")
	freed := before - float64(t.stored())
	return run, freed, freed / before, err
}

// second measures a collection after one more snapshot.
func (c *collect) second(ctx context.Context, seed uint64) (measure.Run, error) {
	if err := editTree(c.workTree, 1000+seed); err != nil {
		return measure.Run{}, err
	}
	if _, err := c.ours.run(ctx, c.ours.save, c.workTree, ""); err != nil {
		return measure.Run{}, err
	}
	return c.ours.run(ctx, c.snapctl("gc", "--undo-window", "0"), c.workTree, "")
}

// verify measures a check of everything.
func (c *collect) verify(ctx context.Context) error {
	var ours, theirs measure.Series
	for range c.runs {
		for _, t := range []tool{c.ours, c.theirs} {
			run, err := t.run(ctx, t.verify, c.workTree, "")
			if err != nil {
				return err
			}
			if t.name == "snapctl" {
				ours = append(ours, run)
			} else {
				theirs = append(theirs, run)
			}
		}
	}
	fmt.Printf("check --read-data\n  snapctl   %7.3f s, peak %d MiB\n  restic    %7.3f s, peak %d MiB\n  wall  / restic    %5.2f x, goal 0.60 x\n",
		ours.Wall().Seconds(), ours.RSS()>>20, theirs.Wall().Seconds(), theirs.RSS()>>20, measure.Ratio(ours, theirs))
	return nil
}

// beside measures a snapshot of twenty edits alone, and while collections run one
// after the other. After each snapshot the oldest is forgotten, so that there is
// something to collect.
func (c *collect) beside(ctx context.Context) error {
	alone, err := c.snapshots(ctx, 2000)
	if err != nil {
		return err
	}
	collecting, stop := context.WithCancel(ctx)
	defer stop()
	var beside measure.Series
	group, gctx := errgroup.WithContext(collecting)
	group.Go(func() error { return c.keepCollecting(collecting) })
	group.Go(func() (err error) {
		defer stop()
		beside, err = c.snapshots(gctx, 3000)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("a snapshot of 20 edits\n  alone     %7.3f s\n  beside collections %7.3f s\n  wall  / alone     %5.2f x, goal 1.30 x\n",
		alone.Wall().Seconds(), beside.Wall().Seconds(), measure.Ratio(beside, alone))
	return nil
}

// snapshots measures snapshots of twenty edits, and forgets one after each.
func (c *collect) snapshots(ctx context.Context, seed uint64) (series measure.Series, err error) {
	for n := range c.runs {
		run, err := c.edited(ctx, seed+uint64(n))
		if err != nil {
			return nil, err
		}
		series = append(series, run)
		if _, err := c.ours.run(ctx, c.snapctl("forget", "--keep-last", "5"), c.workTree, ""); err != nil {
			return nil, err
		}
	}
	return series, nil
}

func (c *collect) edited(ctx context.Context, seed uint64) (measure.Run, error) {
	if err := editTree(c.workTree, seed); err != nil {
		return measure.Run{}, err
	}
	return c.ours.run(ctx, c.ours.save, c.workTree, "")
}

// keepCollecting collects, with local state of its own as another machine would,
// until ctx is done.
func (c *collect) keepCollecting(ctx context.Context) error {
	collect := c.snapctl("--state-dir", filepath.Join(c.dir, "collector-state"), "gc", "--undo-window", "0")
	for ctx.Err() == nil {
		if _, err := c.ours.run(context.WithoutCancel(ctx), collect, c.workTree, ""); err != nil {
			return err
		}
	}
	return nil
}
