package restore

import (
	"context"
	"sync"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// filler is the first walk: it makes directories, compares files and writes
// those that differ.
type filler struct {
	*session
	group     *errgroup.Group // compares files
	collector *collector
	entries   []*manifest.Entry // of the directory that is being listed, not compared yet

	mu         sync.Mutex         // guards unfinished
	unfinished map[*file]struct{} // files of several blobs that are open
}

// chunk is how many entries one goroutine compares: enough to make its start
// cheap, few enough to share a large directory.
const chunk = 256

// writers is how many batches are written at a time: while the last frames of
// one are written, the next one is located and read.
const writers = 2

// fill runs the first walk.
func (s *session) fill(ctx context.Context) error {
	return s.filling(ctx, func(ctx context.Context, f *filler) error {
		var compareCtx context.Context
		f.group, compareCtx = errgroup.WithContext(ctx)
		f.group.SetLimit(s.opts.Workers)
		walkErr := s.walk(compareCtx, f)
		if err := f.group.Wait(); err != nil {
			return err // a cancelled walk is only its consequence
		}
		return walkErr
	})
}

// filling writes the files that compare starts.
func (s *session) filling(ctx context.Context, compare func(context.Context, *filler) error) error {
	f := &filler{session: s, collector: newCollector(), unfinished: make(map[*file]struct{})}
	defer f.abandon()
	g, ctx := errgroup.WithContext(ctx)
	for range writers {
		g.Go(func() error {
			for b := range f.collector.out {
				if err := f.write(ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error { return f.collector.finish(ctx, compare(ctx, f)) })
	return g.Wait()
}

func (f *filler) track(w *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unfinished[w] = struct{}{}
}

func (f *filler) untrack(w *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.unfinished, w)
}

// abandon removes the files that were not completed.
func (f *filler) abandon() {
	for w := range f.unfinished {
		f.discard(w.dir, w.out)
	}
}

func (f *filler) enter(ctx context.Context, d *dir, e *manifest.Entry) error {
	v, err := f.enterDir(d, e)
	if err != nil {
		if err := f.failed(ctx, "make directory", place{d, ""}, err); err != nil {
			return err
		}
		return errSkip
	}
	f.count(e)
	f.tally(v)
	return nil
}

// enterDir opens a directory, or makes it.
func (f *filler) enterDir(d *dir, e *manifest.Entry) (verdict, error) {
	switch {
	case d.parent == nil && f.place.pristine:
		return create, nil
	case d.parent == nil:
		return f.judgeDir(d, e)
	}
	if !d.parent.private {
		parentfd, err := f.handles.acquire(d.parent)
		if err != nil {
			return right, err
		}
		defer f.handles.release(d.parent)
		there, err := find(parentfd, d.name)
		switch {
		case err != nil:
			return right, err
		case there.there && isKind(&there.st, unix.S_IFDIR):
			return f.openExisting(d, parentfd, e)
		case there.there:
			if err := f.change(d.parent, func(fd int) error { return unix.Unlinkat(fd, d.name, 0) }); err != nil {
				return right, err
			}
		}
	}
	err := f.makeDir(d)
	if err == nil && !d.whole {
		f.madeOnWay[d.path()] = true
	}
	return create, err
}

// openExisting checks that a directory can be worked in.
func (f *filler) openExisting(d *dir, parentfd int, e *manifest.Entry) (verdict, error) {
	_, err := f.handles.acquire(d)
	if err == unix.EACCES && loosenAt(parentfd, d.name, f.euid) == nil {
		_, err = f.handles.acquire(d)
	}
	if err != nil {
		return right, err
	}
	defer f.handles.release(d)
	return f.judgeDir(d, e)
}

// judgeDir compares the metadata of a directory. One that is only on the way
// to what was chosen is left as it is.
func (s *session) judgeDir(d *dir, e *manifest.Entry) (verdict, error) {
	if !d.whole {
		return right, nil
	}
	dirfd, err := s.handles.acquire(d)
	if err != nil {
		return right, err
	}
	defer s.handles.release(d)
	o := object{fd: dirfd}
	st, err := o.stat()
	if err != nil {
		return right, err
	}
	ok, err := s.metaRight(stateOf(&st), o, e)
	if ok || err != nil {
		return right, err
	}
	return fix, nil
}

// makeDir makes a directory and checks that what is there afterwards is it:
// ours, and closed to others. In a directory that others may write to, somebody
// could have put another one in its place.
func (f *filler) makeDir(d *dir) error {
	f.at("mkdir", d.name)
	err := f.change(d.parent, func(fd int) error { return unix.Mkdirat(fd, d.name, dirMode) })
	if err != nil {
		return err
	}
	dirfd, err := f.handles.acquire(d)
	if err == unix.EACCES { // an umask that masks the owner's own bits
		err = f.change(d.parent, func(fd int) error { return loosenAt(fd, d.name, f.euid) })
		if err == nil {
			dirfd, err = f.handles.acquire(d)
		}
	}
	if err != nil {
		return err
	}
	defer f.handles.release(d)
	o := object{fd: dirfd}
	if !d.parent.private {
		if err := o.closeToOthers(f.place.self); err != nil {
			return err
		}
	}
	st, err := o.stat()
	if err != nil {
		return err
	}
	d.private, d.owner = true, owner{st.Uid, st.Gid}
	return nil
}

// closeToOthers makes a directory that was just made private: it may have
// inherited the setgid bit and ACLs of its parent.
func (o object) closeToOthers(self uint32) error {
	st, err := o.stat()
	if err != nil {
		return err
	}
	if st.Uid != self || st.Mode&permBits&^dirMode != 0 {
		return ErrChanged
	}
	names, err := listXattrs(o)
	if err != nil {
		return err
	}
	for _, name := range names {
		if managed(name) {
			if err := o.removeXattr(name); err != nil {
				return err
			}
		}
	}
	if st.Mode&modeBits != dirMode || len(names) > 0 {
		return o.chmod(dirMode)
	}
	return nil
}

func (f *filler) entry(ctx context.Context, d *dir, e *manifest.Entry) error {
	if e.Kind == manifest.Dir {
		return nil
	}
	if f.entries = append(f.entries, e); len(f.entries) == chunk {
		f.submit(ctx, d)
	}
	return nil
}

func (f *filler) listed(ctx context.Context, d *dir) error {
	if len(f.entries) > 0 {
		f.submit(ctx, d)
	}
	f.session.report(place{d, ""})
	return ctx.Err()
}

func (f *filler) leave(context.Context, *dir, *manifest.Entry) error { return nil }

// submit hands the collected entries of d to another goroutine. It waits while
// all are busy. The context of the group ends the walk when one of them fails.
func (f *filler) submit(ctx context.Context, d *dir) {
	entries := f.entries
	f.entries = nil
	f.group.Go(func() error { return f.compare(ctx, d, entries) })
}

// count adds an entry of the snapshot to the result.
func (s *session) count(e *manifest.Entry) {
	s.seen.Add(1)
	s.rep.add(func(r *Result) {
		switch e.Kind {
		case manifest.File:
			r.Files++
			r.Bytes += e.Size
		case manifest.Dir:
			r.Dirs++
		case manifest.Symlink:
			r.Symlinks++
		default:
			r.Others++
		}
	})
}

// tally counts what was done about an entry.
func (s *session) tally(v verdict) {
	s.rep.add(func(r *Result) {
		switch v {
		case right:
			r.Unchanged++
		case fix:
			r.Fixed++
		case create:
			r.Created++
		case rewrite:
			r.Updated++
		}
	})
}

// known returns what Options.Known says of a directory. A cache that fails is
// no reason to fail: it only saves work.
func (s *session) known(ctx context.Context, d *dir) map[string]KnownFile {
	if s.opts.Known == nil {
		return nil
	}
	known, err := s.opts.Known.Dir(ctx, d.path())
	if err != nil {
		return nil
	}
	return known
}
