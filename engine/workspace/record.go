package workspace

import (
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/statcache"
	"github.com/snapctl/snapctl/packfile/blob"
)

// record writes the batch to the cache, unless that holds it already. Blobs may
// still be on their way to the store: the next walk asks for each of them until
// a snapshot that reaches them is the base.
func (w *worker) record(d *dir, node blob.ID, unchanged bool) {
	if w.session == nil || unchanged && d.exact && (!d.sole() || node == d.recorded) {
		return
	}
	w.pathBuf = d.appendPath(w.pathBuf[:0])
	for _, first := range d.obsolete() {
		w.noteCache(w.session.DropRun(w.pathBuf, first))
	}
	d.rewritten = true
	w.noteCache(w.session.Put(w.pathBuf, d.first, node, func(yield func(*statcache.Entry) bool) {
		for i := range d.entries {
			if !d.yieldRecord(i, yield) {
				return
			}
		}
	}))
	if !d.sole() || w.unsaved >= checkpointBytes {
		w.checkpoint()
	}
}

// noteCache keeps the first error of writing the cache for the result. The cache
// writes nothing more after it, so that what it holds stays in order.
func (w *worker) noteCache(err error) {
	if err != nil {
		w.walk.cacheFailed(err)
	}
}

func (d *dir) yieldRecord(i int, yield func(*statcache.Entry) bool) bool {
	e := &d.entries[i]
	if e.omitted {
		return true
	}
	c := e.cacheEntry(d)
	return yield(&c)
}

// obsolete returns the first names of recorded runs that the record of the batch
// replaces.
func (d *dir) obsolete() []string {
	names := d.passed
	if !d.interim.Load() {
		return names
	}
	begin := 0
	for _, end := range d.ends {
		for ; begin < end; begin += min(interimFiles, end-begin) {
			if name := d.entries[d.toRead[begin]].name; name != d.first {
				names = append(names, name)
			}
		}
	}
	return names
}

// interimFiles is how many files of a directory are read before they are
// recorded on their own.
const interimFiles = 16

// recordPart records files of a batch before the others are complete, so that a
// walk that is killed in a directory of many files has not read them in vain. It
// does so only in a directory without a complete record: entries found behind
// those of a record that the base reaches would be believed like them.
func (w *worker) recordPart(d *dir, indices []int) {
	if w.session == nil || len(d.toRead) <= interimFiles || !d.recorded.IsZero() {
		return
	}
	d.interim.Store(true)
	w.pathBuf = d.appendPath(w.pathBuf[:0])
	first := d.entries[indices[0]].name
	w.noteCache(w.session.Put(w.pathBuf, first, blob.ID{}, func(yield func(*statcache.Entry) bool) {
		for _, i := range indices {
			if e := &d.entries[i]; e.status.kind() == manifest.File && !d.yieldRecord(i, yield) {
				return
			}
		}
	}))
	w.checkpoint()
}

// recordNode records the node of a directory in several runs.
func (w *worker) recordNode(d *dir, node blob.ID) {
	if w.session == nil || !d.rewritten && node == d.recorded {
		return
	}
	w.pathBuf = d.appendPath(w.pathBuf[:0])
	w.noteCache(w.session.PutNode(w.pathBuf, node))
}

// checkpointBytes is how much is read between two writes to the cache at most,
// and so how much a killed walk has to read again, for each worker.
const checkpointBytes = 8 << 20

func (w *worker) checkpoint() {
	w.unsaved = 0
	w.noteCache(w.session.Checkpoint())
}
