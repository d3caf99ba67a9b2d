package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/engine/manifest"
)

// visitor is shown a tree, all entries of a directory before the directories in
// it. Errors end the walk; what concerns one path alone is for the visitor to
// record.
type visitor interface {
	// enter comes before the entries of d. errSkip leaves them out.
	enter(ctx context.Context, d *dir, e *manifest.Entry) error
	// entry comes for everything in d, directories included, in order.
	entry(ctx context.Context, d *dir, e *manifest.Entry) error
	// listed comes behind the last entry of d.
	listed(ctx context.Context, d *dir) error
	// leave comes when everything below d was shown.
	leave(ctx context.Context, d *dir, e *manifest.Entry) error
}

// errSkip leaves out a directory.
var errSkip = errors.New("skip this directory")

// walker shows the chosen part of a snapshot to a visitor, within the limits.
//
// A tree is a graph of nodes in which one node can be reached in many ways, so
// a small repository can describe a tree larger than any disk. Entries are
// counted as they are met, not as they are stored. (Nodes need no budget: the
// decoder refuses a node without entries below an index, and names that do not
// ascend, so each node costs an entry.)
type walker struct {
	src    Source
	limits Limits
	fail   func(path string, err error)
	visit  visitor

	entries uint64 // seen so far
	waiting uint64 // directories that were seen but not entered
}

// maxWaiting bounds the memory for directories that wait, 250 bytes each.
const maxWaiting = 1 << 22

// waitingDir is a directory that was seen in its parent.
type waitingDir struct {
	entry *manifest.Entry
	sel   *selection
}

// walk shows d, which has the entry e, and everything chosen below it.
func (w *walker) walk(ctx context.Context, d *dir, e *manifest.Entry, sel *selection, depth int) error {
	if depth > w.limits.MaxDepth {
		return fmt.Errorf("%w: directories are nested deeper than %d", ErrLimit, w.limits.MaxDepth)
	}
	if err := w.visit.enter(ctx, d, e); err != nil {
		if err == errSkip {
			return nil
		}
		return err
	}
	waiting, err := w.list(ctx, d, e, sel)
	if err != nil {
		return err
	}
	for _, sub := range waiting {
		w.waiting--
		child := newDir(d, sub.entry.Name, sub.sel.whole)
		if err := w.walk(ctx, child, sub.entry, sub.sel, depth+1); err != nil {
			return err
		}
	}
	return w.visit.leave(ctx, d, e)
}

// list shows the entries of d and returns its directories. A node that cannot
// be read is the failure of this directory, not of the walk.
func (w *walker) list(ctx context.Context, d *dir, e *manifest.Entry, sel *selection) ([]waitingDir, error) {
	var waiting []waitingDir
	for entry, err := range manifest.ReadDir(ctx, w.src.Node, e.Node) {
		if err != nil {
			if isFatal(ctx, err) {
				return nil, err
			}
			d.broken = true
			w.fail(d.path(), &Error{Op: "list", Path: d.path(), Err: err})
			break
		}
		below := sel.of(entry.Name)
		if below == nil {
			continue
		}
		if w.entries++; w.entries > w.limits.MaxEntries {
			return nil, fmt.Errorf("%w: more than %d entries", ErrLimit, w.limits.MaxEntries)
		}
		if err := w.visit.entry(ctx, d, entry); err != nil {
			return nil, err
		}
		if entry.Kind != manifest.Dir {
			continue
		}
		if w.waiting++; w.waiting > maxWaiting {
			return nil, fmt.Errorf("%w: more than %d directories wait to be entered", ErrLimit, maxWaiting)
		}
		own := *entry // the node's other entries need not stay in memory
		waiting = append(waiting, waitingDir{&own, below})
	}
	return waiting, w.visit.listed(ctx, d)
}
