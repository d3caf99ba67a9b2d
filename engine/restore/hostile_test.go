package restore

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// dirOf stores a directory of entries.
func dirOf(t testing.TB, src *memSource, entries ...manifest.Entry) blob.ID {
	t.Helper()
	w := manifest.NewDirWriter(src.putNode)
	for i := range entries {
		must(t, w.Add(&entries[i]))
	}
	id, err := w.Finish()
	must(t, err)
	return id
}

func rootOf(src *memSource, node blob.ID) Snapshot {
	return Snapshot{Root: src.put(blob.Tree, manifest.EncodeRoot(manifest.Entry{Kind: manifest.Dir, Mode: 0o755, Node: node, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}))}
}

// wantRefused restores a hostile snapshot and expects an error that says why,
// and no target.
func wantRefused(t *testing.T, src *memSource, snap Snapshot, opts Options, want error) {
	t.Helper()
	opts.Target = tempDir(t) + "/dst"
	_, err := Run(t.Context(), src, snap, opts)
	if !errors.Is(err, want) || errors.Is(err, ErrPartial) {
		t.Fatalf("got %v, want %v", err, want)
	}
	if _, err := os.Lstat(opts.Target); err == nil {
		t.Fatal("the target is there")
	}
}

// TestFanOut describes 10^9 files by ten nodes.
func TestFanOut(t *testing.T) {
	src := newMemSource()
	node := dirOf(t, src)
	for range 9 {
		var entries []manifest.Entry
		for i := range 10 {
			entries = append(entries, manifest.Entry{Name: fmt.Sprint(i), Kind: manifest.Dir, Mode: 0o755, Node: node})
		}
		node = dirOf(t, src, entries...)
	}
	wantRefused(t, src, rootOf(src, node), Options{Limits: Limits{MaxEntries: 500}}, ErrLimit)
	if n := src.nodes.Load(); n > 1000 {
		t.Errorf("%d nodes were read", n)
	}
}

// TestDepth nests directories deeper than any path can be long.
func TestDepth(t *testing.T) {
	src := newMemSource()
	node := dirOf(t, src)
	const depth = 3000
	for i := range depth {
		node = dirOf(t, src, manifest.Entry{Name: "d", Kind: manifest.Dir, Mode: 0o755, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), MTime: manifest.Time{Sec: int64(i)}, Node: node})
	}
	wantRefused(t, src, rootOf(src, node), Options{Limits: Limits{MaxDepth: depth}}, ErrLimit)
	// Within the limit it is a tree like any other, also to delete.
	target := tempDir(t) + "/dst"
	for range 2 {
		r := mustRun(t, src, rootOf(src, node), Options{Target: target})
		if r.Dirs != depth+1 {
			t.Fatalf("%+v", r)
		}
	}
	r := mustRun(t, src, rootOf(src, dirOf(t, src)), Options{Target: target, Delete: true})
	if r.Deleted != depth {
		t.Fatalf("%d of %d deleted", r.Deleted, depth)
	}
}

