package index

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/snapctl/snapctl/index/localdb"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func openDir(t *testing.T, dir, repository string) *DB {
	t.Helper()
	db, err := Open(dir, repository, Options{})
	check(t, err)
	return db
}

func TestOpenKeepsWhatWasLearned(t *testing.T) {
	dir, store, want := t.TempDir(), mem.New(), locations{}
	a, b := testPack(1, span(0, 10)...), testPack(2, span(5, 15)...)
	want.add(a, b)
	db := openDir(t, dir, "r")
	writeSegments(t, store, a)
	syncDB(t, db, store)
	check(t, db.AddPacks(t.Context(), b))
	known := db.Known()
	check(t, db.Close())
	check(t, db.Close()) // once more is no error

	db = openDir(t, dir, "r")
	agree(t, db, want, 20)
	if db.Known() != known {
		t.Errorf("Known = %+v, was %+v", db.Known(), known)
	}
	if stats := syncDB(t, db, store); stats.Loaded != 0 {
		t.Errorf("loaded %d segments again", stats.Loaded)
	}
	check(t, db.Close())
}

func TestOpenDiscards(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string) (repository string){
		"another repository": func(*testing.T, string) string { return "other" },
		"another schema": func(t *testing.T, dir string) string {
			setRecord(t, dir, identityKey, append([]byte{schemaVersion + 1}, "r"...))
			return "r"
		},
		"no identity": func(t *testing.T, dir string) string {
			setRecord(t, dir, identityKey, nil)
			return "r"
		},
		"bad state": func(t *testing.T, dir string) string {
			setRecord(t, dir, stateKey, []byte{1, 2})
			return "r"
		},
		"no manifest": func(t *testing.T, dir string) string {
			remove(t, filepath.Join(dir, "db", "MANIFEST-*"))
			return "r"
		},
		"no tables": func(t *testing.T, dir string) string {
			setRecord(t, dir, []byte("x"), []byte("x")) // its close flushes the log
			remove(t, filepath.Join(dir, "db", "*.sst"))
			return "r"
		},
		"garbage manifest": func(t *testing.T, dir string) string {
			overwrite(t, filepath.Join(dir, "db", "MANIFEST-*"))
			return "r"
		},
		"garbage marker": func(t *testing.T, dir string) string {
			remove(t, filepath.Join(dir, "db", "marker.*"))
			check(t, os.WriteFile(filepath.Join(dir, "db", "marker.manifest.000001.MANIFEST-999999"), nil, 0o600))
			return "r"
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, p := t.TempDir(), testPack(1, span(0, 10)...)
			db := openDir(t, dir, "r")
			check(t, db.AddPacks(t.Context(), p))
			check(t, db.Close())

			db = openDir(t, dir, spoil(t, dir))
			defer func() { check(t, db.Close()) }()
			if db.Known() != (Stats{}) {
				t.Errorf("Known = %+v", db.Known())
			}
			agree(t, db, locations{}, span(0, 10)...)
			want := locations{}
			want.add(p)
			check(t, db.AddPacks(t.Context(), p))
			agree(t, db, want)
		})
	}
}

// setRecord changes a record of a closed database, behind its back; nil
// deletes it.
func setRecord(t *testing.T, dir string, key, value []byte) {
	o := tune(Options{})
	o.Logger = localdb.NewFailure()
	db, err := pebble.Open(filepath.Join(dir, "db"), o)
	check(t, err)
	if value == nil {
		check(t, db.Delete(key, pebble.Sync))
	} else {
		check(t, db.Set(key, value, pebble.Sync))
	}
	check(t, db.Flush())
	check(t, db.Close())
}

func matches(t *testing.T, pattern string) []string {
	paths, err := filepath.Glob(pattern)
	check(t, err)
	if len(paths) == 0 {
		t.Fatalf("nothing matches %s", pattern)
	}
	return paths
}

func remove(t *testing.T, pattern string) {
	for _, path := range matches(t, pattern) {
		check(t, os.Remove(path))
	}
}

func overwrite(t *testing.T, pattern string) {
	for _, path := range matches(t, pattern) {
		check(t, os.WriteFile(path, []byte("this is no manifest at all, but long enough to have a header"), 0o600))
	}
}

// A table that rots is found when it is read; the database is discarded when it
// is closed.
func TestRotIsDiscarded(t *testing.T) {
	dir, store, want := t.TempDir(), mem.New(), locations{}
	p := testPack(1, span(0, 5000)...)
	want.add(p)
	writeSegments(t, store, p)
	db := openDir(t, dir, "r")
	db.limits.directBlobs = 0
	syncDB(t, db, store)
	check(t, db.Close())
	largest, size := "", int64(0)
	for _, path := range matches(t, filepath.Join(dir, "db", "*.sst")) {
		info, err := os.Stat(path)
		check(t, err)
		if info.Size() > size {
			largest, size = path, info.Size()
		}
	}
	f, err := os.OpenFile(largest, os.O_RDWR, 0)
	check(t, err)
	_, err = f.WriteAt([]byte("rot"), 10_000)
	check(t, errors.Join(err, f.Close()))

	db = openDir(t, dir, "r")
	r := db.NewReader(nil)
	failures := 0
	ids := slices.SortedFunc(maps.Keys(want), func(a, b blob.ID) int { return b.Compare(a) })
	for _, id := range ids { // the rot is near the start of the file: those at its end come first
		at, ok, err := r.Lookup(id)
		if err != nil {
			failures++
		} else if !ok || !contains(want[id], at) {
			t.Errorf("Lookup(%v) = %+v, %v", id, at, ok)
		}
	}
	check(t, r.Close())
	if failures == 0 || failures == len(want) {
		t.Errorf("%d of %d look-ups failed", failures, len(want))
	}
	if err := db.AddPacks(t.Context(), testPack(2, 2)); !errors.Is(err, ErrFailed) {
		t.Errorf("AddPacks to a damaged database: %v", err)
	}
	if err := db.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close: %v", err)
	}
	db = openDir(t, dir, "r")
	syncDB(t, db, store)
	agree(t, db, want)
	check(t, db.Close())
}

