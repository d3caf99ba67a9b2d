package index

import (
	"bytes"
	"errors"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// putPack puts a real pack of the blobs with the numbers.
func putPack(t testing.TB, store objectstore.Store, blobs ...int) packfile.Pack {
	t.Helper()
	frames := packfile.NewFrameBuilder(blob.Data)
	b := packfile.NewBuilder(nil)
	for i, n := range blobs {
		frames.Add(testID(n), bytes.Repeat([]byte{byte(n)}, 10+n%50))
		if i%100 == 2 || i == len(blobs)-1 {
			b.Add(frames.Seal(nil, testSealer))
		}
	}
	p, object := b.Finish(testSealer)
	_, err := store.Put(t.Context(), packPrefix+p.Name.String(), bytes.NewReader(object), objectstore.PutOptions{})
	check(t, err)
	return p
}

func rebuildIndex(t testing.TB, store objectstore.Store) RebuildStats {
	t.Helper()
	stats, err := Rebuild(t.Context(), store, testSealer)
	check(t, err)
	return stats
}

func TestRebuild(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	var packs []packfile.Pack
	for i := range 20 {
		p := putPack(t, store, span(5*i, 5*i+8)...)
		packs = append(packs, p)
		want.add(p)
	}
	packs[7] = putPack(t, store, span(1000, 6000)...) // its footer takes two reads
	want.add(packs[7])
	writeSegments(t, store, testPack(1, 99_999)) // names a pack that is not there
	_, err := store.Put(t.Context(), "index/"+testName(1).String(), bytes.NewReader([]byte("bad")), objectstore.PutOptions{})
	check(t, err)
	_, err = store.Put(t.Context(), "packs/README", bytes.NewReader([]byte("hello")), objectstore.PutOptions{})
	check(t, err)

	stats := rebuildIndex(t, store)
	if stats.Packs != 21 || stats.Blobs != total(want) || len(stats.Written) != 1 || len(stats.Deleted) != 2 || len(stats.Unreadable) != 0 {
		t.Errorf("%+v", stats)
	}
	syncDB(t, db, store)
	agree(t, db, want, 99_999)
}

func TestRebuildWritesSeveralSegments(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	for i := range 30 {
		want.add(putPack(t, store, span(10*i, 10*i+10)...))
	}
	r := newRebuild(store, testSealer)
	r.perSegment = 50
	check(t, r.run(t.Context()))
	if n := len(r.stats.Written); n < 2 || n > 6 {
		t.Errorf("%d segments for 300 blobs, at least 50 in each but the last", n)
	}
	syncDB(t, db, store)
	agree(t, db, want, 300)
}

func TestRebuildReportsUnreadablePacks(t *testing.T) {
	store, db, want := mem.New(), newDB(t), locations{}
	good, known, unknown := putPack(t, store, 1, 2), putPack(t, store, 3), putPack(t, store, 4)
	writeSegments(t, store, known)
	for _, p := range []packfile.Pack{known, unknown} {
		_, err := store.Put(t.Context(), packPrefix+p.Name.String(), bytes.NewReader(make([]byte, p.Size)), objectstore.PutOptions{})
		check(t, err)
	}
	stats := rebuildIndex(t, store)
	if stats.Packs != 2 || stats.Salvaged != 1 || len(stats.Unreadable) != 2 {
		t.Errorf("%+v", stats)
	}
	for _, err := range stats.Unreadable {
		if e := new(Error); !errors.As(err, &e) || !errors.Is(err, ErrDamaged) ||
			e.Object != packPrefix+known.Name.String() && e.Object != packPrefix+unknown.Name.String() {
			t.Errorf("unreadable: %v", err)
		}
	}
	want.add(good, known)
	syncDB(t, db, store)
	agree(t, db, want, 4)
}

func TestRebuildWithTheWrongKeyDeletesNothing(t *testing.T) {
	store := mem.New()
	writeSegments(t, store, putPack(t, store, 1))
	before := keysOf(t, store, "")
	_, err := Rebuild(t.Context(), store, seal.New(seal.Key{}, seal.Fastest))
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("error %v, want ErrDamaged", err)
	}
	if after := keysOf(t, store, ""); len(after) != len(before) {
		t.Errorf("store was %v, is %v", before, after)
	}
}

func TestRebuildOfNothing(t *testing.T) {
	if stats := rebuildIndex(t, mem.New()); stats.Packs != 0 || len(stats.Written) != 0 {
		t.Errorf("%+v", stats)
	}
}

// Whatever request fails, the packs that were named stay named, and the next
// Rebuild succeeds.
func TestRebuildIsSafeToInterrupt(t *testing.T) {
	origin := mem.New()
	for i := range 4 {
		writeSegments(t, origin, putPack(t, origin, i))
	}
	putPack(t, origin, 10)
	for call := 1; ; call++ {
		store := origin.Clone()
		faulty := fault.New(store, fault.FailFrom(call, fault.ErrInjected))
		_, err := Rebuild(t.Context(), faulty, testSealer)
		if got := named(t, store); len(got) < 4 {
			t.Fatalf("call %d: %d packs are named", call, len(got))
		}
		if faulty.Calls() < call {
			check(t, err)
			break
		}
		if !errors.Is(err, fault.ErrInjected) {
			t.Fatalf("call %d: %v", call, err)
		}
		rebuildIndex(t, store)
		if got := named(t, store); len(got) != 5 {
			t.Fatalf("call %d: %d packs are named after another Rebuild", call, len(got))
		}
	}
}

// A pack and its segment that appear while Rebuild runs keep their segment.
func TestRebuildBesideAWriter(t *testing.T) {
	origin := mem.New()
	writeSegments(t, origin, putPack(t, origin, 1))
	for call := 1; ; call++ {
		store := origin.Clone()
		writer := fault.New(store, func(op fault.Op) fault.Fault {
			if op.N == call {
				writeSegments(t, store, putPack(t, store, 2))
			}
			return fault.Fault{}
		})
		_, err := Rebuild(t.Context(), writer, testSealer)
		check(t, err)
		if writer.Calls() < call {
			break
		}
		if got := named(t, store); len(got) != 2 {
			t.Fatalf("call %d: %d packs are named", call, len(got))
		}
	}
}
