package engine

import (
	"context"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// reach visits every blob that can be reached from roots: tree blobs once, data
// blobs once for each node that names them. seen holds the tree blobs visited
// so far (about 50 bytes each: a workspace of 57,000 files has 5,600) and is
// extended. What visit does with a tree blob comes before its content is read;
// an error of get for one goes to visit's broken, which decides whether to go on.
type reach struct {
	get    manifest.GetNode
	seen   map[blob.ID]struct{}
	visit  func(kind blob.Kind, id blob.ID) error
	broken func(id blob.ID, err error) error
}

func (w *reach) from(ctx context.Context, roots ...blob.ID) error {
	stack := make([]blob.ID, 0, 64)
	for _, root := range roots {
		if !root.IsZero() {
			stack = append(stack, root)
		}
	}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if _, ok := w.seen[id]; ok {
			continue
		}
		w.seen[id] = struct{}{}
		trees, err := w.node(ctx, id)
		if err != nil {
			return err
		}
		stack = append(stack, trees...)
	}
	return nil
}

// node visits one tree blob and the data blobs it names, and returns the tree
// blobs it names.
func (w *reach) node(ctx context.Context, id blob.ID) ([]blob.ID, error) {
	if err := w.visit(blob.Tree, id); err != nil {
		return nil, err
	}
	node, err := w.get(ctx, id)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, w.broken(id, err)
	}
	trees, data, err := manifest.References(node)
	if err != nil {
		return nil, w.broken(id, err)
	}
	for _, id := range data {
		if err := w.visit(blob.Data, id); err != nil {
			return nil, err
		}
	}
	return trees, nil
}

// giveUp is a broken func for whom nothing may be missing.
func giveUp(_ blob.ID, err error) error { return err }