func TestOpenDoesNotDiscardWhenDiscardingWouldNotHelp(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "db"), []byte("a file"), 0o600))
	if _, err := Open(dir, "r", Options{}); err == nil {
		t.Error("opened a file as a database")
	}
	if _, err := os.Stat(filepath.Join(dir, "db")); err != nil {
		t.Error("what was no database is gone:", err)
	}
}

func TestOpenIsExclusive(t *testing.T) {
	dir := t.TempDir()
	db := openDir(t, dir, "r")
	if _, err := Open(dir, "r", Options{}); !errors.Is(err, ErrBusy) {
		t.Errorf("second Open: %v, want ErrBusy", err)
	}
	check(t, db.Close())
	check(t, openDir(t, dir, "r").Close())
}

func TestCloseRefusesWhileReadersAreOpen(t *testing.T) {
	db := openDir(t, t.TempDir(), "r")
	r := db.NewReader(nil)
	if _, _, err := r.Has(testID(1)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err == nil {
		t.Error("Close succeeds under an open reader")
	}
	if _, _, err := r.Has(testID(1)); err != nil {
		t.Errorf("after a refused Close: %v", err)
	}
	check(t, r.Close())
	check(t, db.Close())
	late := db.NewReader(nil)
	if _, _, err := late.Has(testID(1)); err == nil {
		t.Error("a reader of a closed database works")
	}
	check(t, late.Close())
	if err := db.AddPacks(t.Context(), testPack(1, 1)); err == nil {
		t.Error("a closed database takes packs")
	}
}

func TestPrivateIsRemoved(t *testing.T) {
	parent, want := t.TempDir(), locations{}
	a, err := OpenPrivate(parent, "r", Options{})
	check(t, err)
	b, err := OpenPrivate(parent, "r", Options{}) // must leave a alone
	check(t, err)
	p := testPack(1, span(0, 100)...)
	want.add(p)
	check(t, a.AddPacks(t.Context(), p))
	agree(t, a, want)
	agree(t, b, locations{}, 1)
	check(t, a.Close())
	check(t, b.Close())
	wantEmpty(t, parent)
}

func TestPrivateLoadsInBulk(t *testing.T) {
	store, want := mem.New(), locations{}
	for i := range 5 {
		p := testPack(i, span(10*i, 10*i+20)...)
		writeSegments(t, store, p)
		want.add(p)
	}
	db, err := OpenPrivate(t.TempDir(), "r", Options{})
	check(t, err)
	db.limits = loadLimits{directBlobs: 0, runEntries: 10, waveBlobs: 50, wavePacks: 10, tableEntries: 20}
	own := testPack(9, span(100, 120)...)
	want.add(own)
	check(t, db.AddPacks(t.Context(), own))
	syncDB(t, db, store)
	agree(t, db, want, 200)
	check(t, db.Close())
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		t.Errorf("%s is left", e.Name())
	}
}

func TestOpenPrivateRemovesWhatDeadProcessesLeft(t *testing.T) {
	parent := t.TempDir()
	lock, err := lockNewDir(parent)
	check(t, err)
	dir := privateDir(lock.Name())
	check(t, os.MkdirAll(filepath.Join(dir, "db"), 0o700))
	check(t, lock.Close())                                                                  // as the end of the process does
	check(t, os.WriteFile(filepath.Join(parent, privatePrefix+"x"+lockSuffix), nil, 0o600)) // died before it made its directory
	db, err := OpenPrivate(parent, "r", Options{})
	check(t, err)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover directory: %v", err)
	}
	check(t, db.Close())
	wantEmpty(t, parent)
}

func TestLoadFilesOfADeadProcessAreRemoved(t *testing.T) {
	fs := vfs.NewMem()
	check(t, openMem(t, fs).Close())
	runs := runFiles{fs: fs, dir: "index/load"}
	check(t, runs.write([]entry{{id: testID(1)}}))
	check(t, openMem(t, fs).Close())
	if names, err := fs.List("index/load"); err == nil {
		t.Errorf("%v is left", names)
	}
}

// Pebble's CheckComparer also wants prefixes without their first bytes to be
// prefixes, which only matters for tables with a synthetic prefix.
func TestComparerSplitsIDsOnly(t *testing.T) {
	bare := appendBlobKey(nil, testID(1), 0)[:blobPrefix]
	for _, key := range [][]byte{bare, identityKey, stateKey, numberKey(testName(1)), packKey(1),
		segmentKey(SegmentName{}), unsegmentedKey(testName(1)), {tagBlob}} {
		if comparer.Split(key) != len(key) {
			t.Errorf("%q is split", key)
		}
	}
	for _, number := range []uint32{0, 1, 1 << 31} {
		key := appendBlobKey(nil, testID(1), number)
		if n := comparer.Split(key); n != blobPrefix {
			t.Errorf("Split(%q) = %d", key, n)
		}
		if comparer.Compare(bare, key) >= 0 {
			t.Errorf("%q does not sort behind its prefix", key)
		}
	}
}
