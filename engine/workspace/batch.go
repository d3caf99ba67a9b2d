package workspace

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/statcache"
)

// A batch ends behind a name whose hash says so, between minBatch and maxBatch
// names, so that one name more or less moves the ends of its own batch and not
// those of all that follow; and when as many bytes are to be read as should be
// recorded in the cache at once.
const (
	minBatch      = 1 << 10
	maxBatch      = 8 << 10
	batchMask     = 1<<11 - 1
	maxBatchBytes = 32 << 20
)

// A run is what one worker reads of a directory before others may help.
const (
	maxRunFiles = 128
	maxRunBytes = 4 << 20
)

// begin lists a directory and takes its first batch. The caller's use of its
// descriptor ends.
func (w *worker) begin(d *dir) error {
	fd := d.fd
	list, err := w.lister.list(fd)
	if err != nil {
		w.report(d.path(), manifest.Unreadable, err.Error())
	}
	d.list = list
	if err := w.enterRules(d, fd); err != nil {
		if d.parent == nil || w.ctx.Err() != nil {
			return fmt.Errorf("walk: %w", err)
		}
		w.report(d.path(), manifest.Unreadable, err.Error())
		d.list = new(listing)
	}
	w.skipTaggedCache(d, fd)
	w.walk.opts.Progress.Dirs.Add(1)
	if w.session != nil {
		w.pathBuf = d.appendPath(w.pathBuf[:0])
		d.recorded = w.session.Node(w.pathBuf)
	}
	return w.takeBatch(d, fd)
}

// startBatch empties the batch.
func (w *worker) startBatch(d *dir) {
	d.now = w.walk.opts.Now()
	d.entries = d.entries[:0]
	d.toRead, d.passed, d.exact = d.toRead[:0], nil, false
	d.interim.Store(false)
	if d.entries == nil && len(w.spare) > 0 {
		d.entries = w.spare[len(w.spare)-1]
		w.spare = w.spare[:len(w.spare)-1]
	}
	d.first = ""
	if d.next > 0 {
		d.first = d.list.name(d.next)
	}
}

// takeBatch looks at the next entries, hands out subdirectories and runs of
// files, and reads the first run. Its use of the descriptor ends with it.
func (w *worker) takeBatch(d *dir, fd int) error {
	w.startBatch(d)
	if err := w.lookAtBatch(d, fd); err != nil {
		return err
	}
	inline, tasks := divide(d)
	d.pending.Store(int32(1 + len(tasks)))
	if len(tasks) > 0 {
		w.walk.fds.need(d, len(tasks))
		w.walk.sched.push(w.id, tasks...)
	}
	if err := w.readRun(d, fd, inline); err != nil {
		return err
	}
	if d.last() {
		w.walk.fds.done(d)
	} else {
		w.walk.fds.release(d)
	}
	return w.complete(d)
}

// lookAtBatch fills the entries of the batch, each as far as stat and the cache
// go.
func (w *worker) lookAtBatch(d *dir, fd int) error {
	var cursor *statcache.Cursor
	if w.session != nil {
		w.pathBuf = d.appendPath(w.pathBuf[:0])
		cursor = w.session.Seek(w.pathBuf, d.first)
	}
	d.entries = slices.Grow(d.entries, min(maxBatch, len(d.list.names)-d.next))
	bytes := int64(0)
	for count := 1; !d.last(); count++ {
		name, typ := d.list.name(d.next), d.list.names[d.next].typ
		d.next++
		st, ok, err := w.lookAt(d, fd, name, typ)
		if err != nil {
			return err
		}
		if ok {
			d.entries = append(d.entries, entry{name: name, status: st})
			if err := w.classify(d, fd, cursor, len(d.entries)-1); err != nil {
				return err
			}
			if n := len(d.toRead); n > 0 && d.toRead[n-1] == len(d.entries)-1 {
				bytes += st.Size
			}
		}
		if count >= maxBatch || bytes >= maxBatchBytes || count >= minBatch && nameHash(name)&batchMask == 0 {
			break
		}
	}
	w.closeCursor(d, cursor)
	return nil
}

// nameHash is FNV-1a (Fowler, Noll, Vo), folded.
func nameHash(name string) uint32 {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return h ^ h>>16
}

// lookAt asks the rules and the filesystem about a name; ok is false if there is
// no entry of it.
func (w *worker) lookAt(d *dir, fd int, name string, typ uint8) (st status, ok bool, err error) {
	if typ != unix.DT_UNKNOWN && w.excluded(d, name, typ == unix.DT_DIR) {
		return st, false, nil
	}
	if st, err = fstatat(fd, name); err != nil {
		return st, false, w.unreadable(d, name, err)
	}
	isDir := st.kind() == manifest.Dir
	if typ == unix.DT_UNKNOWN || isDir != (typ == unix.DT_DIR) {
		if w.excluded(d, name, isDir) {
			return st, false, nil
		}
	}
	if d.entryPathLen(name) > manifest.MaxPath {
		w.report(d.path(), manifest.Unreadable, fmt.Sprintf("path longer than %d bytes below", manifest.MaxPath))
		return st, false, nil
	}
	if err := manifest.CheckName(name); err != nil {
		w.report(d.path(), manifest.Unreadable, err.Error())
		return st, false, nil
	}
	return st, true, nil
}

var errUnknownKind = errors.New("unknown kind of file")

// classify compares an entry with the cache and decides what is to be done.
func (w *worker) classify(d *dir, fd int, cursor *statcache.Cursor, i int) error {
	e := &d.entries[i]
	if cursor != nil {
		if err := w.compare(d, cursor, e); err != nil {
			return err
		}
	}
	switch kind := e.status.kind(); {
	case kind == 0:
		return w.lost(d, i, errUnknownKind)
	case kind == manifest.Dir && w.isForeign(d, &e.status):
		return w.keepEmpty(d, i, manifest.Excluded, foreignReason)
	case kind == manifest.Dir || e.known:
	case kind == manifest.File:
		d.toRead = append(d.toRead, i)
	default:
		return w.readOther(d, fd, i)
	}
	return nil
}

// divide returns the files to read at once and the tasks for the rest: first the
// subdirectories, which come last, then further runs of files, in reverse since
// the last task is done first.
func divide(d *dir) (inline []int, tasks []task) {
	for i := len(d.entries) - 1; i >= 0; i-- {
		e := &d.entries[i]
		if e.status.kind() == manifest.Dir && !e.omitted && !e.settled {
			tasks = append(tasks, task{what: openChild, dir: d, from: i})
		}
	}
	d.cutRuns()
	for k := len(d.ends) - 1; k > 0; k-- {
		tasks = append(tasks, task{what: readRun, dir: d, from: d.ends[k-1], to: d.ends[k]})
	}
	if len(d.ends) > 0 {
		inline = d.toRead[:d.ends[0]]
	}
	return inline, tasks
}

func (d *dir) cutRuns() {
	d.ends = d.ends[:0]
	begin, bytes := 0, int64(0)
	for n, i := range d.toRead {
		bytes += d.entries[i].status.Size
		if end := n + 1; end-begin == maxRunFiles || bytes >= maxRunBytes || end == len(d.toRead) {
			d.ends = append(d.ends, end)
			begin, bytes = end, 0
		}
	}
}
