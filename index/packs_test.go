package index

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func unsegmented(t *testing.T, db *DB) PackSet {
	t.Helper()
	packs, err := db.Unsegmented(t.Context())
	check(t, err)
	set := PackSet{}
	for _, p := range packs {
		set[p.Name] = struct{}{}
	}
	return set
}

func TestAddPacksIsSeenByOpenReaders(t *testing.T) {
	db := newDB(t)
	r := db.NewReader(nil)
	defer r.Close()
	for i := range 20 {
		if _, ok, err := r.Has(testID(i)); ok || err != nil {
			t.Fatalf("blob %d before it was added: %v, %v", i, ok, err)
		}
		check(t, db.AddPacks(t.Context(), testPack(i, i)))
		if name, ok, err := r.Has(testID(i)); !ok || err != nil || name != testName(i) {
			t.Fatalf("blob %d after it was added: %v, %v", i, ok, err)
		}
	}
}

func TestUnsegmentedUntilASegmentNamesThem(t *testing.T) {
	dir, store := t.TempDir(), mem.New()
	a, b, c := testPack(1, 1, 2), testPack(2, 2, 3), testPack(3, 4)
	db := openDir(t, dir, "r")
	check(t, db.AddPacks(t.Context(), a, b, c, a))
	check(t, db.Close())

	db = openDir(t, dir, "r") // the session that added them is gone
	packs, err := db.Unsegmented(t.Context())
	check(t, err)
	if string(EncodeSegment(packs)) != string(EncodeSegment([]packfile.Pack{a, b, c})) {
		t.Errorf("Unsegmented = %v", packs)
	}
	check(t, db.Segmented(t.Context(), writeSegments(t, store, a)...))
	if u := unsegmented(t, db); u.Has(a.Name) || !u.Has(b.Name) || !u.Has(c.Name) {
		t.Errorf("after Segmented: %v", u)
	}
	if stats := syncDB(t, db, store); stats.Loaded != 0 {
		t.Error("Sync loads a segment that Segmented recorded")
	}
	writeSegments(t, store, b) // by somebody else
	if stats := syncDB(t, db, store); stats.Loaded != 1 || stats.PacksAdded != 0 {
		t.Errorf("Sync: %+v", stats)
	}
	if u := unsegmented(t, db); len(u) != 1 || !u.Has(c.Name) {
		t.Errorf("after Sync: %v", u)
	}
	want := locations{}
	want.add(a, b, c)
	agree(t, db, want)
	check(t, db.Close())
}

func TestSegmentedLeavesUnknownPacksToSync(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	a, b := testPack(1, 1), testPack(2, 2)
	want.add(a, b)
	check(t, db.AddPacks(t.Context(), a))
	check(t, db.Segmented(t.Context(), writeSegments(t, store, a, b)...))
	syncDB(t, db, store)
	agree(t, db, want)
}

