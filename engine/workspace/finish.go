package workspace

import (
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// finishBatch encodes the entries of a batch, all of which are complete, and
// records them. A directory that is one batch and did not change keeps the node
// that it had.
func (w *worker) finishBatch(d *dir) error {
	unchanged := w.count(d)
	if d.sole() {
		node, err := w.soleNode(d, unchanged)
		if err != nil {
			return err
		}
		d.node = node
		w.record(d, node, unchanged)
		return nil
	}
	if d.writer == nil {
		d.writer = manifest.NewDirWriter(putOf(d))
	}
	d.finisher = w
	if err := d.addEntries(d.writer); err != nil {
		return err
	}
	w.record(d, blob.ID{}, unchanged)
	return nil
}

// count adds up the entries, notes those with several names, and reports whether
// all of them are as recorded.
func (w *worker) count(d *dir) (unchanged bool) {
	unchanged = true
	for i := range d.entries {
		e := &d.entries[i]
		if e.omitted || !e.known || e.changed {
			unchanged = false
		}
		if e.omitted {
			continue
		}
		switch e.status.kind() {
		case manifest.File:
			w.result.Counts.Files++
			w.result.Counts.Bytes += uint64(e.status.Size)
		case manifest.Dir:
			w.result.Counts.Dirs++
			continue
		case manifest.Symlink:
			w.result.Counts.Symlinks++
		default:
			w.result.Counts.Others++
		}
		if e.status.nlink > 1 {
			w.noteLink(d, e)
		}
	}
	return unchanged
}

func (w *worker) noteLink(d *dir, e *entry) {
	if d.linkDir < 0 {
		d.linkDir = int(w.walk.links.dirIndex(d.path()))
	}
	w.walk.links.add(e.status.inode(), uint32(d.linkDir), e.name)
}

func (w *worker) soleNode(d *dir, unchanged bool) (blob.ID, error) {
	if unchanged && d.exact && d.trusted() {
		w.result.DirsReused++
		return d.recorded, nil
	}
	out := manifest.NewDirWriter(w.putNode)
	if err := d.addEntries(out); err != nil {
		return blob.ID{}, err
	}
	return out.Finish()
}

func (d *dir) addEntries(out *manifest.DirWriter) error {
	for i := range d.entries {
		if d.entries[i].omitted {
			continue
		}
		m := d.entries[i].manifestEntry()
		if err := out.Add(&m); err != nil {
			return err
		}
	}
	return nil
}

// putOf stores nodes of a directory of several batches, which different workers
// finish one after the other.
func putOf(d *dir) manifest.PutNode {
	return func(node []byte) (blob.ID, error) { return d.finisher.putNode(node) }
}

// finishDir hands the node of a directory to its parent's entry.
func (w *worker) finishDir(d *dir) error {
	node := d.node
	if d.writer != nil {
		d.finisher = w
		var err error
		if node, err = d.writer.Finish(); err != nil {
			return err
		}
		w.recordNode(d, node)
	}
	if cap(d.entries) <= minBatch {
		clear(d.entries)
		w.spare = append(w.spare, d.entries[:0])
	}
	d.entries, d.list = nil, nil
	if d.parent == nil {
		w.walk.rootNode = node
		return nil
	}
	e := &d.parent.entries[d.index]
	e.changed = e.node != node
	e.node = node
	return nil
}
