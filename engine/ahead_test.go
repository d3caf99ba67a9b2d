package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// The tests of this file open a repository as the next process on the machine does:
// at a place that was opened before.

// machineOptions are those of every process on a machine.
func machineOptions(t *testing.T, state, place string) engine.OpenOptions {
	warning := func(w engine.Warning) { t.Logf("warning: %s %s: %v", w.Op, w.Object, w.Err) }
	return engine.OpenOptions{
		Credentials: insecure, StateDir: state, Place: place, ForSnapshot: true, Events: engine.Events{Warning: warning},
	}
}

// known is a repository with a snapshot, at a place that its machine has opened.
type known struct {
	t     *testing.T
	store *mem.Store
	state string
	place string
	dir   string
}

func newKnown(t *testing.T) *known {
	k := &known{t: t, store: mem.New(), state: t.TempDir(), place: "the place", dir: smallWorkspace(t)}
	k.init(k.store)
	r := k.open(t.Context(), k.store)
	k.snapshot(r)
	k.close(r)
	return k
}

func (k *known) init(store objectstore.Store) {
	k.t.Helper()
	r, err := engine.Init(k.t.Context(), store, engine.InitOptions{OpenOptions: machineOptions(k.t, k.state, k.place), Holders: []keyring.Holder{keyring.NewPlain()}})
	if err != nil {
		k.t.Fatal(err)
	}
	k.close(r)
}

func (k *known) open(ctx context.Context, store objectstore.Store) *engine.Repository {
	k.t.Helper()
	r, err := engine.Open(ctx, store, machineOptions(k.t, k.state, k.place))
	if err != nil {
		k.t.Fatal(err)
	}
	return r
}

func (k *known) snapshot(r *engine.Repository) *engine.SnapshotResult {
	k.t.Helper()
	result, err := r.Snapshot(k.t.Context(), engine.SnapshotOptions{Path: k.dir})
	if err != nil {
		k.t.Fatal(err)
	}
	return result
}

func (k *known) close(r *engine.Repository) {
	k.t.Helper()
	if err := r.Close(); err != nil {
		k.t.Fatal(err)
	}
}

// patience bounds how long a test waits for what does not come.
const patience = time.Minute

// meeting holds calls back until so many of them have come whose keys start with
// one of the prefixes.
func meeting(calls int, prefixes ...string) fault.Injector {
	var mu sync.Mutex
	all := make(chan fault.Fault)
	return func(op fault.Op) fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		for _, prefix := range prefixes {
			if calls > 0 && strings.HasPrefix(op.Key, prefix) {
				if calls--; calls == 0 {
					close(all)
				}
				return fault.Await(all)
			}
		}
		return fault.Fault{}
	}
}

func TestRequestsOfAKnownPlace(t *testing.T) {
	k := newKnown(t)
	counted := fault.New(k.store)
	write(t, k.dir, map[string]string{"a": "one"})
	edit := requests(counted, func() {
		r := k.open(t.Context(), counted)
		k.snapshot(r)
		k.close(r)
	})
	same := requests(counted, func() {
		r := k.open(t.Context(), counted)
		if _, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: k.dir, SkipUnchanged: true}); err != nil {
			t.Fatal(err)
		}
		k.close(r)
	})
	if total(edit) != 9 || total(same) != 5 {
		t.Errorf("one edit takes %d requests, want 9: %v; no change %d, want 5: %v", total(edit), edit, total(same), same)
	}
}

// No one of the three requests is answered before all are made.
func TestOpenAsksAtOnce(t *testing.T) {
	k := newKnown(t)
	k.opensAtOnce()
	k.place = "the same place by another name"
	k.close(k.open(t.Context(), k.store))
	k.opensAtOnce()
}

func (k *known) opensAtOnce() {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	r := k.open(ctx, fault.New(k.store, meeting(3, config.Object, "keys/", "index/")))
	k.snapshot(r)
	k.close(r)
}

