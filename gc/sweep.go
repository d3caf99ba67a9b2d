package gc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
)

// maxDeletes of packs run at a time.
const maxDeletes = 8

// sweep deletes the packs of final lists that are there, and drops them from the
// index (step G5). It can be repeated at any time, by anybody: no name is ever used
// again.
func (r *run) sweep(ctx context.Context) error {
	var dead []packfile.Name
	for name := range r.sight.packs {
		if r.sight.generations.Final.Has(name) {
			dead = append(dead, name)
		}
	}
	if err := r.deletePacks(ctx, dead); err != nil {
		return err
	}
	if err := r.dropFromIndex(ctx); err != nil {
		return fmt.Errorf("drop deleted packs from the index: %w", err)
	}
	return nil
}

func (r *run) deletePacks(ctx context.Context, dead []packfile.Name) error {
	var done atomic.Uint64
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxDeletes)
	for _, name := range dead {
		group.Go(func() error {
			if err := r.repo.Store.Delete(groupCtx, ingest.PackKey(name)); err != nil {
				return err
			}
			n := done.Add(1)
			r.repo.mu.Lock()
			defer r.repo.mu.Unlock()
			r.result.Deleted++
			r.result.DeletedBytes += r.sight.packs[name].size
			delete(r.sight.packs, name)
			r.repo.report("delete", n, uint64(len(dead)))
			return nil
		})
	}
	return group.Wait()
}

// dropFromIndex writes the segments again that name dead packs, and merges the
// others if there are many small ones. Until then dead packs in the index do no
// harm: everybody knows the final lists.
func (r *run) dropFromIndex(ctx context.Context) error {
	db := r.repo.Index
	dead := index.PackSet{}
	for pack, err := range db.Packs(ctx) {
		if err != nil {
			return err
		}
		if r.sight.generations.Final.Has(pack.Name) {
			dead[pack.Name] = struct{}{}
		}
	}
	if len(dead) > 0 {
		segments, err := db.SegmentsNaming(ctx, dead)
		if err != nil {
			return err
		}
		if err := r.rewrite(ctx, index.PlanRewrite(segments), dead); err != nil {
			return err
		}
		if err := db.RemovePacks(ctx, slices.Collect(maps.Keys(dead))...); err != nil {
			return err
		}
	}
	segments, err := db.Segments(ctx)
	if err != nil {
		return err
	}
	return r.rewrite(ctx, index.PlanCompaction(segments), dead)
}

func (r *run) rewrite(ctx context.Context, plan index.Plan, dead index.PackSet) error {
	if plan.Empty() {
		return nil
	}
	done, err := plan.Execute(ctx, r.repo.Store, r.repo.Sealer, dead)
	for _, damaged := range done.Damaged {
		r.repo.warn("index", damaged)
	}
	if err != nil {
		return err
	}
	_, err = r.repo.Index.Sync(ctx, r.repo.Store, r.repo.Sealer)
	return err
}
