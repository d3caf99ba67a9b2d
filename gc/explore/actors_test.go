package explore

import (
	"context"
	"fmt"
	"strings"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/gc"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// The actors of this file are the engine, as programs use it.

// on makes an actor that works with the repository as the machine knows it.
func (c *computer) on(work func(ctx context.Context, repo *engine.Repository, begin func()) (Outcome, error)) *Actor {
	return &Actor{Name: c.name, Run: func(ctx context.Context, store objectstore.Store, begin func()) (Outcome, error) {
		repo, done, err := c.open(ctx, store)
		if err != nil {
			return Outcome{}, err
		}
		defer done()
		return work(ctx, repo, begin)
	}}
}

// saver takes a snapshot of the machine's workspace.
func (c *computer) saver() *Actor {
	return c.on(func(ctx context.Context, repo *engine.Repository, begin func()) (Outcome, error) {
		begin()
		saved, err := repo.Snapshot(ctx, engine.SnapshotOptions{Path: c.workspace, Source: c.name, Workers: 1})
		if err != nil {
			return Outcome{}, err
		}
		return Outcome{Acknowledged: []string{saved.Snapshot.String()}, Summary: fmt.Sprintf("published, %d new packs", saved.NewPacks)}, nil
	})
}

// forker makes a fork of a snapshot.
func (c *computer) forker(origin engine.ID) *Actor {
	return c.on(func(ctx context.Context, repo *engine.Repository, begin func()) (Outcome, error) {
		begin()
		fork, err := repo.Fork(ctx, origin, engine.ForkOptions{Source: "fork"})
		if err != nil {
			return Outcome{}, err
		}
		return Outcome{Acknowledged: []string{fork.ID.String()}, Summary: "forked"}, nil
	})
}

// undoer takes back that a snapshot was forgotten.
func (c *computer) undoer(id engine.ID) *Actor {
	return c.on(func(ctx context.Context, repo *engine.Repository, begin func()) (Outcome, error) {
		begin()
		if _, err := repo.UndoForget(ctx, id); err != nil {
			return Outcome{}, err
		}
		return Outcome{Acknowledged: []string{id.String()}, Summary: "undone"}, nil
	})
}

// pusher pushes a snapshot of the workspace, out of a repository that only it has.
func (c *computer) pusher() *Actor {
	return c.on(func(ctx context.Context, to *engine.Repository, begin func()) (Outcome, error) {
		from, err := engine.Init(ctx, mem.New(), engine.InitOptions{OpenOptions: options(""), Holders: []keyring.Holder{keyring.NewPlain()}, Like: to})
		if err != nil {
			return Outcome{}, err
		}
		defer from.Close()
		saved, err := from.Snapshot(ctx, engine.SnapshotOptions{Path: c.workspace, Source: c.name, Workers: 1})
		if err != nil {
			return Outcome{}, err
		}
		begin()
		pushed, err := from.Push(ctx, to, saved.Snapshot)
		if err != nil {
			return Outcome{}, err
		}
		return Outcome{Acknowledged: []string{saved.Snapshot.String()}, Summary: fmt.Sprintf("pushed %d blobs", pushed.Blobs)}, nil
	})
}

var (
	// thorough collections free all that they can. What seems to be left behind is
	// spared: it is an hour old.
	thorough = engine.CollectOptions{MaxUnused: -1, UndoWindow: -1}
	// hasty ones take everything for left behind that could be.
	hasty = engine.CollectOptions{MaxUnused: -1, UndoWindow: -1, Grace: -1}
)

// collector collects, once or several times.
func (c *computer) collector(opts engine.CollectOptions, times int) *Actor {
	return c.on(func(ctx context.Context, repo *engine.Repository, begin func()) (Outcome, error) {
		begin()
		var sum gc.Result
		for range times {
			r, err := repo.Collect(ctx, opts)
			if err != nil {
				return Outcome{}, err
			}
			sum.Deleted += r.Deleted
			sum.Copied += r.Copied
			sum.Spared += r.Spared
			sum.Expired += r.Expired
			sum.Tombstones += r.Tombstones
			sum.Adopted = append(sum.Adopted, r.Adopted...)
		}
		return Outcome{Summary: tally(len(sum.Adopted), "adopted", sum.Deleted, "deleted", sum.Copied, "copied", sum.Spared, "spared",
			sum.Expired, "expired", sum.Tombstones, "tombstones removed")}, nil
	})
}

// tally names what there is of pairs of number and name.
func tally(pairs ...any) string {
	var all []string
	for i := 0; i < len(pairs); i += 2 {
		if n := pairs[i].(int); n > 0 {
			all = append(all, fmt.Sprint(n, " ", pairs[i+1]))
		}
	}
	if all == nil {
		return "nothing to do"
	}
	return strings.Join(all, ", ")
}

// forgetter forgets a snapshot, or whatever is published.
func (g *ground) forgetter(prefix string) *Actor {
	return &Actor{Name: "forgetter", Forgets: true, Run: func(ctx context.Context, store objectstore.Store, begin func()) (Outcome, error) {
		repo := g.repo(store)
		begin()
		n := 0
		for ref, err := range commit.List(ctx, repo, prefix) {
			if err == nil {
				err = commit.Forget(ctx, repo, ref)
			}
			if err != nil {
				return Outcome{}, err
			}
			n++
		}
		return Outcome{Summary: fmt.Sprintf("forgot %d", n)}, nil
	}}
}

// compactor writes all index segments into one, as a writer does when there are
// eight.
func (g *ground) compactor() *Actor {
	return &Actor{Name: "compactor", Run: func(ctx context.Context, store objectstore.Store, begin func()) (Outcome, error) {
		repo := g.repo(store)
		begin()
		segments, err := index.ListSegments(ctx, store)
		if err != nil {
			return Outcome{}, err
		}
		done, err := index.PlanRewrite(segments).Execute(ctx, store, repo.Sealer, nil)
		return Outcome{Summary: fmt.Sprintf("merged %d into %d", len(done.Deleted), len(done.Written))}, err
	}}
}
