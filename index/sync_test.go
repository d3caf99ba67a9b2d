package index

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestSyncLoadsWhatIsNew(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	for round := range 5 {
		a, b := testPack(2*round, span(10*round, 10*round+10)...), testPack(2*round+1, span(10*round+5, 10*round+15)...)
		writeSegments(t, store, a, b)
		want.add(a, b)
		if stats := syncDB(t, db, store); stats.Loaded != 1 || stats.PacksAdded != 2 || stats.Listings != 2 {
			t.Errorf("round %d: %+v", round, stats)
		}
		agree(t, db, want, 100, 101)
	}
	if stats := syncDB(t, db, store); stats.Loaded != 0 || stats.Listings != 1 {
		t.Errorf("idle Sync: %+v", stats)
	}
	if known := db.Known(); known != (Stats{Packs: 10, Segments: 5, Blobs: 100}) {
		t.Errorf("Known = %+v", known)
	}
}

// Tables, runs and waves of every shape give the same index.
func TestSyncInBulk(t *testing.T) {
	store, want := mem.New(), locations{}
	for i := range 40 {
		p := testPack(i, span(7*i, 7*i+23)...)
		want.add(p)
		writeSegments(t, store, p, testPack(1000+i%3)) // empty packs in several segments
	}
	for _, limits := range []loadLimits{
		{directBlobs: 0, runEntries: 1, waveBlobs: 1 << 20, wavePacks: 1 << 20, tableEntries: 1},
		{directBlobs: 0, runEntries: 100, waveBlobs: 1 << 20, wavePacks: 1 << 20, tableEntries: 50},
		{directBlobs: 0, runEntries: 50, waveBlobs: 200, wavePacks: 1 << 20, tableEntries: 1 << 20},
		{directBlobs: 30, runEntries: 1 << 20, waveBlobs: 1 << 20, wavePacks: 3, tableEntries: 10},
		{directBlobs: 1 << 20, runEntries: 1 << 20, waveBlobs: 1, wavePacks: 1, tableEntries: 10},
	} {
		db := newDB(t)
		db.limits = limits
		early := testPack(3, span(21, 44)...) // also in a segment
		check(t, db.AddPacks(t.Context(), early))
		stats := syncDB(t, db, store)
		if stats.Loaded != 40 || stats.PacksAdded != 42 || db.Known().Packs != 43 {
			t.Errorf("%+v: %+v", limits, stats)
		}
		agree(t, db, want, 1000)
		if names, err := db.fs.List(db.loadDir()); err == nil {
			t.Errorf("%+v: files %v are left", limits, names)
		}
		if u := unsegmented(t, db); len(u) > 0 {
			t.Errorf("%+v: unsegmented %v", limits, u)
		}
	}
}

func TestSyncForgets(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	gone, both, own := testPack(1, 1, 2), testPack(2, 2, 3), testPack(3, 1)
	first := writeSegments(t, store, gone, both)[0]
	writeSegments(t, store, both)
	check(t, db.AddPacks(t.Context(), own))
	syncDB(t, db, store)
	check(t, store.Delete(t.Context(), first.Name.Key()))
	stats := syncDB(t, db, store)
	if stats.Forgotten != 1 || stats.PacksRemoved != 1 || stats.Listings != 2 {
		t.Errorf("%+v", stats)
	}
	want.add(both, own)
	agree(t, db, want)
	if known := db.Known(); known.Segments != 1 || known.Packs != 2 {
		t.Errorf("Known = %+v", known)
	}
	writeSegments(t, store, gone) // it can come back
	syncDB(t, db, store)
	want.add(gone)
	agree(t, db, want)
}

func TestSyncLoadsTheRestOfADamagedIndex(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	good, bad := testPack(1, 1, 2), testPack(2, 3)
	want.add(good)
	writeSegments(t, store, good)
	key := writeSegments(t, store, bad)[0].Name.Key()
	for name, object := range map[string][]byte{"cut": []byte("no segment"), "large": make([]byte, maxSegment+1000)} {
		_, err := store.Put(t.Context(), key, bytes.NewReader(object), objectstore.PutOptions{})
		check(t, err)
		stats := syncDB(t, db, store)
		if len(stats.Damaged) != 1 {
			t.Fatalf("%s: damaged %v", name, stats.Damaged)
		}
		if e := new(Error); !errors.As(stats.Damaged[0], &e) || e.Object != key || !errors.Is(e, ErrDamaged) {
			t.Errorf("%s: %v", name, stats.Damaged[0])
		}
		agree(t, db, want, 3)
	}
	_, err := store.Put(t.Context(), "index/notes.txt", bytes.NewReader(nil), objectstore.PutOptions{})
	check(t, err)
	check(t, store.Delete(t.Context(), key))
	writeSegments(t, store, bad)
	if stats := syncDB(t, db, store); len(stats.Damaged) != 0 {
		t.Errorf("after repair: %v", stats.Damaged)
	}
	want.add(bad)
	agree(t, db, want)
}