// TestEmptyLeaves makes lists of nodes that hold nothing: they would cost time
// without ever counting as an entry.
func TestEmptyLeaves(t *testing.T) {
	const dirNodes, contentNodes, linkNodes = 1, 3, 4
	top := func(src *memSource, kind byte) blob.ID {
		index := src.put(blob.Tree, []byte{kind, 0, 0})
		for level := byte(1); level < 6; level++ {
			index = indexNode(src, kind, level, index)
		}
		return index
	}
	for name, hostile := range map[string]func(src *memSource) Snapshot{
		"dir": func(src *memSource) Snapshot { return rootOf(src, top(src, dirNodes)) },
		"content": func(src *memSource) Snapshot {
			return rootOf(src, dirOf(t, src, manifest.Entry{Name: "f", Kind: manifest.File, Size: 1 << 40, Content: manifest.Content{List: top(src, contentNodes)}}))
		},
		"links": func(src *memSource) Snapshot {
			snap := rootOf(src, dirOf(t, src))
			snap.Links = top(src, linkNodes)
			return snap
		},
	} {
		src := newMemSource()
		_, err := Run(t.Context(), src, hostile(src), Options{Target: tempDir(t) + "/dst"})
		if !errors.Is(err, manifest.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if n := src.nodes.Load(); n > 100 {
			t.Errorf("%s: %d nodes were read", name, n)
		}
	}
}

// indexNode encodes an index node of 64 children that are all the same.
func indexNode(src *memSource, kind, level byte, child blob.ID) blob.ID {
	b := []byte{kind, level, 64}
	for i := range 64 {
		if kind == 3 {
			b = append(b, 0, 1)
		} else {
			b = append(b, 1, byte('0'+i), 1)
		}
		b = append(b, child[:]...)
	}
	return src.put(blob.Tree, b)
}

// TestOneBlobEverywhere describes files of 2^40 bytes by one blob.
func TestOneBlobEverywhere(t *testing.T) {
	src := newMemSource()
	data := make([]byte, 1<<20)
	data[0] = 1
	chunk := manifest.Extent{Length: uint64(len(data)), ID: src.put(blob.Data, data)}
	w := manifest.NewContentWriter(src.putNode)
	for range 5000 {
		must(t, w.Add(chunk))
	}
	content, err := w.Finish()
	must(t, err)
	var entries []manifest.Entry
	for i := range 10 {
		entries = append(entries, manifest.Entry{Name: fmt.Sprint(i), Kind: manifest.File, Size: 5000 << 20, Content: content})
	}
	snap := rootOf(src, dirOf(t, src, entries...))
	snap.Bytes = 1 // a lie
	wantRefused(t, src, snap, Options{Limits: Limits{MaxBytes: 10 << 20}}, ErrLimit)
	wantRefused(t, src, snap, Options{Limits: Limits{MaxEntries: 20}}, ErrLimit)
}

// TestEndlessHole asks for a file as large as numbers go.
func TestEndlessHole(t *testing.T) {
	src, target := newMemSource(), tempDir(t)+"/dst"
	const size = 1<<63 - 1
	node := dirOf(t, src,
		manifest.Entry{Name: "hole", Kind: manifest.File, Mode: 0o600, Size: size, Content: manifest.Content{Extents: []manifest.Extent{{Length: size}}}},
		manifest.Entry{Name: "other", Kind: manifest.File, Mode: 0o600})
	r, err := Run(t.Context(), src, rootOf(src, node), Options{Target: target})
	if err != nil && !errors.Is(err, ErrPartial) {
		t.Fatal(err)
	}
	// Some filesystems take it, others say that it is too large.
	if err != nil && (len(r.Failed) != 1 || r.Failed[0].Path != "hole") {
		t.Errorf("failed %v", r.Failed)
	}
	if _, err := os.Stat(target + "/other"); err != nil {
		t.Error(err)
	}
}

// TestTooLargeForTheDisk: a snapshot that cannot fit is refused before a byte
// is written, whatever its manifest says.
func TestTooLargeForTheDisk(t *testing.T) {
	src := newMemSource()
	data := make([]byte, 1<<20)
	data[0] = 1
	x := manifest.Extent{Length: uint64(len(data)), ID: src.put(blob.Data, data)}
	w := manifest.NewContentWriter(src.putNode)
	for range 1000 {
		must(t, w.Add(x))
	}
	content, err := w.Finish()
	must(t, err)
	file := manifest.Entry{Kind: manifest.File, Size: 1000 << 20, Content: content}
	node := dirOf(t, src)
	for range 2 { // 10^5 files of 1 GB
		var entries []manifest.Entry
		for i := range 316 {
			file.Name = fmt.Sprintf("f%d", i)
			entries = append(entries, file)
		}
		for i := range 316 {
			entries = append(entries, manifest.Entry{Name: fmt.Sprintf("g%d", i), Kind: manifest.Dir, Node: node})
		}
		sortEntries(entries)
		node = dirOf(t, src, entries...)
	}
	wantRefused(t, src, rootOf(src, node), Options{}, ErrNoSpace)
	if n := src.reads.Load(); n > 0 {
		t.Errorf("%d blobs were read", n)
	}
}

// TestLinkLists restores with lists of hard links that are not what they
// should be.
func TestLinkLists(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	good := capture(t, src, dir+"/src")
	list := func(groups ...[]string) blob.ID {
		w := manifest.NewLinkWriter(src.putNode)
		for _, g := range groups {
			must(t, w.Add(g))
		}
		id, err := w.Finish()
		must(t, err)
		return id
	}
	for name, links := range map[string]blob.ID{
		"path in two groups": list([]string{"a/empty", "a/script.sh"}, []string{"a/script.sh", "fifo"}),
		"no such blob":       {1, 2, 3},
	} {
		snap := good
		snap.Links = links
		_, err := Run(t.Context(), src, snap, Options{Target: dir + "/" + name})
		if !errors.Is(err, ErrPartial) {
			t.Errorf("%s: %v", name, err)
		}
		snap.Links = blob.ID{}
		wantEqual(t, src, dir+"/"+name, snap) // every file for itself
	}
	// Paths that are not in the tree make nothing.
	snap := good
	snap.Links = list([]string{"a/deep/link", "a/script.sh"}, []string{"absent", "too"}, []string{"empty", "fifo", "nowhere"})
	_, err := Run(t.Context(), src, snap, Options{Target: dir + "/absent"})
	if err != nil && !errors.Is(err, ErrPartial) {
		t.Fatal(err)
	}
	for _, path := range []string{"absent", "too", "nowhere"} {
		if _, err := os.Lstat(dir + "/absent/" + path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
}
