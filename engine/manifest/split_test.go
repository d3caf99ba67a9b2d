package manifest

import (
	"fmt"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
)

// million writes a directory of a million entries, without those and with those
// that change says, and returns the ids of its nodes.
func million(t *testing.T, change func(add func(name string, uid uint32))) map[blob.ID]bool {
	t.Helper()
	ids := map[blob.ID]bool{}
	w := NewDirWriter(func(node []byte) (blob.ID, error) {
		if len(node) > maxDirNode {
			t.Errorf("node of %d bytes", len(node))
		}
		id := testNamer.ID(blob.Tree, node)
		ids[id] = true
		return id, nil
	})
	change(func(name string, uid uint32) {
		if err := w.Add(&Entry{Name: name, Kind: File, Mode: 0o644, UID: uid}); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	memory := 0
	for _, l := range w.split.levels {
		memory += cap(l.body) + cap(l.last)
	}
	if memory > 4*maxCut {
		t.Errorf("a writer of a million entries holds %d bytes", memory)
	}
	return ids
}

func millionName(i int) string { return fmt.Sprintf("file-%07d.txt", i) }

func TestOneChangeRewritesOneNodeOfEachLevel(t *testing.T) {
	const size = 1_000_000
	before := million(t, func(add func(string, uint32)) {
		for i := range size {
			add(millionName(i), 0)
		}
	})
	if len(before) < 300 || len(before) > 3000 {
		t.Errorf("%d nodes for a million entries", len(before))
	}
	for _, tc := range []struct {
		kind string
		at   int
	}{{"insert", 333_333}, {"delete", 0}, {"change", size - 1}} {
		after := million(t, func(add func(string, uint32)) {
			for i := range size {
				switch {
				case i != tc.at:
					add(millionName(i), 0)
				case tc.kind == "insert":
					add(millionName(i), 0)
					add(millionName(i)+"~", 0)
				case tc.kind == "change":
					add(millionName(i), 1)
				}
			}
		})
		added := 0
		for id := range after {
			if !before[id] {
				added++
			}
		}
		// Three levels. A cut that moves splits or joins a neighbour on each.
		if added == 0 || added > 6 {
			t.Errorf("%s at %d: %d of %d nodes are new", tc.kind, tc.at, added, len(after))
		}
	}
}

// The cut points are part of the format.
func TestCutsAreGolden(t *testing.T) {
	if got := cutHash([]byte("name")); got != 0x43728e8194f4a6c7 {
		t.Errorf("cutHash = %#x", got)
	}
	n := newNodes()
	writeDir(t, n, bigDir(20_000))
	sizes := 0
	for _, node := range n.byID {
		sizes += len(node)
	}
	if len(n.byID) != 20 || sizes != 324_365 {
		t.Errorf("20,000 entries take %d nodes of %d bytes", len(n.byID), sizes)
	}
}

// Lists of any length read back, in particular those around the bounds of a
// node, where an index would have one child or a node none.
func TestListsOfEveryLength(t *testing.T) {
	for _, size := range []int{0, 1, dirBounds.min - 1, dirBounds.min, dirBounds.min + 1, 1500, 3000, 10_000} {
		n := newNodes()
		want := bigDir(size)
		got, err := readDir(n, writeDir(t, n, want))
		if err != nil || len(got) != size {
			t.Fatalf("%d entries: read %d, %v", size, len(got), err)
		}
		checkShape(t, n)
	}
}

// A list that ends exactly at a cut has no empty node and no index of one child
// on top.
func TestListsThatEndAtACut(t *testing.T) {
	for size, found := 1, 0; found < 3; size++ {
		last := fmt.Sprintf("%07d", 2*(size-1))
		if cutHash([]byte(last))&dirBounds.mask != 0 || size < dirBounds.min {
			continue
		}
		found++
		n := newNodes()
		got, err := readDir(n, writeDir(t, n, bigDir(size)))
		if err != nil || len(got) != size {
			t.Fatalf("%d entries: read %d, %v", size, len(got), err)
		}
		checkShape(t, n)
	}
}

// checkShape fails if a node is empty without being alone, or if the top is an
// index of one child.
func checkShape(t *testing.T, n *nodes) {
	t.Helper()
	referred := map[blob.ID]bool{}
	for _, node := range n.byID {
		trees, _, err := References(node)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range trees {
			referred[id] = true
		}
	}
	for id, node := range n.byID {
		d, level := openNode(node, nodeType(node[0]))
		if items := d.Count(1); items == 0 && len(n.byID) > 1 || items == 1 && level > 0 && !referred[id] {
			t.Errorf("one of %d nodes has level %d and %d items", len(n.byID), level, items)
		}
	}
}

// Names that are all alike to the hash are cut by number, large entries by bytes.
func TestNodesAreBounded(t *testing.T) {
	xattrs := make([]Xattr, 60)
	for i := range xattrs {
		xattrs[i] = Xattr{Name: fmt.Sprintf("user.%03d", i), Value: make([]byte, MaxInlineXattr)}
	}
	n := newNodes()
	entries := bigDir(300)
	for i := range entries {
		entries[i].Xattrs = xattrs
	}
	got, err := readDir(n, writeDir(t, n, entries))
	if err != nil || len(got) != len(entries) {
		t.Fatalf("read %d entries, %v", len(got), err)
	}
	for _, node := range n.byID {
		if len(node) > maxCut+40_000 {
			t.Errorf("node of %d bytes", len(node))
		}
	}

	w := NewContentWriter(n.put)
	for range 10_000 { // one blob again and again: the hash says cut always or never
		if err := w.Add(Extent{Length: 1, ID: testID(1)}); err != nil {
			t.Fatal(err)
		}
	}
	content, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	checkContent10k(t, n, content)
}

func checkContent10k(t *testing.T, n *nodes, content Content) {
	t.Helper()
	extents, err := readContent(n, &Entry{Kind: File, Size: 10_000, Content: content})
	if err != nil || len(extents) != 10_000 {
		t.Errorf("read %d extents, %v", len(extents), err)
	}
}
