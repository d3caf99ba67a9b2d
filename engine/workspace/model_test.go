package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/statcache"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Whatever happens between walks, and whatever happened to walks before, a
// published snapshot holds the tree: all of its blobs are stored, although
// collections remove what the last one does not reach, and a walk without a
// cache finds the same root.
func TestCacheNeverLies(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(t, rt)
		defer m.close()
		rt.Repeat(map[string]func(*rapid.T){
			"edit":             m.edit,
			"remove":           m.remove,
			"move":             m.move,
			"snapshot":         m.snapshot,
			"collect":          m.collect,
			"walk unpublished": func(*rapid.T) { m.walk(ReuseTrusted, 0) },
			"walk interrupted": func(t *rapid.T) { m.walk(ReuseTrusted, rapid.IntRange(1, 12).Draw(t, "limit")) },
		})
		m.snapshot(rt)
	})
}

type model struct {
	*source
	rt   *rapid.T
	base Result
	any  bool
}

func newModel(t *testing.T, rt *rapid.T) *model {
	base, err := os.MkdirTemp("/dev/shm", "workspace-model-")
	must(t, err)
	m := &model{rt: rt, source: &source{t: t, dir: filepath.Join(base, "tree"), cache: filepath.Join(base, "cache"), store: newStore()}}
	must(t, os.MkdirAll(m.dir, 0o755))
	must(t, os.Mkdir(filepath.Join(base, "away"), 0o755))
	return m
}

func (m *model) close() { os.RemoveAll(filepath.Dir(m.dir)) }

// draw draws the path of a place in the tree, or beside it where walks do not come.
func (m *model) draw(t *rapid.T, label string) string {
	names := rapid.SampledFrom([]string{"a", "b", "c"})
	path := rapid.SampledFrom([]string{m.dir, m.dir, m.dir, filepath.Join(filepath.Dir(m.dir), "away")}).Draw(t, label)
	for range rapid.IntRange(1, 3).Draw(t, label) {
		path = filepath.Join(path, names.Draw(t, label))
	}
	return path
}

// edit makes a file longer, or makes one: the length tells the change even if
// the clock of the filesystem did not tick.
func (m *model) edit(t *rapid.T) {
	path := m.draw(t, "file")
	if os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return // a file is in the way
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return // a directory is
	}
	_, err = fmt.Fprintf(f, "%d,", rapid.IntRange(0, 99).Draw(t, "data"))
	must(m.t, err)
	must(m.t, f.Close())
}

func (m *model) remove(t *rapid.T) {
	_ = os.RemoveAll(m.draw(t, "victim")) // not below a file
}

func (m *model) move(t *rapid.T) {
	from, to := m.draw(t, "from"), m.draw(t, "to")
	_ = os.Rename(from, to) // some cannot be
}

func (m *model) snapshot(t *rapid.T) {
	reuse := rapid.SampledFrom([]Reuse{ReuseTrusted, ReuseTrusted, ReuseConfirmed}).Draw(t, "reuse")
	r, ok := m.walk(reuse, 0)
	if !ok {
		t.Fatal("walk failed")
	}
	m.base, m.any = r, true
	cache, err := statcache.Open(m.cache, statcache.Identity{Root: m.dir})
	must(m.t, err)
	must(m.t, cache.Commit(statcache.Base{Snapshot: r.Root, Dir: r.Dir}))
	must(m.t, cache.Close())
	m.check(t, r)
}

// check compares a snapshot with a walk without a cache into another store, and
// looks at every blob.
func (m *model) check(t *rapid.T, r Result) {
	fresh := newStore()
	want, err := Walk(context.Background(), Options{Root: m.dir, NewWriter: fresh.writer, Chunk: testParams, Workers: 1})
	must(m.t, err)
	if r.Root != want.Root || r.Counts != want.Counts {
		t.Fatalf("root %v, counts %+v; without a cache %v, %+v", r.Root, r.Counts, want.Root, want.Counts)
	}
	tree, err := m.store.tree(r.Root)
	if err != nil {
		t.Fatalf("read tree: %v", err)
	}
	for path, e := range tree {
		if _, err := m.store.content(e); err != nil && e.Kind == manifest.File {
			t.Fatalf("read %q: %v", path, err)
		}
	}
}

// walk walks until it is done or limit new data blobs were put.
func (m *model) walk(reuse Reuse, limit int) (Result, bool) {
	cache, err := statcache.Open(m.cache, statcache.Identity{Root: m.dir})
	must(m.t, err)
	defer func() { must(m.t, cache.Close()) }()
	m.store.reset()
	m.store.limit = limit
	defer func() { m.store.limit = 0 }()
	r, err := Walk(context.Background(), Options{
		Root: m.dir, NewWriter: m.store.writer, Chunk: testParams, Workers: 2, Now: later,
		Cache: cache, Reuse: reuse, GetNode: m.store.getNode,
	})
	if err != nil && !errors.Is(err, errStoreFull) {
		m.rt.Fatalf("walk: %v", err)
	}
	return r, err == nil
}

// collect removes what the last snapshot does not reach.
func (m *model) collect(*rapid.T) {
	if m.any {
		m.source.collect(m.base)
	} else {
		m.store.blobs = map[blob.ID][]byte{}
	}
}
