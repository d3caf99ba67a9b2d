package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/statcache"
	"github.com/snapctl/snapctl/packfile/blob"
)

// source is a tree with its cache and the store it goes to.
type source struct {
	t     testing.TB
	dir   string
	cache string
	store *store
}

func newSource(t testing.TB) *source {
	return &source{t: t, dir: t.TempDir(), cache: t.TempDir(), store: newStore()}
}

func (s *source) path(name string) string { return filepath.Join(s.dir, name) }

// walk walks with the cache and does not publish.
func (s *source) walk(change func(*Options)) Result {
	s.t.Helper()
	return s.withCache(change, func(*statcache.Cache, Result) {})
}

// snapshot walks and makes the result the base.
func (s *source) snapshot(change func(*Options)) Result {
	s.t.Helper()
	return s.withCache(change, func(c *statcache.Cache, r Result) {
		must(s.t, c.Commit(statcache.Base{Snapshot: r.Root, Dir: r.Dir}))
	})
}

func (s *source) withCache(change func(*Options), then func(*statcache.Cache, Result)) Result {
	s.t.Helper()
	cache, err := statcache.Open(s.cache, statcache.Identity{Root: s.dir})
	must(s.t, err)
	s.store.reset()
	result := mustWalk(s.t, s.store, s.dir, func(o *Options) {
		o.Cache, o.Reuse = cache, ReuseTrusted
		if change != nil {
			change(o)
		}
	})
	then(cache, result)
	must(s.t, cache.Close())
	return result
}

func TestUnchangedTreeIsNotRead(t *testing.T) {
	s := newSource(t)
	makeTree(t, s.dir)
	must(t, unix.Setxattr(s.path("d1"), "user.note", []byte(strings.Repeat("x", 2000)), 0))
	first := s.snapshot(nil)
	second := s.snapshot(nil)
	if second.FilesRead != 0 || second.BytesRead != 0 || second.FilesReused != first.Counts.Files {
		t.Errorf("%d files were read, %d reused", second.FilesRead, second.FilesReused)
	}
	if second.DirsReused != first.Counts.Dirs+1 || s.store.asked != 0 || len(s.store.added) != 0 {
		t.Errorf("%d of %d directories reused, %d blobs asked for", second.DirsReused, first.Counts.Dirs+1, s.store.asked)
	}
	if second.Root != first.Root || second.Counts != first.Counts {
		t.Errorf("another root, or counts %+v instead of %+v", second.Counts, first.Counts)
	}
}

func TestOnlyWhatChangedIsRead(t *testing.T) {
	s := newSource(t)
	makeTree(t, s.dir)
	first := s.snapshot(nil)
	write(t, s.path("d1/e1/new"), "new")
	appendTo(t, s.path("d2/e2/f2"), "x")
	must(t, os.Remove(s.path("d3/e0/f3")))
	must(t, os.Chmod(s.path("d4"), 0o711))
	second := s.snapshot(nil)
	if second.FilesRead != 2 || second.Root == first.Root {
		t.Errorf("%d files read, want 2", second.FilesRead)
	}
	// Left as they were: of 22 directories not d1, d1/e1, d2, d2/e2, d3, d3/e0, the root.
	if second.DirsReused != 15 {
		t.Errorf("%d directories reused, want 15", second.DirsReused)
	}
	checkAgainstDisk(t, s.store, s.dir, second)
}

func TestEditWithRestoredTimes(t *testing.T) {
	s := newSource(t)
	write(t, s.path("f"), "before")
	when := time.Unix(1_600_000_000, 0)
	must(t, os.Chtimes(s.path("f"), when, when))
	first := s.snapshot(nil)
	waitForTick(t, s.dir)
	overwrite(t, s.path("f"), 'B')
	must(t, os.Chtimes(s.path("f"), when, when))
	second := s.snapshot(nil)
	if second.Root == first.Root || second.FilesRead != 1 {
		t.Error("an edit of the same size with restored mtime is missed")
	}
	checkAgainstDisk(t, s.store, s.dir, second)
}

// waitForTick returns when the clock of the filesystem has moved on: the
// pretended time of these walks leaves that to them.
func waitForTick(t *testing.T, dir string) {
	t.Helper()
	probe := filepath.Join(t.TempDir(), "probe")
	change := func() manifest.Time {
		must(t, os.WriteFile(probe, []byte("x"), 0o600))
		var st unix.Stat_t
		must(t, unix.Stat(probe, &st))
		return timeOf(st.Ctim)
	}
	for first := change(); change() == first; {
	}
}

