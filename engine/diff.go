package engine

import (
	"context"
	"errors"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/snapctl/snapctl/engine/manifest"
)

// Change is one difference between two trees.
type Change struct {
	Path   string // below the root, raw bytes
	Action Action
	// Old and New are the entries before and after; one is nil if the path was
	// added or removed.
	Old, New *manifest.Entry
	// Aspects say what differs in a changed entry.
	Aspects Aspects
}

// Action says what happened to a path.
type Action string

// The actions of changes.
const (
	Added   Action = "added"
	Removed Action = "removed"
	Changed Action = "changed"
)

// Aspects are the properties in which two entries of one path differ.
type Aspects struct {
	Content, Mode, Type, Owner, Xattrs, Target, Time bool
}

// Any reports whether anything but the time differs.
func (a Aspects) Any() bool { a.Time = false; return a != Aspects{} }

// Names lists what differs, in a fixed order.
func (a Aspects) Names() []string {
	var names []string
	for _, aspect := range []struct {
		differs bool
		name    string
	}{
		{a.Type, "type"}, {a.Content, "content"}, {a.Target, "target"}, {a.Mode, "mode"},
		{a.Owner, "owner"}, {a.Xattrs, "xattrs"}, {a.Time, "time"},
	} {
		if aspect.differs {
			names = append(names, aspect.name)
		}
	}
	return names
}

// DiffOptions say what to compare. The zero value compares everything but times.
type DiffOptions struct {
	Times bool   // report entries of which only the modification time changed
	Path  string // compare only what is at and below this path
}

// DiffStats sums up a comparison.
type DiffStats struct {
	Added, Removed, Changed uint64 // entries
	AddedBytes              uint64 // of files added, and of changed files after
	RemovedBytes            uint64 // of files removed, and of changed files before
	SkippedTrees            uint64 // equal directories that were not looked into
}

// Diff calls visit for each difference from snapshot a to snapshot b, in the
// order of paths, parents first. Directories with equal ids are skipped unread.
func (r *Repository) Diff(ctx context.Context, a, b ID, opts DiffOptions, visit func(Change) error) (DiffStats, error) {
	get, err := r.nodes(ctx)
	if err != nil {
		return DiffStats{}, failed("diff", "", err)
	}
	oldRoot, err := r.root(ctx, get, a)
	if err != nil {
		return DiffStats{}, failed("diff", a.String(), err)
	}
	newRoot, err := r.root(ctx, get, b)
	if err != nil {
		return DiffStats{}, failed("diff", b.String(), err)
	}
	d := differ{oldNodes: get, newNodes: get, opts: opts, visit: visit}
	err = d.run(ctx, oldRoot, newRoot)
	return d.stats, failed("diff", "", err)
}

// DiffDir calls visit for each difference from a snapshot to a directory as it is
// now, which is read as Snapshot(dir) would, and not stored.
func (r *Repository) DiffDir(ctx context.Context, a ID, dir SnapshotOptions, opts DiffOptions, visit func(Change) error) (DiffStats, error) {
	stats, err := r.diffDir(ctx, a, dir, opts, visit)
	return stats, failed("diff", dir.Path, err)
}

func (r *Repository) diffDir(ctx context.Context, a ID, dir SnapshotOptions, opts DiffOptions, visit func(Change) error) (stats DiffStats, err error) {
	db, err := r.index(ctx)
	if err != nil {
		return DiffStats{}, err
	}
	stored := r.fetch.Node
	oldRoot, err := r.root(ctx, stored, a)
	if err != nil {
		return DiffStats{}, err
	}
	view, err := r.view(ctx)
	if err != nil {
		return DiffStats{}, err
	}
	src, err := r.openSource(ctx, dir, view)
	if err != nil {
		return DiffStats{}, err
	}
	rehearsal := r.newRehearsal(db)
	defer func() { err = errors.Join(err, rehearsal.close(), src.close()) }()
	tree, err := r.rehearseWalk(ctx, src, rehearsal)
	if err != nil {
		return DiffStats{}, err
	}
	walked := rehearsal.node(stored)
	newRoot, err := readRoot(ctx, walked, tree.Root)
	if err != nil {
		return DiffStats{}, err
	}
	d := differ{oldNodes: stored, newNodes: walked, opts: opts, visit: visit}
	err = d.run(ctx, oldRoot, newRoot)
	return d.stats, err
}

// root reads the root entry of a snapshot.
func (r *Repository) root(ctx context.Context, get manifest.GetNode, id ID) (manifest.Entry, error) {
	record, err := r.find(ctx, id)
	if err != nil {
		return manifest.Entry{}, err
	}
	return readRoot(ctx, get, record.Manifest.Root)
}

func readRoot(ctx context.Context, get manifest.GetNode, id ID) (manifest.Entry, error) {
	node, err := get(ctx, id)
	if err != nil {
		return manifest.Entry{}, err
	}
	return manifest.DecodeRoot(node)
}

// differ walks two trees side by side. They may come from two places: a
// directory on disk has no nodes in the repository.
type differ struct {
	oldNodes, newNodes manifest.GetNode
	opts               DiffOptions
	visit              func(Change) error
	stats              DiffStats
}

