package engine

import (
	"context"
	"fmt"
	"path"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// remains writes what is left of a damaged tree: the tree without the entries that
// cannot be read. Directories below which nothing is lost are taken as they are.
// Memory: the nodes that are rewritten, and the paths that are dropped.
type remains struct {
	nodes   manifest.GetNode
	put     manifest.PutNode
	losses  map[blob.ID]string
	clean   map[blob.ID]bool
	written map[blob.ID][]byte // nodes that were rewritten
	dropped dropped
	gaps    map[string]gap // by path
}

// gap says what is missing at a path.
type gap int

const (
	gapWhole gap = iota + 1 // the entry, and all below it
	gapParts                // some entries of the directory, it is not known which
)

// remainingTree is a tree that was rewritten.
type remainingTree struct {
	root, links blob.ID
	counts      manifest.Counts // of entries and bytes
}

// newRemains reads nodes by get and stores those that are rewritten by put.
func newRemains(get manifest.GetNode, put manifest.PutNode, plan *RepairSnapshotsPlan) *remains {
	r := &remains{nodes: get, losses: plan.losses, clean: plan.clean, written: map[blob.ID][]byte{}, gaps: map[string]gap{}}
	r.put = func(node []byte) (blob.ID, error) {
		id, err := put(node)
		if err == nil {
			r.written[id] = append([]byte(nil), node...)
		}
		return id, err
	}
	return r
}

// get reads a node, of the old tree or of the new one.
func (r *remains) get(ctx context.Context, id blob.ID) ([]byte, error) {
	if node, ok := r.written[id]; ok {
		return node, nil
	}
	return r.nodes(ctx, id)
}

// tree rewrites a whole tree. The error is damage if its root cannot be read, so that
// nothing is left.
func (r *remains) tree(ctx context.Context, root, links blob.ID) (remainingTree, error) {
	entry, err := readRoot(ctx, r.get, root)
	if err != nil {
		return remainingTree{}, err
	}
	if _, err := r.get(ctx, entry.Node); err != nil {
		return remainingTree{}, err
	}
	if _, err := r.keep(ctx, "", &entry); err != nil {
		return remainingTree{}, err
	}
	var tree remainingTree
	if tree.root, err = r.put(manifest.EncodeRoot(entry)); err != nil {
		return tree, err
	}
	if tree.links, err = r.links(ctx, entry, links); err != nil {
		return tree, err
	}
	err = r.count(ctx, entry.Node, &tree.counts)
	return tree, err
}

// dir rewrites a directory.
func (r *remains) dir(ctx context.Context, at string, node blob.ID) (blob.ID, error) {
	if r.clean[node] {
		return node, nil
	}
	w := manifest.NewDirWriter(r.put)
	d := dirReader{get: r.get, seen: map[blob.ID]struct{}{}}
	d.visit = func(e *manifest.Entry) error {
		below := path.Join(at, e.Name)
		kept, err := r.keep(ctx, below, e)
		if err != nil || !kept {
			return err
		}
		if err := w.Add(e); err != nil { // no writer of ours made such a directory
			r.drop(below, manifest.Unreadable, gapWhole, err.Error())
		}
		return nil
	}
	d.gap = func(last string, err error) {
		r.drop(at, manifest.Unreadable, gapParts, fmt.Sprintf("a part of the directory, behind %q, is %s", last, r.why(err)))
	}
	if err := d.read(ctx, node); err != nil {
		return blob.ID{}, err
	}
	return w.Finish()
}

// keep makes an entry one of the new tree, and reports whether it can be.
func (r *remains) keep(ctx context.Context, at string, e *manifest.Entry) (bool, error) {
	r.keepXattrs(at, e)
	switch e.Kind {
	case manifest.Dir:
		return r.keepDir(ctx, at, e)
	case manifest.File:
		return r.keepFile(ctx, at, e)
	}
	return true, nil
}

// keepXattrs leaves out attributes whose values are lost. The entry is worth more
// than they are.
func (r *remains) keepXattrs(at string, e *manifest.Entry) {
	var kept []manifest.Xattr
	for _, x := range e.Xattrs {
		if why, gone := r.losses[x.Blob]; gone {
			r.dropped.add(at, manifest.Unsupported, "attribute "+x.Name+" is "+why)
			continue
		}
		kept = append(kept, x)
	}
	e.Xattrs = kept
}

func (r *remains) keepDir(ctx context.Context, at string, e *manifest.Entry) (bool, error) {
	if r.clean[e.Node] {
		return true, nil
	}
	if _, err := r.get(ctx, e.Node); err != nil {
		return r.lose(at, err)
	}
	node, err := r.dir(ctx, at, e.Node)
	e.Node = node
	return err == nil, err
}

func (r *remains) keepFile(ctx context.Context, at string, e *manifest.Entry) (bool, error) {
	for x, err := range manifest.ReadContent(ctx, r.get, e) {
		if err != nil {
			return r.lose(at, err)
		}
		if why, gone := r.losses[x.ID]; gone {
			r.drop(at, manifest.Unreadable, gapWhole, why)
			return false, nil
		}
	}
	return true, nil
}

// lose drops an entry if err says that it cannot be read; other errors are handed
// back.
func (r *remains) lose(at string, err error) (kept bool, _ error) {
	if _, ok := lost(err); !ok {
		return false, err
	}
	r.drop(at, manifest.Unreadable, gapWhole, r.why(err))
	return false, nil
}

// why says what became of the node that err says could not be read.
func (r *remains) why(err error) string {
	for _, id := range brokenBlobs(err) {
		if why, ok := r.losses[id]; ok {
			return why
		}
	}
	return "lost: " + err.Error()
}

func (r *remains) drop(at string, class manifest.OmissionClass, missing gap, why string) {
	r.dropped.add(at, class, why)
	r.gaps[at] = missing
}

// count adds up the entries of a directory, as a snapshot does.
func (r *remains) count(ctx context.Context, node blob.ID, counts *manifest.Counts) error {
	for e, err := range manifest.ReadDir(ctx, r.get, node) {
		if err != nil {
			return err
		}
		switch e.Kind {
		case manifest.File:
			counts.Files++
			counts.Bytes += e.Size
		case manifest.Dir:
			counts.Dirs++
			if err := r.count(ctx, e.Node, counts); err != nil {
				return err
			}
		case manifest.Symlink:
			counts.Symlinks++
		default:
			counts.Others++
		}
	}
	return nil
}
