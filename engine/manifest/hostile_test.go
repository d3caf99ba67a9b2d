package manifest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
)

func leafOf(t nodeType, items ...[]byte) []byte {
	b := appendHeader(nil, t, 0, len(items))
	for _, item := range items {
		b = append(b, item...)
	}
	return b
}

func indexOf(t nodeType, level int, children ...child) []byte {
	b := appendHeader(nil, t, level, len(children))
	for _, c := range children {
		b = appendChild(b, c)
	}
	return b
}

func fifo(name string) []byte { return appendEntry(nil, &Entry{Name: name, Kind: FIFO}) }

func named(last string, weight uint64, id blob.ID) child {
	return child{last: []byte(last), weight: weight, id: id}
}

// An index that says something else than the node below it shows would let two
// readers see two directories.
func TestIndexesThatLie(t *testing.T) {
	n := newNodes()
	ab, cd := n.putAny(leafOf(dirNode, fifo("a"), fifo("b"))), n.putAny(leafOf(dirNode, fifo("c"), fifo("d")))
	empty := n.putAny(leafOf(dirNode))
	deep := n.putAny(indexOf(dirNode, 1, named("b", 2, ab)))
	data := n.putAny(leafOf(contentNode, appendExtent(nil, Extent{Length: 2, ID: testID(1)})))
	if got, err := readDir(n, n.putAny(indexOf(dirNode, 1, named("b", 2, ab), named("d", 2, cd)))); err != nil || len(got) != 4 {
		t.Fatalf("an honest index: %v, %v", got, err)
	}
	for name, node := range map[string][]byte{
		"other last name":      indexOf(dirNode, 1, named("c", 2, ab), named("d", 2, cd)),
		"other weight":         indexOf(dirNode, 1, named("b", 3, ab), named("d", 2, cd)),
		"no weight":            indexOf(dirNode, 1, named("a", 0, empty)),
		"empty leaf":           indexOf(dirNode, 1, named("a", 1, empty)),
		"no children":          indexOf(dirNode, 1),
		"unsorted leaves":      indexOf(dirNode, 1, named("d", 2, cd), named("b", 2, ab)),
		"one leaf twice":       indexOf(dirNode, 1, named("b", 2, ab), named("b", 2, ab)),
		"same level below":     indexOf(dirNode, 1, named("b", 2, deep)),
		"level left out":       indexOf(dirNode, 3, named("b", 2, deep)),
		"deep index, weight":   indexOf(dirNode, 2, named("b", 3, deep)),
		"deep index, name":     indexOf(dirNode, 2, named("bb", 2, deep)),
		"too high":             indexOf(dirNode, maxLevel, named("b", 2, ab)),
		"node of another type": indexOf(dirNode, 1, named("b", 2, data)),
		"content list":         indexOf(contentNode, 1, named("", 2, data)),
		"weights overflow":     indexOf(dirNode, 1, named("b", math.MaxInt64, ab), named("d", 1, cd)),
		"overlapping leaves":   indexOf(dirNode, 1, named("b", 2, ab), named("c", 3, n.putAny(leafOf(dirNode, fifo("a"), fifo("b"), fifo("c"))))),
	} {
		id := n.putAny(node)
		if got, err := readDir(n, id); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: ReadDir = %v, %v; want ErrDamaged", name, got, err)
		}
		for _, entry := range []string{"a", "b", "c", "d"} {
			got, err := Lookup(context.Background(), n.get, Entry{Kind: Dir, Node: id}, entry)
			if err == nil && got.Name != entry {
				t.Errorf("%s: Lookup(%q) finds %q", name, entry, got.Name)
			}
		}
	}
}

// unfold is a chain of indexes, each of 1000 times the one below, as high as
// weights can be.
func unfold(n *nodes, t nodeType, leaf []byte, c child) blob.ID {
	c.id = n.putAny(leaf)
	for level := 1; level < maxLevel; level++ {
		children := make([]child, 1000)
		total := uint64(0)
		for i := range children {
			children[i] = c
			if t != contentNode {
				children[i].last = fmt.Appendf(nil, "%03d", i)
			}
			total += c.weight
		}
		c.weight, c.last = total, children[999].last
		c.id = n.putAny(indexOf(t, level, children...))
		if total > math.MaxInt64/1000 {
			break
		}
	}
	return c.id
}