// A file that changed just before the walk may change again without a trace.
func TestFreshFilesAreReadAgain(t *testing.T) {
	s := newSource(t)
	write(t, s.path("f"), "fresh")
	var st unix.Stat_t
	must(t, unix.Stat(s.path("f"), &st))
	ctime := timeOf(st.Ctim).Time()
	soon := func(d time.Duration) func(*Options) {
		return func(o *Options) { o.Now = func() time.Time { return ctime.Add(d) } }
	}
	s.snapshot(soon(fineGranule))
	if r := s.snapshot(soon(fineGranule + 1)); r.FilesRead != 1 {
		t.Errorf("%d files read: the fresh one was believed", r.FilesRead)
	}
	if r := s.snapshot(soon(fineGranule + 1)); r.FilesRead != 0 {
		t.Errorf("%d files read: an old one was not believed", r.FilesRead)
	}
}

// Content that one name was read as, too soon after a change, is not to be
// believed for another name either, however late that is looked at.
func TestFreshContentOfAnotherNameIsReadAgain(t *testing.T) {
	s := newSource(t)
	write(t, s.path("a/one"), strings.Repeat("x", minLinkedContent))
	must(t, os.MkdirAll(s.path("b"), 0o755))
	must(t, os.Link(s.path("a/one"), s.path("b/two")))
	var st unix.Stat_t
	must(t, unix.Stat(s.path("a/one"), &st))
	soon, late := timeOf(st.Ctim).Time(), timeOf(st.Ctim).Time().Add(time.Second)
	asked := 0
	first := s.snapshot(func(o *Options) {
		o.Workers = 1
		o.Now = func() time.Time { // of the root, of a, of b
			if asked++; asked == 3 {
				return late
			}
			return soon
		}
	})
	if asked != 3 || first.FilesRead != 1 {
		t.Fatalf("asked %d times, %d files read", asked, first.FilesRead)
	}
	if r := s.snapshot(func(o *Options) { o.Now = func() time.Time { return late } }); r.FilesReused != 0 {
		t.Errorf("%d names were believed", r.FilesReused)
	}
}

func TestFresh(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(d time.Duration) manifest.Time { return manifest.TimeOf(now.Add(d)) }
	old := at(-time.Hour)
	for _, c := range []struct {
		name         string
		ctime, mtime manifest.Time
		want         bool
	}{
		{"old", old, old, false},
		{"ctime in the granule", at(-time.Second), old, true},
		{"ctime at its edge", at(-2 * time.Second), old, true},
		{"ctime before it", at(-2*time.Second - 1), old, false},
		{"ctime in the future", at(time.Hour), old, true},
		{"mtime in the granule", old, at(-time.Second), true},
		{"mtime a little ahead", old, at(time.Second), true},
		{"mtime set to the far future", old, at(24 * time.Hour), false},
	} {
		if got := fresh(&statcache.Stat{CTime: c.ctime, MTime: c.mtime}, now, 2*time.Second); got != c.want {
			t.Errorf("%s: fresh %t, want %t", c.name, got, c.want)
		}
	}
}

func TestUnconfirmedBlobsAreReadAgain(t *testing.T) {
	s := newSource(t)
	makeTree(t, s.dir)
	makeManyExtents(t, s.path("extents"))
	first := s.walk(nil) // not published
	if r := s.walk(func(o *Options) { o.GetNode = s.store.getNode }); r.FilesRead != 0 || s.store.asked == 0 || r.DirsReused != 0 {
		t.Errorf("%d files read, %d blobs asked for", r.FilesRead, s.store.asked)
	}
	if r := s.walk(nil); r.FilesRead != 1 {
		t.Errorf("%d files read, want the one whose list cannot be had", r.FilesRead)
	}
	// The published one is believed, unless the caller knows better.
	s.snapshot(nil)
	if r := s.walk(nil); r.FilesRead != 0 || s.store.asked != 0 {
		t.Errorf("%d files read, %d blobs asked for", r.FilesRead, s.store.asked)
	}
	tree := mustTree(t, s.store, first)
	delete(s.store.blobs, tree["d1/e1/f1"].Content.Extents[0].ID)
	delete(s.store.blobs, tree["big"].Content.Extents[2].ID)
	for x, err := range manifest.ReadContent(context.Background(), s.store.getNode, ptr(tree["extents"])) {
		must(t, err)
		if !x.Hole() {
			delete(s.store.blobs, x.ID)
			break
		}
	}
	r := s.walk(func(o *Options) { o.Reuse, o.GetNode = ReuseConfirmed, s.store.getNode })
	if r.FilesRead != 3 || r.Root != first.Root {
		t.Errorf("%d files read, want 3", r.FilesRead)
	}
	checkAgainstDisk(t, s.store, s.dir, r)
	if r := s.walk(func(o *Options) { o.Reuse = ReuseNothing }); r.FilesReused != 0 || r.Root != first.Root {
		t.Errorf("%d files reused", r.FilesReused)
	}
}

