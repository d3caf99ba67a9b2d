package manifest

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/wire"
)

// A tree node is one tree blob. Part of the format; do not change.
//
//	1 byte  type: 1 directory, 2 root, 3 content list, 4 link list
//	1 byte  level, at most 7: 0 for items; n for an index of nodes of level n-1
//	varint  number of items or children
//	the items, or the children, one after the other
//
// The items:
//
//	directory     entries, strictly ascending by name
//	root          exactly one entry of kind dir with an empty name
//	content list  extents, as in an entry
//	link list     groups: varint number of paths (at least 2), then the paths,
//	              strings, ascending; groups ascend by their first path
//
// A child:
//
//	string    directory and link list: the last name (first path of the last
//	          group) below it; content list: empty
//	varint    weight: entries, bytes or groups below it, at least 1
//	32 bytes  id of the node
//
// A node holds at most 8192 entries or groups, or 2048 extents or children, and
// a directory node at most 5 MiB.
type nodeType uint8

const (
	dirNode     nodeType = 1
	rootNode    nodeType = 2
	contentNode nodeType = 3
	linkNode    nodeType = 4
)

// Bounds of nodes. What is larger is damaged, or refused by the writer. A
// decoded directory node takes up to 20 times the memory of an encoded one (80
// bytes for an xattr of 4), so those are held to less than MaxNode: to maxCut
// and one entry of MaxXattrs xattrs, 3.1 MiB.
const (
	MaxNode      = 16 << 20 // bytes of an encoded node
	MaxPath      = 1 << 16  // bytes of a path below the root, in a link list
	MaxLinkGroup = 12 << 20 // bytes of the paths of one link group
	maxDirNode   = 5 << 20
	maxLevel     = 8 // 64 children a node at least: 64^8 items are more than any tree has
)

// child is an entry of an index node.
type child struct {
	last   []byte
	weight uint64
	id     blob.ID
}

const minChild = 1 + 1 + blob.IDSize

func appendHeader(b []byte, t nodeType, level int, n int) []byte {
	b = append(b, byte(t), byte(level))
	return binary.AppendUvarint(b, uint64(n))
}

func appendChild(b []byte, c child) []byte {
	b = wire.AppendString(b, c.last)
	b = binary.AppendUvarint(b, c.weight)
	return append(b, c.id[:]...)
}

// openNode reads the header of a node of the wanted type.
func openNode(b []byte, want nodeType) (d *wire.Decoder, level int) {
	d = wire.NewDecoder("tree node", b)
	if len(b) > MaxNode || want == dirNode && len(b) > maxDirNode {
		d.Fail("%d bytes long", len(b))
	}
	if t := nodeType(d.Byte()); t != want {
		d.Fail("node of type %d, want %d", t, want)
	}
	level = int(d.Byte())
	if level >= maxLevel || level > 0 && want == rootNode {
		d.Fail("level %d", level)
	}
	return d, level
}

// count reads the number of items of at least size bytes. No writer puts more
// than limit into a node.
func count(d *wire.Decoder, size, limit int) int {
	n := d.Count(size)
	if n > limit {
		d.Fail("%d items or children, more than %d", n, limit)
		return 0
	}
	return n
}

func decodeChildren(d *wire.Decoder, t nodeType) []child {
	children := make([]child, count(d, minChild, indexBounds.max))
	if len(children) == 0 {
		d.Fail("index node without children")
	}
	total := uint64(0)
	for i := range children {
		children[i] = child{last: d.String(MaxPath), weight: d.Uvarint(math.MaxInt64), id: decodeID(d)}
		switch {
		case t == contentNode && len(children[i].last) > 0:
			d.Fail("name in a content list")
		case t != contentNode && i > 0 && bytes.Compare(children[i-1].last, children[i].last) >= 0:
			d.Fail("children are not sorted")
		case children[i].weight == 0 || children[i].weight > math.MaxInt64-total:
			d.Fail("child of weight %d behind %d", children[i].weight, total)
		}
		total += children[i].weight
		if d.Err() != nil {
			return nil
		}
	}
	return children
}

// minEntry is the fewest bytes of an entry: name of one byte, a socket.
const minEntry = 2 + 1 + 3 + 2 + 1

func decodeEntries(d *wire.Decoder) []Entry {
	entries := make([]Entry, count(d, minEntry, dirBounds.max))
	for i := range entries {
		entries[i] = decodeEntry(d)
		d.Check(CheckName(entries[i].Name))
		if i > 0 && entries[i-1].Name >= entries[i].Name {
			d.Fail("entries are not sorted")
		}
		if d.Err() != nil {
			return nil
		}
	}
	return entries
}

func decodeExtentList(d *wire.Decoder) []Extent {
	extents := decodeExtents(d, count(d, 1, contentBounds.max))
	if d.Err() == nil {
		_, err := checkExtents(extents)
		d.Check(err)
	}
	return extents
}

func decodeGroups(d *wire.Decoder) [][]string {
	groups := make([][]string, count(d, 1+2*2, linkBounds.max))
	for i := range groups {
		groups[i] = decodeGroup(d)
		if i > 0 && d.Err() == nil && groups[i-1][0] >= groups[i][0] {
			d.Fail("link groups are not sorted")
		}
		if d.Err() != nil {
			return nil
		}
	}
	return groups
}

// decodeGroup allocates as it reads and checks each path at once: ascending paths
// take more than the two bytes each that the count alone could promise.
func decodeGroup(d *wire.Decoder) []string {
	n := d.Count(2)
	group := make([]string, 0, min(n, 64))
	previous, size := "", 0
	for range n {
		path := string(d.String(MaxPath))
		size += len(path)
		d.Check(checkPath(previous, path))
		if d.Err() != nil {
			return nil
		}
		group, previous = append(group, path), path
	}
	if len(group) < 2 || size > MaxLinkGroup {
		d.Fail("link group of %d paths, %d bytes", len(group), size)
	}
	return group
}

// EncodeRoot encodes the root node of a snapshot: the root directory itself. Its
// name is ignored. A root that Check refuses encodes to what DecodeRoot refuses.
func EncodeRoot(root Entry) []byte {
	root.Name = ""
	return appendEntry(appendHeader(nil, rootNode, 0, 1), &root)
}

// DecodeRoot is the inverse of EncodeRoot.
func DecodeRoot(b []byte) (Entry, error) {
	d, _ := openNode(b, rootNode)
	if n := d.Count(minEntry - 1); n != 1 {
		d.Fail("root node of %d entries", n)
	}
	root := decodeEntry(d)
	if root.Kind != Dir || root.Name != "" {
		d.Fail("root is a %v named %q", root.Kind, root.Name)
	}
	return root, d.Finish()
}
