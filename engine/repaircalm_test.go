package engine_test

import (
	"context"
	"iter"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// A collection moves what a plan looks for, and takes what a snapshot needed that is
// forgotten meanwhile: nothing is given up for that.
func TestRepairsBesideACollectionAreCalm(t *testing.T) {
	for name, plan := range map[string]func(*testRepo) (empty bool, found int){
		"packs": func(r *testRepo) (bool, int) {
			plan := r.planPacks()
			return plan.Empty(), len(plan.Packs)
		},
		"snapshots": func(r *testRepo) (bool, int) {
			plan := r.planSnapshots(engine.RepairSnapshotsOptions{})
			return plan.Empty(), len(plan.Snapshots)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t, mem.New())
			for range 5 {
				h.save()
			}
			h.r.forget(h.ids[:3]...)
			held := &betweenListings{Store: h.r.store}
			r := (&testRepo{t: t, store: h.r.store, state: t.TempDir()}).open(held)
			happened := false
			held.meanwhile = func() {
				happened = true
				h.r.forget(h.ids[3])
				if result := h.r.collect(thorough); result.Copied == 0 || result.Deleted == 0 {
					t.Errorf("nothing was moved: %+v", result)
				}
			}
			if empty, found := plan(r); !empty || found != 0 {
				t.Errorf("there is something to repair: %d", found)
			}
			if !happened {
				t.Error("nothing went on meanwhile")
			}
			h.hold(h.ids[4])
		})
	}
}

// betweenListings lets something happen, once, between the reading of the index and the
// listing of the packs.
type betweenListings struct {
	objectstore.Store
	once      sync.Once
	meanwhile func()
}

func (b *betweenListings) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	if prefix == "packs/" {
		b.once.Do(b.meanwhile)
	}
	return b.Store.List(ctx, prefix, after)
}