func ptr[T any](v T) *T { return &v }

// makeManyExtents makes a file whose chunks do not fit into an entry.
func makeManyExtents(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	for i := range 2 * manifest.MaxExtents {
		_, err := fmt.Fprintf(f, "%d", i)
		must(t, err)
		_, err = f.Seek(int64(i+1)*256<<10, 0)
		must(t, err)
	}
	must(t, f.Close())
}

// Blobs that the base does not reach are collected; a directory that was away
// meanwhile, with all its times, is stored again when it comes back.
func TestDirectoryComesBack(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		s := newSource(t)
		away := filepath.Join(t.TempDir(), "away")
		write(t, s.path("stays"), "stays")
		write(t, s.path("p/moves/deep/file"), "moves")
		if interrupted { // recorded by a walk that was not published
			s.walk(nil)
		} else {
			s.snapshot(nil)
		}
		must(t, os.Rename(s.path("p/moves"), away))
		s.collect(s.snapshot(nil))
		must(t, os.Rename(away, s.path("p/moves")))
		r := s.snapshot(nil)
		checkAgainstDisk(t, s.store, s.dir, r)
	}
}

// collect removes all blobs that the snapshot does not reach.
func (s *source) collect(r Result) {
	s.t.Helper()
	keep := map[blob.ID]bool{}
	queue := []blob.ID{r.Root}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		if keep[id] {
			continue
		}
		keep[id] = true
		b, err := s.store.getNode(context.Background(), id)
		must(s.t, err)
		trees, data, err := manifest.References(b)
		must(s.t, err)
		queue = append(queue, trees...)
		for _, id := range data {
			keep[id] = true
		}
	}
	for id := range s.store.blobs {
		if !keep[id] {
			delete(s.store.blobs, id)
		}
	}
}

// An interrupted walk leaves records that the next one uses.
func TestInterruptedWalk(t *testing.T) {
	s := newSource(t)
	const files = 2000
	for i := range files {
		write(t, s.path(fmt.Sprintf("d%d/f%d", i%2, i)), fmt.Sprint(i, strings.Repeat("x", 2000)))
	}
	cache, err := statcache.Open(s.cache, statcache.Identity{Root: s.dir})
	must(t, err)
	s.store.limit = files * 6 / 10
	opts := Options{Root: s.dir, NewWriter: s.store.writer, Chunk: testParams, Workers: 2, Now: later, Cache: cache}
	_, err = Walk(context.Background(), opts)
	if !errors.Is(err, errStoreFull) {
		t.Fatalf("walk: %v", err)
	}
	must(t, cache.Close())
	s.store.limit = 0
	r := s.snapshot(nil)
	if r.BytesRead*100 > r.Counts.Bytes*45 {
		t.Errorf("read %d of %d bytes again", r.BytesRead, r.Counts.Bytes)
	}
	checkAgainstDisk(t, s.store, s.dir, r)
}

func TestOmissionsAreReportedAgain(t *testing.T) {
	s := newSource(t)
	write(t, s.path("big/torn"), strings.Repeat("x", 1000))
	write(t, s.path("still"), "still")
	change := func(o *Options) {
		o.hooks.afterRead = func(p string, _ int) {
			if p == "big/torn" {
				appendTo(t, s.path(p), "y")
			}
		}
	}
	s.snapshot(change)
	r := s.snapshot(nil)
	if r.FilesRead != 1 || r.Torn() {
		t.Errorf("%d files read: a torn file must not be cached", r.FilesRead)
	}
	checkAgainstDisk(t, s.store, s.dir, r)
}

