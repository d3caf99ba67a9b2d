package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/index"
)

// present tells which of the snapshots, sorted by their ids, the repository has, so
// that they need not be pushed into it. One whose record cannot be read, or of which a
// check has marked a pack as damaged, has to be: what it lost is copied then, and it
// is published once more, with the packs that it has now.
//
// The records are read, one request each, if any pack is marked, or if they are few;
// otherwise the listing of the snapshots has to do.
func (r *Repository) present(ctx context.Context, ids []ID) (map[ID]bool, error) {
	var refs []commit.Ref
	present := map[ID]bool{}
	for ref, err := range commit.List(ctx, r.protocol(), "") {
		if err != nil {
			return nil, err
		}
		if _, asked := slices.BinarySearchFunc(ids, ref.ID, ID.Compare); asked {
			refs = append(refs, ref)
			present[ref.ID] = true
		}
	}
	if len(refs) == 0 {
		return present, nil
	}
	damaged, err := r.marks(ctx)
	if err != nil || len(damaged) == 0 && len(refs) > loads {
		return present, err
	}
	return r.intact(ctx, refs, damaged)
}

// marks returns the packs that are marked as damaged. One listing.
func (r *Repository) marks(ctx context.Context) (index.PackSet, error) {
	known, err := r.view(ctx)
	if err == nil {
		known, err = commit.ReadView(ctx, r.protocol(), known)
	}
	if errors.Is(err, ErrDamaged) { // a list of a collector: who publishes stops at it
		err = nil
	}
	return known.Damaged, err
}

// intact tells which snapshots have a record that can be read and names no damaged
// pack.
func (r *Repository) intact(ctx context.Context, refs []commit.Ref, damaged index.PackSet) (map[ID]bool, error) {
	var mu sync.Mutex // guards intact
	intact := map[ID]bool{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loads)
	for _, ref := range refs {
		group.Go(func() error {
			record, err := commit.Load(ctx, r.protocol(), ref)
			if errors.Is(err, ErrDamaged) || errors.Is(err, commit.ErrNotFound) {
				return nil
			}
			if err == nil && !slices.ContainsFunc(record.Packs, damaged.Has) {
				mu.Lock()
				defer mu.Unlock()
				intact[ref.ID] = true
			}
			return err
		})
	}
	return intact, group.Wait()
}
