package index

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/zeebo/blake3"
	"go.uber.org/goleak"
)

// Pebble leaves two goroutines behind when its Open fails half-way. A database
// that was not closed has others, too.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/cockroachdb/pebble/v2.(*ConcurrencyLimitScheduler).periodicGranter"),
		goleak.IgnoreAnyFunction("github.com/cockroachdb/pebble/v2/record.(*LogWriter).flushLoop"))
}

var testSealer = seal.New(seal.Key{Secret: [32]byte{1}, Family: [16]byte{2}}, seal.Fastest)

// testID and testName are pure functions of a number.
func testID(n int) blob.ID { return blob.ID(hashOf("blob", n)) }

func testName(n int) packfile.Name { return packfile.Name(hashOf("pack", n)) }

func hashOf(what string, n int) [32]byte {
	return blake3.Sum256(binary.LittleEndian.AppendUint64([]byte(what), uint64(n)))
}

// testPack describes a pack that holds the blobs with the numbers, at least
// four in a frame, in at most about a hundred frames. Lengths follow from the
// numbers.
func testPack(name int, blobs ...int) packfile.Pack {
	p := packfile.Pack{Name: testName(name)}
	offset := uint32(48)
	perFrame := max(4, len(blobs)/100)
	for len(blobs) > 0 {
		n := min(perFrame, len(blobs))
		f := packfile.Frame{Kind: blob.Data, Offset: offset, Length: uint32(1000 + n)}
		if name%2 == 1 {
			f.Kind = blob.Tree
		}
		for _, b := range blobs[:n] {
			f.Blobs = append(f.Blobs, packfile.Blob{ID: testID(b), Length: uint32(b % 5000)})
		}
		p.Frames = append(p.Frames, f)
		offset += f.Length
		blobs = blobs[n:]
	}
	p.Size = int64(offset) + 500
	return p
}

// span is the numbers from a up to, but without, b.
func span(a, b int) []int {
	var s []int
	for ; a < b; a++ {
		s = append(s, a)
	}
	return s
}

// locations is what an index has to answer: a model of it.
type locations map[blob.ID][]Location

func (l locations) add(packs ...packfile.Pack) {
	for _, p := range packs {
		for i, f := range p.Frames {
			offset := uint32(0)
			for _, b := range f.Blobs {
				l[b.ID] = append(l[b.ID], Location{Pack: p.Name, PackSize: p.Size, FrameIndex: i, FrameOffset: f.Offset,
					FrameLength: f.Length, FrameContent: uint32(f.ContentSize()), Kind: f.Kind, Offset: offset, Length: b.Length})
				offset += b.Length
			}
		}
	}
}

func openMem(t testing.TB, fs vfs.FS) *DB {
	t.Helper()
	db, err := open(fs, "index/db", "repository", tune(Options{CacheSize: 1 << 20}))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// newDB opens a database in memory that the end of the test closes.
func newDB(t testing.TB) *DB {
	t.Helper()
	db := openMem(t, vfs.NewMem())
	t.Cleanup(func() { check(t, db.Close()) })
	return db
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeSegments(t testing.TB, store objectstore.Store, packs ...packfile.Pack) []SegmentInfo {
	t.Helper()
	infos, err := WriteSegments(t.Context(), store, testSealer, packs)
	check(t, err)
	return infos
}

func syncDB(t testing.TB, db *DB, store objectstore.Store) SyncStats {
	t.Helper()
	stats, err := db.Sync(t.Context(), store, testSealer)
	check(t, err)
	return stats
}

// agree compares all that a database answers with the model; the ids of absent
// must not be found.
func agree(t testing.TB, db *DB, want locations, absent ...int) {
	t.Helper()
	r := db.NewReader(nil)
	defer func() { check(t, r.Close()) }()
	for id, copies := range want {
		got, err := r.Copies(nil, id)
		check(t, err)
		if len(got) != len(copies) {
			t.Fatalf("%d copies of %v, want %d", len(got), id, len(copies))
		}
		for _, at := range got {
			if !contains(copies, at) {
				t.Fatalf("a copy of %v is at %+v, want one of %+v", id, at, copies)
			}
		}
		at, ok, err := r.Lookup(id)
		check(t, err)
		if !ok || !contains(copies, at) {
			t.Fatalf("Lookup(%v) = %+v, %v, want one of %+v", id, at, ok, copies)
		}
		if name, ok, err := r.Has(id); !ok || err != nil || name != at.Pack {
			t.Fatalf("Has(%v) = %v, %v, %v, want %v", id, name, ok, err, at.Pack)
		}
	}
	for _, n := range absent {
		if name, ok, err := r.Has(testID(n)); ok || err != nil {
			t.Fatalf("Has(absent blob %d) = %v, %v, %v", n, name, ok, err)
		}
	}
	if n := db.Known().Blobs; n != total(want) {
		t.Fatalf("Known says %d blobs, want %d", n, total(want))
	}
}

func total(l locations) (n int) {
	for _, copies := range l {
		n += len(copies)
	}
	return n
}

func contains(copies []Location, at Location) bool {
	for _, c := range copies {
		if c == at {
			return true
		}
	}
	return false
}

func keysOf(t testing.TB, store objectstore.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for info, err := range store.List(context.Background(), prefix, "") {
		check(t, err)
		keys = append(keys, info.Key)
	}
	return keys
}

func seeded(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
