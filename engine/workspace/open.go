package workspace

import (
	"errors"
	"fmt"
	"strings"

	"github.com/snapctl/snapctl/engine/manifest"
)

// openChild opens a subdirectory. The result is nil if that is not possible; its
// entry is complete then.
func (w *worker) openChild(d *dir, dirfd, i int) (*dir, error) {
	e := &d.entries[i]
	if h := w.walk.opts.hooks.beforeOpen; h != nil {
		h(d.pathOf(e.name))
	}
	fd, err := openDir(dirfd, e.name, &e.status)
	switch {
	case err == nil:
		return w.newDir(d, fd, i)
	case isReplaced(err):
		return nil, w.replaced(d, dirfd, i)
	case isGone(err), outOfResources(err):
		return nil, w.lost(d, i, err)
	}
	return nil, w.keepEmpty(d, i, manifest.Unreadable, err.Error())
}

// newDir takes over the descriptor of entry i of parent.
func (w *worker) newDir(parent *dir, fd, i int) (*dir, error) {
	e := &parent.entries[i]
	d := &dir{
		parent:  parent,
		index:   i,
		name:    e.name,
		status:  e.status,
		pathLen: parent.entryPathLen(e.name),
		rules:   parent.rules,
		granule: parent.granule,
		linkDir: -1,
	}
	if parent.trusted() {
		d.expected = e.node
	}
	w.walk.fds.add(d, fd)
	if d.status.dev != parent.status.dev {
		d.granule = granule(fd)
		if err := w.walk.syncFilesystem(fd); err != nil {
			return nil, fmt.Errorf("%q: %w", d.path(), err)
		}
	}
	if e.known {
		return d, nil
	}
	var err error
	e.xattrs, err = w.readXattrs(xattrSource{fd: fd}, func(reason string) { w.unsupported(parent, e, reason) })
	return d, err
}

// keepEmpty keeps a directory without what is in it, and reports why.
func (w *worker) keepEmpty(d *dir, i int, class manifest.OmissionClass, reason string) error {
	e := &d.entries[i]
	w.report(d.pathOf(e.name), class, reason)
	node, err := manifest.NewDirWriter(w.putNode).Finish()
	e.changed = e.node != node
	e.node, e.known, e.fresh, e.settled = node, false, true, true
	return err
}

// replaced looks again at an entry that is not what was listed, and does what
// its new kind asks for.
func (w *worker) replaced(d *dir, dirfd, i int) error {
	e := &d.entries[i]
	if e.tries++; e.tries > maxReplaced {
		return w.lost(d, i, errors.New("was replaced again and again"))
	}
	st, err := fstatat(dirfd, e.name)
	if err != nil {
		return w.lost(d, i, err)
	}
	if w.excluded(d, e.name, st.kind() == manifest.Dir) {
		e.omitted = true
		return nil
	}
	if e.tries == 1 && e.status.kind() == manifest.Dir && st.kind() != manifest.Dir {
		// What was in it may live on under another name that was not listed.
		w.report(d.pathOf(e.name), manifest.TornFile, "a directory when it was listed, then replaced")
	}
	*e = entry{name: e.name, status: st, tries: e.tries, node: e.node}
	switch {
	case st.kind() == manifest.File:
		return w.readFile(d, dirfd, i)
	case st.kind() != manifest.Dir:
		return w.readOther(d, dirfd, i)
	case w.isForeign(d, &st):
		return w.keepEmpty(d, i, manifest.Excluded, foreignReason)
	}
	// The caller's own step keeps the batch and the descriptor from completion.
	d.pending.Add(1)
	w.walk.fds.need(d, 1)
	w.walk.sched.push(w.id, task{what: openChild, dir: d, from: i})
	return nil
}

// maxReplaced is how often an entry may turn out to be something else.
const maxReplaced = 8

const foreignReason = "another filesystem"

// isForeign reports whether a directory lies on another filesystem and is not
// wanted for that. Only directories tell: overlay filesystems give files device
// numbers of their own.
func (w *worker) isForeign(parent *dir, st *status) bool {
	return w.walk.opts.OneFileSystem && st.dev != parent.status.dev
}

// report records an omission and counts it.
func (w *worker) report(path string, class manifest.OmissionClass, reason string) {
	switch class {
	case manifest.Excluded:
		w.result.Counts.Excluded++
	case manifest.Unreadable:
		w.result.Counts.Unreadable++
	case manifest.TornFile:
		w.result.Counts.Torn++
	}
	w.walk.omissions.add(path, class, reason)
}

// unsupported reports an attribute that is not kept. The entry is looked at
// again next time, so that it is reported again.
func (w *worker) unsupported(d *dir, e *entry, reason string) {
	e.fresh = true
	w.report(d.pathOf(e.name), manifest.Unsupported, reason)
}

// excluded asks the rules and reports what they leave out.
func (w *worker) excluded(d *dir, name string, isDir bool) bool {
	if strings.HasPrefix(name, ".snapctl-") && w.ofRestore(d, name) {
		return true
	}
	if d.rules == nil {
		return false
	}
	rule, yes := d.rules.Excluded(name, isDir)
	if yes {
		w.report(d.pathOf(name), manifest.Excluded, rule)
	}
	return yes
}

// beginRoot starts the walk at the root, which has no entry.
func (w *worker) beginRoot() error {
	d := w.walk.root
	e := &entry{name: ""}
	var err error
	w.walk.rootXattr, err = w.readXattrs(xattrSource{fd: d.fd}, func(reason string) { w.unsupported(d, e, reason) })
	if err != nil {
		return err
	}
	return w.begin(d)
}

// ofRestore reports whether the entry is none of the workspace but of a restore that did
// not finish. If that goes on, or was killed, the snapshot is not of the whole workspace.
func (w *worker) ofRestore(d *dir, name string) bool {
	switch {
	case d.parent == nil && name == manifest.RestoreMarker:
		w.report(name, manifest.Unreadable, "a restore into this directory has not finished: run it again, then save")
	case manifest.IsRestoreTemp(name):
		w.report(d.pathOf(name), manifest.Excluded, "left by a restore that has not finished")
	default:
		return false
	}
	return true
}
