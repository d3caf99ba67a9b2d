package manifest

import (
	"context"
	"fmt"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/wire"
)

// listOf reads the lists that a splitter wrote, of one type of item.
//
// A hostile writer can make an index whose children are all one node, of another
// level such children, and so on: a short chain of nodes that unfolds into more
// leaves than anybody can read. Ids exclude cycles, not that. Reading is bounded
// because every node below an index must be what its parent says of it: one level
// lower, not empty, of the same last name and weight. So each leaf of a sorted
// list goes on behind the one before it, and a content list cannot be longer
// than its file without an extent of every step being yielded.
type listOf[T any] struct {
	kind   nodeType
	decode func(*wire.Decoder) []T
	name   func(*T) string // by which the list is sorted; empty if it is not
	weight func(*T) uint64
}

var (
	entryList = listOf[Entry]{dirNode, decodeEntries,
		func(e *Entry) string { return e.Name }, func(*Entry) uint64 { return 1 }}
	extentList = listOf[Extent]{contentNode, decodeExtentList,
		func(*Extent) string { return "" }, func(x *Extent) uint64 { return x.Length }}
	groupList = listOf[[]string]{linkNode, decodeGroups,
		func(g *[]string) string { return (*g)[0] }, func(*[]string) uint64 { return 1 }}
)

// openedNode is a node whose header is decoded, and its children if it is an
// index. Of a leaf, d is at the items.
type openedNode struct {
	d        *wire.Decoder
	level    int
	children []child
	self     child // what the parent says of it; of the top node only the id is known
}

// openTop reads the top node of a list.
func openTop(ctx context.Context, get GetNode, t nodeType, id blob.ID) (openedNode, error) {
	if err := ctx.Err(); err != nil {
		return openedNode{}, err
	}
	b, err := get(ctx, id)
	if err != nil {
		return openedNode{}, err
	}
	n := openedNode{self: child{id: id}}
	if n.d, n.level = openNode(b, t); n.level > 0 {
		n.children = decodeChildren(n.d, t)
		return n, n.d.Finish()
	}
	return n, n.d.Err()
}

// openChild reads a node below an index of level+1.
func openChild(ctx context.Context, get GetNode, t nodeType, c child, level int) (openedNode, error) {
	n, err := openTop(ctx, get, t, c.id)
	if err != nil {
		return n, err
	}
	n.self = c
	if n.level != level {
		n.d.Fail("level %d below level %d", n.level, level+1)
	}
	if n.level > 0 {
		weight := uint64(0)
		for i := range n.children {
			weight += n.children[i].weight
		}
		n.checkSelf(string(n.children[len(n.children)-1].last), weight)
	}
	return n, n.d.Err()
}

func (n openedNode) checkSelf(last string, weight uint64) {
	if string(n.self.last) != last || n.self.weight != weight {
		n.d.Fail("node ends with %q and weighs %d, its index says %q and %d", last, weight, n.self.last, n.self.weight)
	}
}

// items decodes the items of a leaf.
func (l listOf[T]) items(n openedNode) ([]T, error) {
	items := l.decode(n.d)
	if err := n.d.Finish(); err != nil || n.self.weight == 0 {
		return items, err
	}
	last, weight := "", uint64(0)
	for i := range items {
		last = l.name(&items[i])
		weight += l.weight(&items[i])
	}
	n.checkSelf(last, weight)
	return items, n.d.Err()
}

// read yields the items of the list in order until yield returns false.
func (l listOf[T]) read(ctx context.Context, get GetNode, id blob.ID, yield func(*T) bool) error {
	top, err := openTop(ctx, get, l.kind, id)
	if err != nil {
		return err
	}
	r := &listReader[T]{listOf: l, get: get, yield: yield}
	_, err = r.below(ctx, top)
	return err
}

type listReader[T any] struct {
	listOf[T]
	get      GetNode
	yield    func(*T) bool
	previous string // name of the last item
}

// below yields the items below n and reports whether the reader wants more.
func (r *listReader[T]) below(ctx context.Context, n openedNode) (more bool, err error) {
	if n.level == 0 {
		return r.leaf(n)
	}
	for _, c := range n.children {
		child, err := openChild(ctx, r.get, r.kind, c, n.level-1)
		if err != nil {
			return false, err
		}
		if more, err := r.below(ctx, child); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

func (r *listReader[T]) leaf(n openedNode) (more bool, err error) {
	items, err := r.items(n)
	if err != nil || len(items) == 0 {
		return true, err
	}
	if first := r.name(&items[0]); first != "" && first <= r.previous {
		return false, fmt.Errorf("tree node: %w: %q follows %q in another node", ErrDamaged, first, r.previous)
	}
	r.previous = r.name(&items[len(items)-1])
	for i := range items {
		if !r.yield(&items[i]) {
			return false, nil
		}
	}
	return true, nil
}