// meddler is a store in which something happens when a listing ends, or just
// before a segment is read.
type meddler struct {
	objectstore.Store
	listed  func(n int) // after the n-th listing, from 1
	reading func()      // before the first read
	lists   int
	once    sync.Once
}

func (m *meddler) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		for info, err := range m.Store.List(ctx, prefix, after) {
			if !yield(info, err) {
				return
			}
		}
		m.lists++
		if m.listed != nil {
			m.listed(m.lists)
		}
	}
}

func (m *meddler) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	if m.reading != nil {
		m.once.Do(m.reading)
	}
	return m.Store.Get(ctx, key, r)
}

// mergeAll merges all segments into one.
func mergeAll(t testing.TB, store objectstore.Store) {
	segments, err := ListSegments(context.Background(), store)
	check(t, err)
	_, err = PlanRewrite(segments).Execute(context.Background(), store, testSealer, nil)
	check(t, err)
}

func TestSyncListsAgainWhenSegmentsVanish(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	for i := range 3 {
		p := testPack(i, span(10*i, 10*i+5)...)
		writeSegments(t, store, p)
		want.add(p)
	}
	stats := syncDB(t, db, &meddler{Store: store, listed: func(n int) {
		if n < 4 {
			writeSegments(t, store, testPack(10+n))
			mergeAll(t, store)
		}
	}})
	if stats.Listings != 5 { // three were outdated before anything was read, the last shows nothing new
		t.Errorf("%+v", stats)
	}
	agree(t, db, want)
}

func TestSyncGivesUpOnAnIndexThatNeverRests(t *testing.T) {
	store, db := mem.New(), newDB(t)
	writeSegments(t, store, testPack(1, 1))
	_, err := db.Sync(t.Context(), &meddler{Store: store, listed: func(n int) {
		writeSegments(t, store, testPack(n))
		mergeAll(t, store)
	}}, testSealer)
	if !errors.Is(err, ErrChanging) {
		t.Errorf("error %v, want ErrChanging", err)
	}
}

// A listing that shows neither the merged segments nor the new one, because it
// was past the name of the one and not yet at the others, costs no pack.
func TestSyncKeepsPacksThatOneListingMisses(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	for i := range 3 {
		p := testPack(i, i)
		writeSegments(t, store, p)
		want.add(p)
	}
	syncDB(t, db, store)
	stats := syncDB(t, db, &blindOnce{Store: store, t: t})
	if stats.PacksRemoved != 0 {
		t.Errorf("%+v", stats)
	}
	agree(t, db, want)
}

// blindOnce is a store whose first listing is empty while all segments merge.
type blindOnce struct {
	objectstore.Store
	t    *testing.T
	once bool
}

func (b *blindOnce) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	if b.once {
		return b.Store.List(ctx, prefix, after)
	}
	b.once = true
	mergeAll(b.t, b.Store)
	return func(func(objectstore.Info, error) bool) {}
}

// Segments that a session writes and records while Sync runs are not taken for
// gone, nor are their packs.
func TestSyncBesideAWriter(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	old := testPack(0, 0)
	info := writeSegments(t, store, old)[0]
	syncDB(t, db, store)
	check(t, store.Delete(t.Context(), info.Name.Key()))
	stats := syncDB(t, db, &meddler{Store: store, listed: func(n int) {
		if n > 5 {
			return
		}
		p := testPack(n, n)
		want.add(p)
		check(t, db.AddPacks(t.Context(), p))
		check(t, db.Segmented(t.Context(), writeSegments(t, store, p)...))
	}})
	if stats.PacksRemoved != 1 || stats.Listings != 2 {
		t.Errorf("%+v", stats)
	}
	agree(t, db, want, 0)
}

func TestSyncFailsWithTheStore(t *testing.T) {
	store, want := mem.New(), locations{}
	for i := range 3 {
		p := testPack(i, i)
		writeSegments(t, store, p)
		want.add(p)
	}
	for n := 1; ; n++ {
		db := newDB(t)
		faulty := fault.New(store, fault.FailNth(n, fault.ErrInjected))
		_, err := db.Sync(t.Context(), faulty, testSealer)
		if faulty.Calls() < n {
			check(t, err)
			break
		}
		if !errors.Is(err, fault.ErrInjected) {
			t.Errorf("call %d failed: %v", n, err)
		}
		syncDB(t, db, store)
		agree(t, db, want)
	}
}

func TestSyncIsCancelled(t *testing.T) {
	store, db := mem.New(), newDB(t)
	for i := range 3 {
		writeSegments(t, store, testPack(i, i))
	}
	for _, when := range []string{"before", "while it reads", "while another runs"} {
		ctx, cancel := context.WithCancel(t.Context())
		m := &meddler{Store: store}
		if when == "while it reads" {
			m.reading = cancel
		} else {
			cancel()
		}
		if when == "while another runs" {
			db.syncing <- struct{}{}
		}
		if _, err := db.Sync(ctx, m, testSealer); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled %s: %v", when, err)
		}
		cancel()
	}
	<-db.syncing
}
