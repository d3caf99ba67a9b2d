package manifest

import (
	"fmt"

	"github.com/snapctl/snapctl/packfile/wire"
)

// Recode decodes a tree blob of any type and encodes it again. The result
// equals b whenever the error is nil; that is the property on which ids rest,
// and what tests hold every decoder to.
func Recode(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("tree node: %w: empty", ErrDamaged)
	}
	t := nodeType(b[0])
	d, level := openNode(b, t)
	switch {
	case t < dirNode || t > linkNode:
		d.Fail("unknown type %d", t)
	case t == rootNode:
		root, err := DecodeRoot(b)
		return EncodeRoot(root), err
	case level > 0:
		children := decodeChildren(d, t)
		out := appendHeader(nil, t, level, len(children))
		for _, c := range children {
			out = appendChild(out, c)
		}
		return out, d.Finish()
	}
	return recodeLeaf(d, t)
}

func recodeLeaf(d *wire.Decoder, t nodeType) ([]byte, error) {
	var out []byte
	switch t {
	case dirNode:
		entries := decodeEntries(d)
		out = appendHeader(out, t, 0, len(entries))
		for i := range entries {
			out = appendEntry(out, &entries[i])
		}
	case contentNode:
		extents := decodeExtentList(d)
		out = appendHeader(out, t, 0, len(extents))
		for _, x := range extents {
			out = appendExtent(out, x)
		}
	case linkNode:
		groups := decodeGroups(d)
		out = appendHeader(out, t, 0, len(groups))
		for _, group := range groups {
			out = appendGroup(out, group)
		}
	}
	return out, d.Finish()
}