// Seven small nodes that unfold to 10^18 leaves end at the second leaf.
func TestNodesThatUnfold(t *testing.T) {
	n := newNodes()
	for name, id := range map[string]blob.ID{
		"entries":    unfold(n, dirNode, leafOf(dirNode, fifo("000")), named("000", 1, blob.ID{})),
		"no entries": unfold(n, dirNode, leafOf(dirNode), named("000", 1, blob.ID{})),
	} {
		n.gets = 0
		if got, err := readDir(n, id); !errors.Is(err, ErrDamaged) || n.gets > 10 {
			t.Errorf("%s: %d entries of %d nodes read, %v", name, len(got), n.gets, err)
		}
	}
	for name, leaf := range map[string][]byte{
		"extents":    leafOf(contentNode, appendExtent(nil, Extent{Length: 1, ID: testID(1)})),
		"no extents": leafOf(contentNode),
	} {
		n.gets = 0
		id := unfold(n, contentNode, leaf, named("", 1, blob.ID{}))
		e := Entry{Kind: File, Size: 5000, Content: Content{List: id}}
		if got, err := readContent(n, &e); !errors.Is(err, ErrDamaged) || n.gets > 6000 || len(got) > 5000 {
			t.Errorf("%s: %d extents of %d nodes read, %v", name, len(got), n.gets, err)
		}
	}
	n.gets = 0
	group := unfold(n, linkNode, leafOf(linkNode, appendGroup(nil, []string{"000", "x"})), named("000", 1, blob.ID{}))
	if got, err := readLinks(n, group); !errors.Is(err, ErrDamaged) || n.gets > 10 {
		t.Errorf("%d groups of %d nodes read, %v", len(got), n.gets, err)
	}
}

func TestMalformedNodes(t *testing.T) {
	long := strings.Repeat("n", MaxName+1)
	number := func(v uint64) []byte { return binary.AppendUvarint(nil, v) }
	someID := testID(1)
	file := func(size uint64, content ...byte) []byte {
		b := append(fifo("f")[:2], byte(File), 0, 0, 0, 0, 0)
		return append(append(append(b, number(size)...), content...), 0)
	}
	id := func(b ...byte) []byte { return append(b, someID[:]...) }
	tests := map[string][]byte{
		"empty":               nil,
		"type alone":          {1},
		"unknown type":        {9, 0, 0},
		"type zero":           {0, 0, 0},
		"root on level 1":     {2, 1, 1},
		"root without entry":  {2, 0, 0},
		"bytes left":          append(leafOf(dirNode, fifo("a")), 0),
		"padded count":        {1, 0, 0x80, 0},
		"names descend":       leafOf(dirNode, fifo("b"), fifo("a")),
		"name twice":          leafOf(dirNode, fifo("a"), fifo("a")),
		"empty name":          leafOf(dirNode, fifo("")),
		"name .":              leafOf(dirNode, fifo(".")),
		"name ..":             leafOf(dirNode, fifo("..")),
		"slash":               leafOf(dirNode, fifo("a/b")),
		"NUL":                 leafOf(dirNode, fifo("a\x00")),
		"long name":           leafOf(dirNode, fifo(long)),
		"named root":          append(appendHeader(nil, rootNode, 0, 1), appendEntry(nil, &Entry{Name: "x", Kind: Dir, Node: testID(1)})...),
		"root is a file":      append(appendHeader(nil, rootNode, 0, 1), appendEntry(nil, &Entry{Kind: File})...),
		"size without bytes":  leafOf(dirNode, file(1, 0)),
		"list of nothing":     leafOf(dirNode, file(0, id(33)...)),
		"34 extents":          leafOf(dirNode, file(1, id(34)...)),
		"extent, zero id":     leafOf(dirNode, file(1, append([]byte{1, 2}, make([]byte, 32)...)...)),
		"list, zero id":       leafOf(dirNode, file(1, append([]byte{33}, make([]byte, 32)...)...)),
		"empty extent":        leafOf(dirNode, file(0, id(1, 0)...)),
		"empty hole":          leafOf(dirNode, file(0, 1, 1)),
		"two holes":           leafOf(dirNode, file(2, 2, 3, 3)),
		"extents too short":   leafOf(dirNode, file(3, 1, 5)),
		"size of 2^63":        leafOf(dirNode, file(1<<63, 1, 3)),
		"holes of 2^64 bytes": leafOf(contentNode, number(1<<64-1), id(2), number(1<<64-1)),
		"content, two holes":  leafOf(contentNode, number(3), number(3)),
		"too many extents":    leafOf(contentNode, repeat(contentBounds.max+1, id(2))...),
		"too many entries":    leafOf(dirNode, manyFifos(dirBounds.max+1)...),
		"too many children":   indexOf(dirNode, 1, manyChildren(indexBounds.max+1)...),
		"group of one":        leafOf(linkNode, appendGroup(nil, []string{"a"})),
		"group descends":      leafOf(linkNode, appendGroup(nil, []string{"b", "a"})),
		"groups descend":      leafOf(linkNode, appendGroup(nil, []string{"b", "c"}), appendGroup(nil, []string{"a", "d"})),
		"group leaves root":   leafOf(linkNode, appendGroup(nil, []string{"a", "b/../../c"})),
		"name in content":     indexOf(contentNode, 1, named("x", 1, testID(1))),
		"child with zero id":  indexOf(dirNode, 1, named("x", 1, blob.ID{})),
		"long directory":      append(leafOf(dirNode), make([]byte, maxDirNode)...),
		"long link list":      append(leafOf(linkNode), make([]byte, MaxNode)...),
	}
	for name, b := range tests {
		t.Run(name, func(t *testing.T) {
			if again, err := Recode(b); !errors.Is(err, ErrDamaged) {
				t.Errorf("Recode = %x, %v; want ErrDamaged", again, err)
			}
			if trees, data, err := References(b); !errors.Is(err, ErrDamaged) {
				t.Errorf("References = %v, %v, %v; want ErrDamaged", trees, data, err)
			}
		})
	}
}

