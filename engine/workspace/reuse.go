package workspace

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/statcache"
	"github.com/snapctl/snapctl/packfile/blob"
)

// compare looks an entry up in the record of its directory. If nothing changed
// and what the record names is stored, the entry takes it over.
func (w *worker) compare(d *dir, cursor *statcache.Cursor, e *entry) error {
	c := &w.cached
	if !cursor.Find(e.name, c) {
		return nil
	}
	isDir := e.status.kind() == manifest.Dir
	if isDir {
		e.node = c.Node
	} else if !c.Node.IsZero() {
		w.noteCache(w.session.DropTree([]byte(d.pathOf(e.name))))
	}
	if c.Fresh || c.Stat != e.status.Stat || w.walk.opts.Reuse == ReuseNothing {
		return nil
	}
	if !d.trusted() {
		if ok, err := w.confirm(c); !ok || err != nil {
			return err
		}
	}
	e.content, e.target, e.xattrs = c.Content, c.Target, c.Xattrs
	e.known = true
	if e.status.kind() == manifest.File {
		w.result.FilesReused++
		w.walk.opts.Progress.Files.Add(1)
		w.walk.opts.Progress.Bytes.Add(uint64(e.status.Size))
	}
	return nil
}

// confirm asks whether every blob that a record names is stored. The nodes of a
// content list are stored again, since that costs less than to ask for each.
func (w *worker) confirm(c *statcache.Entry) (bool, error) {
	for i := range c.Xattrs {
		if ok, err := w.has(c.Xattrs[i].Blob); !ok || err != nil {
			return false, err
		}
	}
	for _, x := range c.Content.Extents {
		if ok, err := w.has(x.ID); !ok || err != nil {
			return false, err
		}
	}
	if c.Content.List.IsZero() {
		return true, nil
	}
	if w.walk.opts.GetNode == nil {
		return false, nil
	}
	return w.confirmList(c)
}

func (w *worker) confirmList(c *statcache.Entry) (bool, error) {
	out := manifest.NewContentWriter(w.putNode)
	file := manifest.Entry{Size: uint64(c.Stat.Size), Content: c.Content}
	for x, err := range manifest.ReadContent(w.ctx, w.walk.opts.GetNode, &file) {
		if err != nil {
			return false, context.Cause(w.ctx) // a node that cannot be had: read the file
		}
		if ok, err := w.has(x.ID); !ok || err != nil {
			return false, err
		}
		if err := out.Add(x); err != nil {
			return false, err
		}
	}
	content, err := out.Finish()
	return content.List == c.Content.List, err
}

// has asks for a blob; holes and inline values, whose id is zero, need none.
func (w *worker) has(id blob.ID) (bool, error) {
	if id.IsZero() {
		return true, nil
	}
	return w.writer.Has(w.ctx, id)
}

// closeCursor notes what the record has that the batch has not.
func (w *worker) closeCursor(d *dir, cursor *statcache.Cursor) {
	if cursor == nil {
		return
	}
	limit := ""
	if !d.last() {
		limit = d.list.name(d.next)
	}
	cursor.Drain(limit)
	d.exact = cursor.Exact()
	d.passed = cursor.Passed(limit)
	for _, name := range cursor.Gone() {
		w.noteCache(w.session.DropTree([]byte(d.pathOf(name))))
	}
}

func deviceOf(rdev uint64) manifest.Device {
	return manifest.Device{Major: unix.Major(rdev), Minor: unix.Minor(rdev)}
}
