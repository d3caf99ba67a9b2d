package index

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// history is a run of a database through all its changes, and a record of what
// it acknowledged.
type history struct {
	store objectstore.Store
	all   locations // every copy that there ever was
	loads [][]packfile.Pack

	mu    sync.Mutex
	acked []packfile.Pack // by AddPacks
}

func newHistory(t testing.TB) *history {
	h := &history{store: mem.New(), all: locations{}}
	for i := range 6 {
		packs := []packfile.Pack{testPack(100+i, span(10*i, 10*i+15)...), testPack(200+i, span(5*i, 5*i+9)...)}
		h.all.add(packs...)
		h.loads = append(h.loads, packs)
	}
	for i := range 6 {
		h.all.add(testPack(i, i, i+300))
	}
	return h
}

func (h *history) acknowledged() []packfile.Pack {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]packfile.Pack{}, h.acked...)
}

// run ends at the first error.
func (h *history) run(t testing.TB, fs vfs.FS) (err error) {
	db, err := open(fs, "index/db", "repository", tune(Options{CacheSize: 1 << 20}))
	if err != nil {
		return err
	}
	db.limits = loadLimits{directBlobs: 12, runEntries: 20, waveBlobs: 40, wavePacks: 100, tableEntries: 25}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx := t.Context()
	for i, packs := range h.loads {
		p := testPack(i, i, i+300)
		if err := db.AddPacks(ctx, p); err != nil {
			return err
		}
		h.mu.Lock()
		h.acked = append(h.acked, p)
		h.mu.Unlock()
		if _, err := WriteSegments(ctx, h.store, testSealer, packs); err != nil {
			return err
		}
		if i%2 == 0 {
			continue // so that a Sync loads two segments
		}
		if _, err := db.Sync(ctx, h.store, testSealer); err != nil {
			return err
		}
		if err := h.verify(t, db, h.acknowledged(), i); err != nil {
			return err
		}
		if i == 3 {
			if err := db.pebble.Flush(); err != nil {
				return err
			}
			mergeAll(t, h.store)
		}
	}
	return nil
}

// verify fails the test if the database answers anything wrong; the error is
// of a database that cannot answer. loaded is the index of the last load that
// must be there, -1 for none.
func (h *history) verify(t testing.TB, db *DB, acked []packfile.Pack, loaded int) error {
	t.Helper()
	must := locations{}
	must.add(acked...)
	for i := 0; i <= loaded; i++ {
		must.add(h.loads[i]...)
	}
	r := db.NewReader(nil)
	defer r.Close()
	for id, copies := range h.all {
		got, err := r.Copies(nil, id)
		if err != nil {
			return err
		}
		for _, at := range got {
			if !contains(copies, at) {
				t.Fatalf("a copy of %v is at %+v, want one of %+v", id, at, copies)
			}
		}
		for _, at := range must[id] {
			if !contains(got, at) {
				t.Fatalf("the copy of %v at %+v is lost", id, at)
			}
		}
	}
	return nil
}

// recover opens what a crash or an error left, and goes on with it.
func (h *history) recover(t testing.TB, fs vfs.FS, acked []packfile.Pack) {
	t.Helper()
	db := openMem(t, fs)
	defer func() { check(t, db.Close()) }()
	check(t, h.verify(t, db, acked, -1))
	before := db.Known()
	db.limits = loadLimits{directBlobs: 12, runEntries: 20, waveBlobs: 40, wavePacks: 100, tableEntries: 25}
	syncDB(t, db, h.store)
	p := testPack(999, 999)
	check(t, db.AddPacks(t.Context(), p))
	if db.Known().Packs <= before.Packs {
		t.Fatalf("Known was %+v, is %+v", before, db.Known())
	}
	check(t, h.verify(t, db, acked, -1))
}

// newCrashable makes the directory that the caller of Open has to have.
func newCrashable(t testing.TB) *vfs.MemFS {
	fs := vfs.NewCrashableMem()
	check(t, fs.MkdirAll("index", 0o700))
	root, err := fs.OpenDir("")
	check(t, err)
	check(t, root.Sync())
	check(t, root.Close())
	return fs
}

// After a crash at any operation on the filesystem, with any part of what was
// not synced lost, the database opens, holds every acknowledged pack, and
// answers nothing wrong.
func TestCrash(t *testing.T) {
	rng := seeded(t)
	for _, unsynced := range []int{0, 50, 100} {
		type crash struct {
			fs    *vfs.MemFS
			acked []packfile.Pack
		}
		var mu sync.Mutex
		var crashes []crash
		h := newHistory(t)
		mem := newCrashable(t)
		snapshot := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			acked := h.acknowledged() // before the clone: all of them are in it
			clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(rng.Uint64(), 0))})
			crashes = append(crashes, crash{clone, acked})
			return nil
		})
		check(t, h.run(t, errorfs.Wrap(mem, snapshot)))
		t.Logf("%d%% of unsynced data survives: %d crashes", unsynced, len(crashes))
		for _, c := range crashes {
			h.recover(t, c.fs, c.acked)
		}
	}
}

// When an operation on the filesystem fails, once, the database says so or
// copes; it never answers anything wrong, and opens again with every
// acknowledged pack.
func TestErrorSweep(t *testing.T) {
	for _, kind := range []errorfs.OpReadWrite{errorfs.OpIsWrite, errorfs.OpIsRead} {
		failures := 0
		for n := int32(0); ; n++ {
			h := newHistory(t)
			mem := newCrashable(t)
			index := &nthOf{kind: kind, n: n}
			err := h.run(t, errorfs.Wrap(mem, index))
			if err != nil {
				failures++
			}
			if !index.reached() {
				check(t, err)
				t.Logf("%v: %d operations, %d of them fail the run", kind, n, failures)
				break
			}
			// A copy: a database that failed may still have goroutines.
			h.recover(t, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}), h.acknowledged())
		}
	}
}

// nthOf fails the n-th operation of one kind.
type nthOf struct {
	kind errorfs.OpReadWrite
	mu   sync.Mutex
	n    int32
	hit  bool
}

func (i *nthOf) String() string { return "nth" }

func (i *nthOf) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != i.kind {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n--
	if i.n != -1 {
		return nil
	}
	i.hit = true
	return errorfs.ErrInjected
}

func (i *nthOf) reached() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hit
}