func repeat(n int, item []byte) [][]byte {
	items := make([][]byte, n)
	for i := range items {
		items[i] = item
	}
	return items
}

func manyFifos(n int) (items [][]byte) {
	for i := range n {
		items = append(items, fifo(fmt.Sprintf("%05d", i)))
	}
	return items
}

func manyChildren(n int) (children []child) {
	for i := range n {
		children = append(children, named(fmt.Sprintf("%05d", i), 1, testID(1)))
	}
	return children
}

// Every bit of every type of node counts: a changed node is another valid one
// or is refused.
func TestChangedNodesAreCanonical(t *testing.T) {
	for name, node := range goldenNodes(t) {
		for bit := range 8 * len(node) {
			altered := append([]byte(nil), node...)
			altered[bit/8] ^= 1 << (bit % 8)
			again, err := Recode(altered)
			if err != nil && !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s, bit %d: %v", name, bit, err)
			}
			if err == nil && string(again) != string(altered) {
				t.Fatalf("%s, bit %d: % x re-encodes to % x", name, bit, altered, again)
			}
		}
		for n := range len(node) {
			if _, err := Recode(node[:n]); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s cut to %d bytes of %d: %v", name, n, len(node), err)
			}
		}
	}
}

// The worst that a node of the longest kind can make of memory.
func TestDecodingAllocation(t *testing.T) {
	xattrs := make([]Xattr, MaxXattrs)
	for i := range xattrs {
		xattrs[i].Name = string([]byte{byte(i>>6) + 1, byte(i&63) + 1})
	}
	var entries [][]byte
	size := 0
	for i := 0; size < maxDirNode-50_000; i++ {
		entries = append(entries, appendEntry(nil, &Entry{Name: fmt.Sprintf("%05d", i), Kind: FIFO, Xattrs: xattrs}))
		size += len(entries[i])
	}
	var paths []string
	for i := range 1 << 20 {
		paths = append(paths, string([]byte{byte(i>>14&127) + 128, byte(i>>7&127) + 128, byte(i&127) + 128}))
	}
	for name, node := range map[string][]byte{
		"xattrs":             leafOf(dirNode, entries...),
		"paths":              leafOf(linkNode, appendGroup(nil, paths)),
		"announced entries":  append(binary.AppendUvarint([]byte{byte(dirNode), 0}, uint64(dirBounds.max)), make([]byte, 4<<20)...),
		"announced paths":    append(binary.AppendUvarint([]byte{byte(linkNode), 0, 1}, 7<<20), make([]byte, 15<<20)...),
		"announced children": append(binary.AppendUvarint([]byte{byte(linkNode), 1}, 400_000), make([]byte, 15<<20)...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := References(node)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 192<<20 {
			t.Errorf("%s: %d MiB allocated for a node of %d (%v)", name, n>>20, len(node)>>20, err)
		}
	}
}
