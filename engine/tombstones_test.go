package engine_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// A collection that goes on because a record stands in for what looks like a tombstone
// leaves that record: it may be the only one, and the next collection needs it too.
func TestWhatStandsInForATombstoneIsKept(t *testing.T) {
	for _, forgotten := range []bool{true, false} {
		r := newRepo(t)
		dir := smallWorkspace(t)
		id := r.snapshot(dir).Snapshot
		write(t, dir, map[string]string{"b/second": strings.Repeat("second", 100)})
		r.snapshot(dir)
		key := objects(t, r.store, "snapshots/"+id.String()+"/")[0]
		record := read(t, r.store, key)
		r.forget(id)
		if forgotten {
			rot(t, r.store, key)
		} else { // forget was killed before it put the tombstone, and the record was cut off later
			put(t, r.store, key, record[:len(read(t, r.store, key))])
		}
		r.collect(thorough)
		if left := objects(t, r.store, "forgotten/"); len(left) != 1 {
			t.Errorf("forgotten %v: the record that stood in is gone", forgotten)
		}
		if _, err := r.elsewhere().Collect(t.Context(), thorough); err != nil {
			t.Errorf("forgotten %v: the next collection: %v", forgotten, err)
		}
		if _, err := r.elsewhere().UndoForget(t.Context(), id); err != nil {
			t.Errorf("forgotten %v: undo: %v", forgotten, err)
		}
	}
}

// A repair buries a damaged tombstone between the plan of a collection and its end.
func TestTombstoneIsBuriedWhileCollecting(t *testing.T) {
	r := newRepo(t)
	dir := smallWorkspace(t)
	id := r.snapshot(dir).Snapshot
	write(t, dir, map[string]string{"b/second": strings.Repeat("second", 100)})
	r.snapshot(dir)
	key := objects(t, r.store, "snapshots/"+id.String()+"/")[0]
	r.forget(id)
	rot(t, r.store, key)
	plan, err := r.PlanCollection(t.Context(), thorough)
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	if err := r.elsewhere().repairAll(); err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Execute(t.Context()); err != nil {
		t.Error(err)
	}
}

// unlisted fails to list packs.
type unlisted struct{ objectstore.Store }

func (u unlisted) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	if strings.HasPrefix(prefix, "packs/") {
		return func(yield func(objectstore.Info, error) bool) { yield(objectstore.Info{}, errors.New("503")) }
	}
	return u.Store.List(ctx, prefix, after)
}

func TestInitNeedsToKnow(t *testing.T) {
	r := newRepo(t)
	r.snapshot(smallWorkspace(t))
	remove(t, r.store, "config")
	_, err := engine.Init(t.Context(), unlisted{r.store}, engine.InitOptions{Holders: []keyring.Holder{keyring.NewPlain()}})
	if err == nil {
		t.Error("made over packs that could not be listed")
	}
}

// What is a tombstone is opened once in a collection, also if something of an undo is missing.
func TestTombstonesAreOpenedOnce(t *testing.T) {
	for _, holes := range []bool{false, true} {
		m := mem.New()
		counted := fault.New(m)
		r := initRepo(t, counted)
		dir := smallWorkspace(t)
		var ids []engine.ID
		for i := range 6 {
			write(t, dir, map[string]string{"b/second": strings.Repeat("second", 100+i)})
			ids = append(ids, r.snapshot(dir).Snapshot)
		}
		r.forget(ids[:4]...)
		window := thorough
		window.UndoWindow = 250 * 365 * 24 * 3600e9
		if holes { // one of those that can be had back has lost its root
			// a collection without a window takes what it alone needs, then its record comes back
			key := objects(t, m, "forgotten/"+ids[0].String())[0]
			kept := read(t, m, key)
			r.collect(thorough)
			put(t, m, key, kept)
			// new garbage, so that there is a second look
			r.forget(ids[4])
		}
		write(t, dir, map[string]string{"c/third": strings.Repeat("third", 1000)})
		gone := r.snapshot(dir).Snapshot
		r.forget(gone)
		for _, key := range objects(t, m, "forgotten/"+gone.String()) {
			remove(t, m, key)
		}
		most := int64(0) // each record once; each tombstone once, and once more before it is dropped
		for ref, err := range commit.ListAll(t.Context(), keysOf(t, m), "") {
			if err != nil {
				t.Fatal(err)
			}
			if most++; ref.State != commit.StatePublished {
				most++
			}
		}
		before := counted.Counts("snapshots/")[fault.Get]
		other := (&testRepo{t: t, store: m, state: t.TempDir()}).open(counted)
		if _, err := other.Collect(t.Context(), window); err != nil {
			t.Error(err)
		}
		if gets := int64(counted.Counts("snapshots/")[fault.Get] - before); gets > most {
			t.Errorf("holes %v: %d gets below snapshots/, more than %d", holes, gets, most)
		}
	}
}

// The tombstone of an attempt rotted while what is pending of it is there; the snapshot
// was published by another one.
func TestRottedTombstoneOfAPendingAttempt(t *testing.T) {
	r := newRepo(t)
	id := r.snapshot(smallWorkspace(t)).Snapshot
	repo := keysOf(t, r.store)
	_, record, err := commit.Find(t.Context(), repo, id)
	if err != nil {
		t.Fatal(err)
	}
	dead := commit.Pending{Session: commit.NewSession()}
	place(t, repo, dead.Key(), seal.Pending, record.Encode())
	pending := read(t, r.store, dead.Key())
	if won, err := commit.Expire(t.Context(), repo, dead, record); err != nil || !won {
		t.Fatal(won, err)
	}
	put(t, r.store, dead.Key(), pending) // the collector was killed before it deleted it
	rot(t, r.store, commit.Ref{ID: id, Session: dead.Session}.Key())
	if _, err := r.elsewhere().Collect(t.Context(), thorough); err != nil {
		t.Error(err)
	}
}
