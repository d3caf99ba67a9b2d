package engine

import (
	"context"
	"fmt"

	"github.com/snapctl/snapctl/packfile/blob"
)

// Freed is what forgetting snapshots would free, once a collection has run and
// nobody can undo it any more.
type Freed struct {
	Weight
	Gaps
}

// WouldFree tells what forgetting snapshots would free: the blobs that no other
// snapshot reaches. It takes what Usage takes.
func (r *Repository) WouldFree(ctx context.Context, ids ...ID) (*Freed, error) {
	freed, err := r.wouldFree(ctx, ids)
	return freed, failed("stats", "", err)
}

func (r *Repository) wouldFree(ctx context.Context, ids []ID) (*Freed, error) {
	c, err := r.census(ctx)
	if err != nil {
		return nil, err
	}
	goes := map[ID]bool{}
	for _, id := range ids {
		if !c.known[id] {
			return nil, fmt.Errorf("snapshot %v: %w", id, ErrNotFound)
		}
		goes[id] = true
	}
	var leaving, staying []blob.ID // roots
	for _, info := range c.infos {
		roots := rootsOf(info)
		if err := c.graph.load(ctx, roots); err != nil {
			return nil, err
		}
		if goes[info.ID] {
			leaving = append(leaving, roots...)
		} else {
			staying = append(staying, roots...)
		}
	}
	seen := newBlobSet(c.graph.blobs.len())
	c.graph.follow(staying, seen.add)
	freed := &Freed{Weight: c.graph.weighNew(leaving, seen), Gaps: c.gaps()}
	return freed, nil
}
