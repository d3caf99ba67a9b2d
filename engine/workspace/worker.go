package workspace

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/chunk"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/statcache"
	"github.com/snapctl/snapctl/packfile/blob"
)

// worker does tasks until the walk is over. Everything in it belongs to one
// goroutine. Its methods return errors that end the walk; what goes wrong with
// one entry is reported and counted instead.
type worker struct {
	ctx     context.Context
	id      int
	walk    *walk
	writer  Writer
	session *statcache.Session // nil without a cache
	result  Result             // its share of the counts

	lister   lister
	pathBuf  []byte
	xattrBuf []byte
	small    []byte        // content of a small file
	cutter   *chunk.Cutter // made for the first file that is not small
	cutBuf   []byte
	cached   statcache.Entry
	spare    [][]entry // slices of directories that are complete
	unsaved  int64     // bytes read since the cache was written
}

func (w *worker) run() error {
	for {
		t, c := w.walk.sched.next(w.id)
		var err error
		switch {
		case c != nil:
			err = w.putChunk(*c)
		case t.dir == nil:
			return w.ctx.Err()
		default:
			err = w.do(t)
		}
		if err == nil {
			err = w.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (w *worker) do(t task) error {
	d := t.dir
	fd, err := w.walk.fds.acquire(d)
	if err != nil {
		w.walk.fds.skip(d)
		return w.miss(t, err)
	}
	switch t.what {
	case openChild:
		child, err := w.openChild(d, fd, t.from)
		w.walk.fds.done(d)
		if err != nil {
			return err
		}
		if child != nil {
			return w.begin(child)
		}
		return w.complete(d)
	case readRun:
		err := w.readRun(d, fd, d.toRead[t.from:t.to])
		w.walk.fds.done(d)
		if err != nil {
			return err
		}
		return w.complete(d)
	}
	return w.takeBatch(d, fd)
}

// miss accounts for a task whose directory cannot be reached any more.
func (w *worker) miss(t task, err error) error {
	d := t.dir
	switch t.what {
	case openChild:
		if err := w.lost(d, t.from, err); err != nil {
			return err
		}
	case readRun:
		for _, i := range d.toRead[t.from:t.to] {
			if err := w.lost(d, i, err); err != nil {
				return err
			}
		}
	case nextBatch:
		if err := w.loseRest(d, err); err != nil {
			return err
		}
	}
	return w.complete(d)
}

// loseRest leaves out what was not looked at yet of a directory that cannot be
// opened again. What is recorded of it goes too: behind the node that lacks it,
// it would be believed as part of that.
func (w *worker) loseRest(d *dir, err error) error {
	switch {
	case outOfResources(err):
		return fmt.Errorf("walk %q: %w", d.path(), err)
	case isGone(err):
		w.result.Counts.Vanished += uint64(len(d.list.names) - d.next)
	default:
		w.report(d.path(), manifest.Unreadable, err.Error())
	}
	if w.session != nil {
		w.noteCache(w.session.DropTree([]byte(d.path())))
	}
	w.startBatch(d)
	d.next = len(d.list.names)
	d.pending.Store(1)
	return nil
}

// complete tells that a child, a run or the taking of a batch is complete, and
// finishes what is complete with it, up to the root.
func (w *worker) complete(d *dir) error {
	for d.pending.Add(-1) == 0 {
		if err := w.finishBatch(d); err != nil {
			return err
		}
		if !d.last() {
			w.walk.sched.push(w.id, task{what: nextBatch, dir: d})
			return nil
		}
		if err := w.finishDir(d); err != nil {
			return err
		}
		if d.parent == nil {
			w.walk.sched.stop()
			return nil
		}
		d = d.parent
	}
	return nil
}

// lost leaves an entry out that cannot be read: it is counted as vanished if it
// is gone, else reported.
func (w *worker) lost(d *dir, i int, err error) error {
	e := &d.entries[i]
	e.omitted = true
	return w.unreadable(d, e.name, err)
}

func (w *worker) unreadable(d *dir, name string, err error) error {
	switch {
	case outOfResources(err):
		return fmt.Errorf("walk %q: %w", d.pathOf(name), err)
	case isGone(err):
		w.result.Counts.Vanished++
	default:
		w.result.Counts.Unreadable++
		w.walk.omissions.add(d.pathOf(name), manifest.Unreadable, err.Error())
	}
	return nil
}

// outOfResources tells errors that say nothing about an entry.
func outOfResources(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, errMoved)
}

func (w *worker) putNode(node []byte) (blob.ID, error) {
	return w.writer.Put(w.ctx, blob.Tree, node)
}
