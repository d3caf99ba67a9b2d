package engine

import (
	"context"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// blobGraph knows what tree blobs name. Each is read once, whatever number of
// snapshots reach it; then following the names takes no request and little time.
// It takes 4 bytes a name and about 60 a tree blob.
type blobGraph struct {
	blobs *blobTable
	get   manifest.GetNode

	names   []uint32             // the numbers of what tree blobs name
	nodes   map[uint32]names     // of the tree blobs that were read
	missing map[blob.ID]struct{} // blobs that cannot be counted, or followed
}

// names are where the names in a tree blob begin: first its tree blobs, then its
// data blobs.
type names struct{ start, trees, data int }

func newBlobGraph(blobs *blobTable, get manifest.GetNode) *blobGraph {
	return &blobGraph{blobs: blobs, get: get, nodes: map[uint32]names{}, missing: map[blob.ID]struct{}{}}
}

// load reads the tree blobs below the roots that were not read before.
func (g *blobGraph) load(ctx context.Context, roots []blob.ID) error {
	stack := append([]blob.ID(nil), roots...)
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n, ok := g.number(id)
		if _, read := g.nodes[n]; read || !ok {
			continue
		}
		trees, data, err := g.read(ctx, id)
		if err != nil {
			return err
		}
		node := names{start: len(g.names)}
		node.trees = g.append(trees)
		node.data = g.append(data)
		g.nodes[n] = node
		stack = append(stack, trees...)
	}
	return nil
}

// read returns what a tree blob names: nothing if it is lost.
func (g *blobGraph) read(ctx context.Context, id blob.ID) (trees, data []blob.ID, err error) {
	node, err := g.get(ctx, id)
	if err == nil {
		trees, data, err = manifest.References(node)
	}
	if err != nil && ctx.Err() == nil && fetch.Lost(err) {
		g.missing[id] = struct{}{}
		return nil, nil, nil
	}
	return trees, data, err
}

// append adds the numbers of blobs to the names and returns how many there are.
func (g *blobGraph) append(ids []blob.ID) int {
	before := len(g.names)
	for _, id := range ids {
		if n, ok := g.number(id); ok {
			g.names = append(g.names, n)
		}
	}
	return len(g.names) - before
}

func (g *blobGraph) number(id blob.ID) (n uint32, ok bool) {
	at, ok := g.blobs.find(id)
	if !ok {
		g.missing[id] = struct{}{}
	}
	return uint32(at), ok
}

// follow calls visit for the blobs below the roots, which were loaded; it goes on
// from those for which visit returns true. A blob that is named more than once is
// visited more than once.
func (g *blobGraph) follow(roots []blob.ID, visit func(n uint32) bool) {
	var stack []uint32
	for _, id := range roots {
		if n, ok := g.number(id); ok && visit(n) {
			stack = append(stack, n)
		}
	}
	for len(stack) > 0 {
		node := g.nodes[stack[len(stack)-1]]
		stack = stack[:len(stack)-1]
		trees := g.names[node.start : node.start+node.trees]
		data := g.names[node.start+node.trees : node.start+node.trees+node.data]
		for _, n := range trees {
			if visit(n) {
				stack = append(stack, n)
			}
		}
		for _, n := range data {
			visit(n)
		}
	}
}

// weighNew adds the blobs below the roots, which were loaded, to a set, and weighs
// those that were not in it.
func (g *blobGraph) weighNew(roots []blob.ID, seen blobSet) Weight {
	var sum Weight
	g.follow(roots, func(n uint32) bool {
		fresh := seen.add(n)
		if fresh {
			sum.add(g.blobs.weight(int(n)))
		}
		return fresh
	})
	return sum
}

// blobSet is a set of blobs by their numbers.
type blobSet []uint64

func newBlobSet(n int) blobSet { return make(blobSet, (n+63)/64) }

// add reports whether the blob was not in the set.
func (s blobSet) add(n uint32) bool {
	word, bit := &s[n/64], uint64(1)<<(n%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}