func (d *differ) run(ctx context.Context, a, b manifest.Entry) error {
	base := strings.Trim(path.Clean("/"+d.opts.Path), "/")
	oldEntry, oldErr := manifest.Lookup(ctx, d.oldNodes, a, base)
	newEntry, newErr := manifest.Lookup(ctx, d.newNodes, b, base)
	switch {
	case oldErr != nil && newErr != nil:
		return oldErr
	case isNoEntry(oldErr):
		return d.one(ctx, base, nil, &newEntry)
	case isNoEntry(newErr):
		return d.one(ctx, base, &oldEntry, nil)
	case oldErr != nil:
		return oldErr
	case newErr != nil:
		return newErr
	}
	return d.both(ctx, base, &oldEntry, &newEntry)
}

// both compares two entries of one path.
func (d *differ) both(ctx context.Context, at string, a, b *manifest.Entry) error {
	aspects := compare(a, b)
	if aspects.Any() || aspects.Time && d.opts.Times {
		if err := d.report(Change{Path: at, Action: Changed, Old: a, New: b, Aspects: aspects}); err != nil {
			return err
		}
	}
	switch {
	case a.Kind == manifest.Dir && b.Kind == manifest.Dir && a.Node == b.Node:
		d.stats.SkippedTrees++
		return nil
	case a.Kind == manifest.Dir && b.Kind == manifest.Dir:
		return d.children(ctx, at, a, b)
	case a.Kind == manifest.Dir:
		return d.children(ctx, at, a, nil)
	case b.Kind == manifest.Dir:
		return d.children(ctx, at, nil, b)
	}
	return nil
}

// one reports an entry that is on one side only, and all below it.
func (d *differ) one(ctx context.Context, at string, a, b *manifest.Entry) error {
	change := Change{Path: at, Action: Added, New: b}
	entry := b
	if b == nil {
		change, entry = Change{Path: at, Action: Removed, Old: a}, a
	}
	if err := d.report(change); err != nil || entry.Kind != manifest.Dir {
		return err
	}
	return d.children(ctx, at, a, b)
}

// children merges the entries of two directories, either of which may be nil.
func (d *differ) children(ctx context.Context, at string, a, b *manifest.Entry) error {
	nextOld, stopOld := iter.Pull2(entriesOf(ctx, d.oldNodes, a))
	defer stopOld()
	nextNew, stopNew := iter.Pull2(entriesOf(ctx, d.newNodes, b))
	defer stopNew()
	x, errX, okX := nextOld()
	y, errY, okY := nextNew()
	for okX || okY {
		var err error
		switch {
		case errX != nil:
			return errX
		case errY != nil:
			return errY
		case !okY || okX && x.Name < y.Name:
			err = d.one(ctx, path.Join(at, x.Name), x, nil)
			x, errX, okX = nextOld()
		case !okX || y.Name < x.Name:
			err = d.one(ctx, path.Join(at, y.Name), nil, y)
			y, errY, okY = nextNew()
		default:
			err = d.both(ctx, path.Join(at, x.Name), x, y)
			x, errX, okX = nextOld()
			y, errY, okY = nextNew()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func entriesOf(ctx context.Context, get manifest.GetNode, dir *manifest.Entry) iter.Seq2[*manifest.Entry, error] {
	if dir == nil {
		return func(func(*manifest.Entry, error) bool) {}
	}
	return manifest.ReadDir(ctx, get, dir.Node)
}

func (d *differ) report(c Change) error {
	switch c.Action {
	case Added:
		d.stats.Added++
	case Removed:
		d.stats.Removed++
	case Changed:
		d.stats.Changed++
	}
	if c.Action != Changed || c.Aspects.Content || c.Aspects.Type {
		d.stats.RemovedBytes += fileSize(c.Old)
		d.stats.AddedBytes += fileSize(c.New)
	}
	return d.visit(c)
}

func fileSize(e *manifest.Entry) uint64 {
	if e == nil {
		return 0
	}
	return e.Size
}

// compare tells in what two entries of one path differ.
func compare(a, b *manifest.Entry) Aspects {
	if a.Kind != b.Kind {
		return Aspects{Type: true}
	}
	return Aspects{
		Content: a.Size != b.Size || !sameContent(a.Content, b.Content),
		Mode:    a.Mode != b.Mode,
		Owner:   a.UID != b.UID || a.GID != b.GID,
		Target:  a.Target != b.Target || a.Device != b.Device,
		Xattrs:  !slices.EqualFunc(a.Xattrs, b.Xattrs, sameXattr),
		Time:    a.MTime != b.MTime,
	}
}

// sameContent compares names, not bytes: equal content is cut alike within a
// family of repositories.
func sameContent(a, b manifest.Content) bool {
	return a.List == b.List && slices.Equal(a.Extents, b.Extents)
}

func sameXattr(a, b manifest.Xattr) bool {
	return a.Name == b.Name && a.Blob == b.Blob && string(a.Value) == string(b.Value)
}
