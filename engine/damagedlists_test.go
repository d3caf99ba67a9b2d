package engine_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/gc"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// rot changes a byte in the middle of an object.
func rot(t *testing.T, store objectstore.Store, key string) {
	t.Helper()
	object := read(t, store, key)
	object[len(object)/2] ^= 1
	put(t, store, key, object)
}

// rotting is a store in which an object has rotted: listings show it as it was.
type rotting struct {
	objectstore.Store
	key string
}

func (s rotting) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	content, err := s.Store.Get(ctx, key, r)
	if err != nil || key != s.key {
		return content, err
	}
	defer content.Close()
	object, err := io.ReadAll(content)
	object[len(object)/2] ^= 1
	return io.NopCloser(bytes.NewReader(object)), err
}

// Nobody knows what a collection condemned whose list rotted: snapshots say so, and the
// next collection settles it with nothing. A collector that had read the list before
// finds that settled.
func TestDamagedCondemnedListIsSettled(t *testing.T) {
	h := newHistory(t, mem.New())
	h.save()
	h.save()
	h.r.forget(h.ids[0])
	plan, err := h.r.PlanCollection(t.Context(), thorough)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plan.Close(); err != nil {
			t.Error(err)
		}
	}()
	keys := keysOf(t, h.r.store)
	dead := gcNames(append(plan.Plan.Delete, plan.Plan.Copy...))
	n, err := commit.Condemn(t.Context(), keys, 0, dead)
	if err != nil || len(dead) == 0 {
		t.Fatal(err, dead)
	}
	rot(t, h.r.store, "gc/0000000001/condemned")
	other := h.r.elsewhere()
	if _, err := other.Snapshot(t.Context(), engine.SnapshotOptions{Path: h.dir}); !errors.Is(err, engine.ErrDamaged) || !errors.Is(err, engine.ErrCondemnedUnknown) {
		t.Errorf("snapshot beside a damaged list: %v", err)
	}
	other.collect(thorough)
	if final, err := commit.Finalise(t.Context(), keys, n, dead); err != nil || len(final) != 0 {
		t.Errorf("the collector that knew the list settled it: %v, %v", final, err)
	}
	h.r = other
	h.save()
	h.hold(h.ids[1:]...)
}

// What a collector deletes late, by a final list that nobody else can read any more, is
// not used again by anybody.
func TestDamagedFinalListIsKept(t *testing.T) {
	h := newHistory(t, mem.New())
	h.save()
	h.save()
	old := h.r.restore(h.ids[0])
	h.looks[h.ids[0]] = nil
	h.r.forget(h.ids[0])
	// A collector ends between its final list and its deletes, and has read both lists.
	store := h.r.store
	stuck := h.r.reopen(fault.New(store, fault.On(fault.Delete, "packs/", fault.Fail(fault.ErrInjected))))
	for range 2 {
		if _, err := stuck.Collect(t.Context(), thorough); !errors.Is(err, fault.ErrInjected) {
			t.Fatal(err)
		}
	}
	rotten := rotting{store, "gc/0000000001/final"}
	h.r = (&testRepo{t: t, store: rotten, state: t.TempDir()}).open(rotten)
	// Its packs hold what this snapshot needs again.
	again := h.r.snapshot(old).Snapshot
	h.looks[again] = describe(t, old)
	for range 2 {
		h.r.collect(thorough)
	}
	late := stuck.reopen(rotten)
	if late.collect(thorough).Deleted == 0 {
		t.Error("the late collector deleted nothing")
	}
	h.hold(h.ids[1], again)
	h.save()
	h.r.forget(again)
	h.r.collect(thorough)
	h.hold(h.ids[1:]...)
	for _, p := range h.r.check(engine.CheckOptions{ReadData: 1}).Problems {
		if !p.Harmless || p.Object != "gc/0000000001/final" {
			t.Errorf("%+v", p)
		}
	}
}

func gcNames(packs []gc.Pack) (names []packfile.Name) {
	for _, pack := range packs {
		names = append(names, pack.Name)
	}
	return names
}

// A record that rotted is not missed where another attempt published the same snapshot,
// as a push into the repository does: it is listed, and collections go on.
func TestDamagedRecordBesideAnIntactOne(t *testing.T) {
	h := newHistory(t, mem.New())
	h.save()
	h.save()
	keys := keysOf(t, h.r.store)
	ref, record, err := commit.Find(t.Context(), keys, h.ids[0])
	if err != nil {
		t.Fatal(err)
	}
	view, err := commit.ReadView(t.Context(), keys, commit.View{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := commit.Publish(t.Context(), keys, commit.NewSession(), record, view, nil); err != nil {
		t.Fatal(err)
	}
	rot(t, h.r.store, ref.Key())
	other := h.r.elsewhere()
	if infos, err := other.List(t.Context(), engine.Filter{}); err != nil || len(infos) != 2 {
		t.Errorf("list: %v, %+v", err, infos)
	}
	other.forget(h.ids[1])
	other.collect(thorough)
	h.r = other
	h.hold(h.ids[0])
	// Without the other it is missed.
	for ref, err := range commit.List(t.Context(), keys, h.ids[0].String()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := commit.Load(t.Context(), keys, ref); err == nil {
			remove(t, h.r.store, ref.Key())
		}
	}
	if _, err := other.elsewhere().Collect(t.Context(), thorough); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("collected beside a record that cannot be read: %v", err)
	}
}