// Nothing is known of the collectors, so they are asked for while the index is.
func TestViewAndIndexAreReadAtOnce(t *testing.T) {
	k := newKnown(t)
	k.state = t.TempDir()
	opts := machineOptions(t, k.state, k.place)
	opts.ForSnapshot = false
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := engine.Open(ctx, fault.New(k.store, meeting(2, "gc/", "index/")), opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Snapshot(ctx, engine.SnapshotOptions{Path: k.dir}); err != nil {
		t.Error(err)
	}
	k.close(r)
}

// When one of two requests fails, the other one is not waited for.
func TestFailedViewEndsTheReadingOfTheIndex(t *testing.T) {
	for failing, stalled := range map[string]string{"gc/": "index/", "index/": "gc/"} {
		k := newKnown(t)
		k.state = t.TempDir()
		opts := machineOptions(t, k.state, k.place)
		opts.ForSnapshot = false
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r, err := engine.Open(ctx, fault.New(k.store,
			fault.On(fault.List, failing, fault.Fail(fault.ErrInjected)),
			fault.On(fault.List, stalled, fault.Await(make(chan fault.Fault)))), opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Snapshot(ctx, engine.SnapshotOptions{Path: k.dir}); !errors.Is(err, fault.ErrInjected) {
			t.Errorf("listing of %s: %v", failing, err)
		}
		k.close(r)
	}
}

// A place whose repository is gone is no repository, at once: what was asked
// beside the config is cancelled.
func TestOpenCancelsWhatIsOfNoUse(t *testing.T) {
	k := newKnown(t)
	remove(t, k.store, config.Object) // the local index is open by then, and closed again
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	never := fault.Await(make(chan fault.Fault))
	store := fault.New(k.store, fault.On(fault.Get, "keys/", never), fault.On(fault.List, "index/", never))
	if _, err := engine.Open(ctx, store, machineOptions(t, k.state, k.place)); !errors.Is(err, engine.ErrNoRepository) {
		t.Errorf("open: %v", err)
	}
}

// Another repository lies at the place by now: the guess is wrong, and harmless.
func TestAnotherRepositoryAtThePlace(t *testing.T) {
	k := newKnown(t)
	old := k.store
	k.store = mem.New()
	fresh, err := engine.Init(t.Context(), k.store, engine.InitOptions{
		OpenOptions: engine.OpenOptions{Credentials: insecure}, Holders: []keyring.Holder{keyring.NewPlain()},
	})
	if err != nil {
		t.Fatal(err)
	}
	k.close(fresh)
	for _, key := range objects(t, old, "keys/") { // somebody copied it along
		put(t, k.store, key, read(t, old, key))
	}
	r := k.open(t.Context(), k.store)
	if r.ID() != fresh.ID() {
		t.Errorf("opened repository %s, want %s", r.ID(), fresh.ID())
	}
	if result := k.snapshot(r); result.NewBlobs == 0 {
		t.Error("nothing was stored in an empty repository")
	}
	k.close(r)
	counted := fault.New(k.store)
	r = k.open(t.Context(), counted)
	if counts := counted.Counts("keys/"); total(counts) != 1 {
		t.Errorf("the key of the place was not noted: %v", counts)
	}
	k.close(r)
}

// A process lists the index, another one on the machine adds to it, and only then
// does the first one open the local index, which knows more than its listing.
func TestListingOlderThanTheLocalIndex(t *testing.T) {
	k := newKnown(t)
	k.place = "" // otherwise the first one has the local index from the start
	first := k.open(t.Context(), k.store)
	write(t, k.dir, map[string]string{"new": strings.Repeat("n", 10_000)})
	second := k.open(t.Context(), k.store)
	stored := k.snapshot(second)
	k.close(second)
	if stored.NewBlobs == 0 {
		t.Fatal("the second process stored nothing")
	}
	result, err := first.Snapshot(t.Context(), engine.SnapshotOptions{Path: k.dir, Rescan: true})
	if err != nil || result.NewBlobs != 0 {
		t.Errorf("%d blobs were stored again, %v", result.NewBlobs, err)
	}
	k.close(first)
	check := k.open(t.Context(), k.store)
	if _, err := check.Check(t.Context(), engine.CheckOptions{ReadData: 1}); err != nil {
		t.Error(err)
	}
	k.close(check)
}

// The listing is good for one snapshot, and only for that: who reads wants to see
// what others have published since.
func TestReadersListTheIndexAnew(t *testing.T) {
	k := newKnown(t)
	r := k.open(t.Context(), k.store)
	other := &testRepo{t: t, store: k.store, state: t.TempDir()}
	other = other.open(k.store)
	write(t, k.dir, map[string]string{"new": "by another machine"})
	id := other.snapshot(k.dir).Snapshot
	target := t.TempDir()
	if _, err := r.Restore(t.Context(), id, engine.RestoreOptions{Target: target}); err != nil {
		t.Error(err)
	}
	k.close(r)
}
