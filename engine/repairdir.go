package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// dirReader yields what can be read of a directory that was split, although nodes
// of it are lost.
type dirReader struct {
	get   manifest.GetNode
	visit func(*manifest.Entry) error
	gap   func(last string, err error) // entries behind the one of the name last are lost

	last string
	seen map[blob.ID]struct{} // a node in a directory twice is no directory of ours, and could unfold without end
}

func (d *dirReader) read(ctx context.Context, id blob.ID) error {
	node, err := d.get(ctx, id)
	if err != nil {
		return d.skip(err)
	}
	if _, again := d.seen[id]; again {
		return d.skip(fmt.Errorf("%w: tree node %v is in the directory twice", ErrDamaged, id))
	}
	d.seen[id] = struct{}{}
	if !manifest.IsIndex(node) {
		return d.leaf(ctx, id)
	}
	children, _, err := manifest.References(node)
	if err != nil {
		return d.skip(err)
	}
	for _, child := range children {
		if err := d.read(ctx, child); err != nil {
			return err
		}
	}
	return nil
}

func (d *dirReader) leaf(ctx context.Context, id blob.ID) error {
	for e, err := range manifest.ReadDir(ctx, d.get, id) {
		if err != nil {
			return d.skip(err)
		}
		d.last = e.Name
		if err := d.visit(e); err != nil {
			return err
		}
	}
	return nil
}

// skip goes on behind a node that is lost; other errors are handed back.
func (d *dirReader) skip(err error) error {
	if _, ok := lost(err); !ok {
		return err
	}
	d.gap(d.last, err)
	return nil
}

// links rewrites the list of hard links: paths that were dropped leave their groups.
// Memory grows with the list.
func (r *remains) links(ctx context.Context, root manifest.Entry, list blob.ID) (blob.ID, error) {
	var groups [][]string
	for group, err := range manifest.ReadLinks(ctx, r.get, list) {
		if _, ok := lost(err); ok {
			r.dropped.add("", manifest.Unsupported, "hard links became files of their own: their list is "+r.why(err))
			break
		}
		if err != nil {
			return blob.ID{}, err
		}
		kept, err := r.linked(ctx, root, group)
		if err != nil {
			return blob.ID{}, err
		}
		if len(kept) > 1 {
			groups = append(groups, kept)
		}
	}
	slices.SortFunc(groups, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	w := manifest.NewLinkWriter(r.put)
	for _, group := range groups {
		if err := w.Add(group); err != nil {
			return blob.ID{}, err
		}
	}
	return w.Finish()
}

// linked returns the paths of a group that are in the new tree.
func (r *remains) linked(ctx context.Context, root manifest.Entry, group []string) ([]string, error) {
	var kept []string
	for _, path := range group {
		there, err := r.has(ctx, root, path)
		if err != nil {
			return nil, err
		}
		if there {
			kept = append(kept, path)
		}
	}
	return kept, nil
}

// has reports whether the new tree has a path that the old one had.
func (r *remains) has(ctx context.Context, root manifest.Entry, path string) (bool, error) {
	for at := path; ; {
		switch r.gaps[at] {
		case gapWhole:
			return false, nil
		case gapParts:
			_, err := manifest.Lookup(ctx, r.get, root, path)
			if errors.Is(err, manifest.ErrNotFound) {
				return false, nil
			}
			return err == nil, err
		}
		if at == "" {
			return true, nil
		}
		at = at[:max(strings.LastIndexByte(at, '/'), 0)]
	}
}

// dropped is what a repair leaves out: the first maxDropped of it, and how much more.
type dropped struct {
	list []manifest.Omission
	more uint64
}

// maxDropped leaves room in a manifest for one omission that speaks of the others.
const maxDropped = manifest.MaxOmissions - 1

func (d *dropped) add(at string, class manifest.OmissionClass, why string) {
	if len(d.list) == maxDropped {
		d.more++
		return
	}
	for len(at) > manifest.MaxPath { // name the directory instead
		at = at[:max(strings.LastIndexByte(at, '/'), 0)]
	}
	d.list = append(d.list, manifest.Omission{Path: at, Class: class, Reason: why[:min(len(why), manifest.MaxReason)]})
}

// maxOmitted bounds the paths and reasons of a manifest's omissions together, in
// bytes.
const maxOmitted = 2 << 20

// mergeOmissions returns the omissions of a successor, in the order of paths: what
// was dropped, and as far as there is room what its origin lacked already. If the
// list is not complete, it says so.
func mergeOmissions(dropped []manifest.Omission, more uint64, before []manifest.Omission) []manifest.Omission {
	var merged []manifest.Omission
	size := 0
	for i, o := range slices.Concat(dropped, before) {
		size += len(o.Path) + len(o.Reason)
		if len(merged) < maxDropped && size <= maxOmitted {
			merged = append(merged, o)
		} else if i < len(dropped) {
			more++
		}
	}
	if more > 0 {
		reason := fmt.Sprintf("%d more paths are lost: they are in the snapshot that this one was repaired from", more)
		merged = append(merged, manifest.Omission{Class: manifest.Unreadable, Reason: reason})
	}
	slices.SortStableFunc(merged, func(a, b manifest.Omission) int { return strings.Compare(a.Path, b.Path) })
	return merged
}