func TestRemovePacks(t *testing.T) {
	store, db := mem.New(), newDB(t)
	a, b := testPack(1, 1, 2), testPack(2, 2, 3)
	writeSegments(t, store, a)
	syncDB(t, db, store)
	check(t, db.AddPacks(t.Context(), b))
	r := db.NewReader(nil)
	defer r.Close()
	if _, ok, err := r.Has(testID(1)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	check(t, db.RemovePacks(t.Context(), a.Name, a.Name, testName(99)))
	want := locations{}
	want.add(b)
	agree(t, db, want, 1)
	if _, ok, err := r.Has(testID(1)); ok || err != nil {
		t.Errorf("an open reader finds a removed pack: %v, %v", ok, err)
	}
	syncDB(t, db, store) // the segment still names a, but is known already
	agree(t, db, want, 1)
	check(t, db.RemovePacks(t.Context(), b.Name))
	agree(t, db, locations{}, 1, 2, 3)
	if u := unsegmented(t, db); len(u) > 0 {
		t.Errorf("removed packs wait for a segment: %v", u)
	}
	if known := db.Known(); known.Packs != 0 || known.Blobs != 0 {
		t.Errorf("Known = %+v", known)
	}
}

func TestReaderAvoids(t *testing.T) {
	db := newDB(t)
	a, b := testPack(1, 1, 2), testPack(2, 2, 3)
	check(t, db.AddPacks(t.Context(), a, b))
	for _, c := range []struct {
		avoid PackSet
		want  map[int]packfile.Name
	}{
		{PackSet{a.Name: {}}, map[int]packfile.Name{2: b.Name, 3: b.Name}},
		{PackSet{b.Name: {}}, map[int]packfile.Name{1: a.Name, 2: a.Name}},
		{PackSet{a.Name: {}, b.Name: {}}, nil},
	} {
		r := db.NewReader(c.avoid)
		for id := range 5 {
			name, ok, err := r.Has(testID(id))
			if want, there := c.want[id]; ok != there || name != want || err != nil {
				t.Errorf("avoiding %v, blob %d: %v, %v, %v", c.avoid, id, name, ok, err)
			}
		}
		if copies, err := r.Copies(nil, testID(2)); len(copies) != 2-len(c.avoid) || err != nil {
			t.Errorf("avoiding %v: %d copies, %v", c.avoid, len(copies), err)
		}
		check(t, r.Close())
	}
}

func TestBlobTwiceInOnePack(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	p := testPack(1, 7, 8, 9, 7, 7, 8)
	check(t, db.AddPacks(t.Context(), p))
	want.add(p)
	r := db.NewReader(nil)
	defer r.Close()
	for id, copies := range want {
		got, err := r.Copies(nil, id)
		if len(got) != 1 || err != nil || !contains(copies, got[0]) {
			t.Errorf("Copies(%v) = %+v, %v, want one of %+v", id, got, err, copies)
		}
	}
	bulk := newDB(t)
	bulk.limits = loadLimits{directBlobs: 1, runEntries: 2, waveBlobs: 100, wavePacks: 100, tableEntries: 2}
	writeSegments(t, store, p)
	syncDB(t, bulk, store)
	for id, copies := range want {
		r := bulk.NewReader(nil)
		if at, ok, err := r.Lookup(id); !ok || err != nil || !contains(copies, at) {
			t.Errorf("after a bulk load: Lookup(%v) = %+v, %v, %v", id, at, ok, err)
		}
		check(t, r.Close())
	}
}

// A pack that AddPacks records while a load already holds it, under another
// number, stays one pack.
func TestAddPacksDuringALoad(t *testing.T) {
	for _, direct := range []int{0, 100} {
		db, want := newDB(t), locations{}
		db.limits.directBlobs = direct
		a, b := testPack(1, 1, 2), testPack(2, 2, 3)
		want.add(a, b)
		var stats SyncStats
		l := newLoader(db, &stats)
		check(t, l.add(t.Context(), SegmentInfo{Name: SegmentName(testID(0)), Size: 100}, []packfile.Pack{a, b}))
		check(t, db.AddPacks(t.Context(), a))
		check(t, l.flush(t.Context()))
		agree(t, db, want)
		if stats.PacksAdded != 1 || len(unsegmented(t, db)) != 0 {
			t.Errorf("%+v, unsegmented %v", stats, unsegmented(t, db))
		}
	}
}

func TestPackAndIteration(t *testing.T) {
	db, want := newDB(t), locations{}
	packs := map[packfile.Name]PackInfo{}
	for i := range 10 {
		p := testPack(i, span(i, i+20)...)
		check(t, db.AddPacks(t.Context(), p))
		packs[p.Name] = describe(p)
		want.add(p)
	}
	for name, p := range packs {
		got, ok, err := db.Pack(t.Context(), name)
		if !ok || err != nil || string(got.encode()) != string(p.encode()) || got.Blobs() != 20 {
			t.Errorf("Pack(%v) = %+v, %v, %v", name, got, ok, err)
		}
	}
	if _, ok, err := db.Pack(t.Context(), testName(77)); ok || err != nil {
		t.Errorf("Pack(unknown) = %v, %v", ok, err)
	}
	n := 0
	for p, err := range db.Packs(t.Context()) {
		check(t, err)
		if _, ok := packs[p.Name]; !ok {
			t.Errorf("Packs yields %v", p.Name)
		}
		n++
	}
	if n != len(packs) {
		t.Errorf("Packs yields %d, want %d", n, len(packs))
	}
	var last blob.ID
	n = 0
	for c, err := range db.Blobs(t.Context()) {
		check(t, err)
		if last.Compare(c.ID) > 0 || !contains(want[c.ID], c.Location) {
			t.Errorf("Blobs yields %v after %v at %+v", c.ID, last, c.Location)
		}
		last = c.ID
		n++
	}
	if n != total(want) {
		t.Errorf("Blobs yields %d copies, want %d", n, total(want))
	}
	for range db.Blobs(t.Context()) {
		break // must release the database: its Close at the end of the test checks that
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range db.Packs(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}

func TestPurgeKeepsWhatIsThere(t *testing.T) {
	db, want := newDB(t), locations{}
	const n = minGarbage / 2
	for i := range 3 {
		check(t, db.AddPacks(t.Context(), testPack(i, span(i*1000, i*1000+n)...)))
	}
	kept := testPack(3, span(0, 5000)...)
	check(t, db.AddPacks(t.Context(), kept))
	want.add(kept)
	check(t, db.RemovePacks(t.Context(), testName(0), testName(1), testName(2)))
	if db.stats.Load().garbage != 3*n {
		t.Fatalf("garbage %d, want %d", db.stats.Load().garbage, 3*n)
	}
	syncDB(t, db, mem.New())
	agree(t, db, want, 5000, 6000)
	if db.stats.Load().garbage != 0 {
		t.Errorf("%d garbage records are left", db.stats.Load().garbage)
	}
	records := 0
	check(t, db.scan(t.Context(), tagBlob, func(_, _ []byte) error { records++; return nil }))
	if records != 5000 {
		t.Errorf("%d blob records, want 5000", records)
	}
}

// Whoever is told that a pack was added, finds it at once, whatever else goes
// on.
func TestConcurrentUse(t *testing.T) {
	store, db := mem.New(), newDB(t)
	ctx := t.Context()
	added := make(chan int)
	var writers, readers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for i := w; i < 150; i += 3 {
				p := testPack(i, i, i+1000)
				if err := db.AddPacks(ctx, p); err != nil {
					t.Error(err)
				}
				added <- i
				infos, err := WriteSegments(ctx, store, testSealer, []packfile.Pack{p})
				if err == nil {
					err = db.Segmented(ctx, infos...)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Go(func() { // a compacting, syncing neighbour
		for range 20 {
			segments, err := ListSegments(ctx, store)
			if err == nil {
				_, err = PlanCompaction(segments).Execute(ctx, store, testSealer, nil)
			}
			if err == nil {
				_, err = db.Sync(ctx, store, testSealer)
			}
			if err != nil && !errors.Is(err, ErrChanging) {
				t.Error(err)
			}
		}
	})
	for range 3 {
		readers.Go(func() {
			r := db.NewReader(nil)
			defer r.Close()
			for i := range added {
				for _, id := range []int{i, i + 1000} {
					if name, ok, err := r.Has(testID(id)); !ok || err != nil || name != testName(i) {
						t.Errorf("blob %d: %v, %v, %v", id, name, ok, err)
					}
				}
			}
		})
	}
	writers.Wait()
	close(added)
	readers.Wait()
	syncDB(t, db, store)
	want := locations{}
	for i := range 150 {
		want.add(testPack(i, i, i+1000))
	}
	agree(t, db, want)
	if u := unsegmented(t, db); len(u) > 0 {
		t.Errorf("unsegmented: %v", u)
	}
}