// A directory of several batches, changed, shrunk and grown.
func TestCacheOfLargeDirectory(t *testing.T) {
	s := &source{t: t, dir: shmDir(t), cache: t.TempDir(), store: newStore()}
	const files = 3 * maxBatch
	makeEmptyFiles(t, s.path(""), files)
	must(t, os.Mkdir(s.path("g"), 0o755))
	write(t, s.path("g/inside"), "inside")
	first := s.snapshot(nil)
	check := func(what string, wantRead uint64) Result {
		t.Helper()
		r := s.snapshot(nil)
		want := mustWalk(t, newStore(), s.dir, nil)
		if r.FilesRead != wantRead || s.store.asked != 0 {
			t.Errorf("%s: %d files read, want %d; %d blobs asked for", what, r.FilesRead, wantRead, s.store.asked)
		}
		if r.Root != want.Root || r.Counts != want.Counts {
			t.Errorf("%s: counts %+v, without a cache %+v", what, r.Counts, want.Counts)
		}
		return r
	}
	if r := check("unchanged", 0); r.Root != first.Root || len(s.store.added) > 0 {
		t.Error("another root")
	}
	write(t, s.path("f0010000"), "longer")
	check("one changed", 1)
	check("after a change", 0)
	for i := range files - 100 {
		must(t, os.Remove(s.path(fmt.Sprintf("f%07d", i))))
	}
	check("shrunk to one batch", 0)
	check("after shrinking", 0)
	makeFrom(t, s.dir, 0, files-100)
	check("grown again", files-100)
	check("after growing", 0)
}

func makeFrom(t *testing.T, dir string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%07d", i)), nil, 0o644))
	}
}

// A cache that cannot be written costs the next walk time, not this one its
// result.
func TestCacheOnFullDisk(t *testing.T) {
	s := newSource(t)
	must(t, unix.Mount("tmpfs", s.cache, "tmpfs", 0, "size=1m")) // needs root
	defer unix.Unmount(s.cache, unix.MNT_DETACH)
	for i := range 200 {
		must(t, os.Mkdir(s.path(fmt.Sprintf("d%d", i)), 0o755))
		makeEmptyFiles(t, s.path(fmt.Sprintf("d%d", i)), 100)
	}
	cache, err := statcache.Open(s.cache, statcache.Identity{})
	must(t, err)
	r := mustWalk(t, s.store, s.dir, func(o *Options) { o.Cache = cache })
	if r.CacheErr == nil || r.Counts.Files != 20_000 {
		t.Errorf("error %v, counts %+v", r.CacheErr, r.Counts)
	}
	cache.Close() // fails as well
}

// The rest of a large directory that cannot be opened again is reported, and no
// record of it is left behind the node that lacks it.
func TestRestOfADirectoryIsLost(t *testing.T) {
	for _, c := range []struct {
		err        error
		vanished   uint64
		unreadable uint64
	}{{errMoved, 2, 0}, {unix.EACCES, 0, 1}} {
		folder := t.TempDir()
		cache, err := statcache.Open(folder, statcache.Identity{})
		must(t, err)
		session := func() *statcache.Session {
			s, err := cache.Session()
			must(t, err)
			return s
		}
		old := session()
		for _, name := range []string{"a", "b", "c"} {
			first := strings.TrimPrefix(name, "a") // the first run begins the directory
			must(t, old.Put(nil, first, blob.ID{}, func(yield func(*statcache.Entry) bool) { yield(&statcache.Entry{Name: name}) }))
		}
		must(t, old.Close())
		must(t, cache.Close())
		cache, err = statcache.Open(folder, statcache.Identity{})
		must(t, err)
		w := &worker{ctx: t.Context(), writer: newStore().writer(), session: session(), walk: &walk{
			opts: Options{Now: time.Now}, sched: newScheduler(1), omissions: new(omissions)}}
		d := &dir{linkDir: -1, next: 1, list: &listing{block: "abc", names: []listed{{off: 0, len: 1}, {off: 1, len: 1}, {off: 2, len: 1}}}}
		must(t, w.miss(task{what: nextBatch, dir: d}, c.err))
		must(t, w.session.Close())
		if n := w.result.Counts; n.Vanished != c.vanished || n.Unreadable != c.unreadable {
			t.Errorf("%v: counts %+v", c.err, n)
		}
		after := session()
		var e statcache.Entry
		if after.Seek(nil, "c").Find("c", &e) {
			t.Errorf("%v: the record of what is lost is still there", c.err)
		}
		must(t, after.Close())
		must(t, cache.Close())
	}
}
