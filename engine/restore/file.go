package restore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// file is a file that is being written.
//
// In a directory that this run made, a file gets its final name at once. A run
// that is killed leaves it incomplete there, but with a mtime of its own: the
// mtime of the snapshot is set last, and as long as it differs, the next run
// compares the content. Elsewhere a file has a temporary name until it is
// complete.
type file struct {
	dir     *dir
	entry   manifest.Entry
	lead    *leader
	verdict verdict // create or rewrite
	sparse  bool    // has holes
	single  bool    // all data is one blob

	mu   sync.Mutex // guards the fields below, not the writing to the open file
	left int        // pieces to be delivered, and one while more are added
	out  *output
	err  error // the first one; the file is given up
}

func (f *file) at() place { return place{f.dir, f.entry.Name} }

// output is the open file behind a name.
type output struct {
	object
	name string // temporary or final
	temp bool
	is   state
}

// open makes the output of a file.
func (s *session) open(f *file) (*output, error) {
	var out *output
	err := s.change(f.dir, func(dirfd int) (err error) {
		if f.dir.private {
			out, err = s.openFinal(f.dir, dirfd, &f.entry)
		} else {
			out, err = openTemp(dirfd)
		}
		return err
	})
	if err != nil || !f.sparse {
		return out, err
	}
	if err := unix.Ftruncate(out.fd, int64(f.entry.Size)); err != nil {
		s.discard(f.dir, out)
		return nil, err
	}
	return out, nil
}

const createFlags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openFinal creates a file under its own name, with its own mode as far as the
// umask allows.
func (s *session) openFinal(d *dir, dirfd int, e *manifest.Entry) (*output, error) {
	mode := e.Mode & permBits
	fd, err := retryInterrupted(func() (int, error) { return unix.Openat(dirfd, e.Name, createFlags, mode) })
	if err != nil {
		return nil, err
	}
	is := state{owner: d.owner, mode: mode &^ s.umask, isNew: true, noAttr: true}
	return &output{object: object{fd: fd}, name: e.Name, is: is}, nil
}

func openTemp(dirfd int) (*output, error) {
	name := tempName()
	fd, err := retryInterrupted(func() (int, error) { return unix.Openat(dirfd, name, createFlags, tempMode) })
	if err != nil {
		return nil, err
	}
	out := &output{object: object{fd: fd}, name: name, temp: true}
	st, err := out.stat()
	if err != nil {
		out.close()
		unix.Unlinkat(dirfd, name, 0)
		return nil, err
	}
	out.is = stateOf(&st)
	out.is.isNew = true
	return out, nil
}

// discard gives up an output.
func (s *session) discard(d *dir, out *output) {
	out.close()
	if dirfd, err := s.handles.acquire(d); err == nil {
		unix.Unlinkat(dirfd, out.name, 0)
		s.handles.release(d)
	}
}

// deliver writes one piece, or gives its file up because of err. It returns
// only what ends the run.
func (f *filler) deliver(ctx context.Context, p *piece, data []byte, err error) error {
	if err == nil && uint64(len(data)) != p.length {
		err = fmt.Errorf("%w: blob of %d bytes where %d belong", manifest.ErrDamaged, len(data), p.length)
	}
	if err != nil {
		return f.arrived(ctx, p.file, err)
	}
	f.at("write", p.file.entry.Name)
	out, err := f.output(p.file)
	if out != nil {
		if p.file.sparse {
			err = writeSparse(out.fd, data, p.offset)
		} else {
			err = writeAt(out.fd, data, p.offset)
		}
		f.written.Add(p.length)
	}
	return f.arrived(ctx, p.file, err)
}

// output opens a file before its first piece. It returns nothing for one that
// was given up.
func (f *filler) output(w *file) (*output, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out != nil || w.err != nil {
		return w.out, w.err
	}
	out, err := f.open(w)
	if err != nil {
		return nil, err
	}
	w.out = out
	if !w.single {
		f.track(w)
	}
	return out, nil
}

// arrived counts a piece as written, or as failed, and completes the file with
// the last one.
func (f *filler) arrived(ctx context.Context, w *file, err error) error {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.left--
	last := w.left == 0
	out, err := w.out, w.err
	w.mu.Unlock()
	if err != nil && isFatal(ctx, err) {
		if w.single && out != nil {
			f.discard(w.dir, out) // others may be written by somebody else just now
		}
		return f.failed(ctx, "write", w.at(), err)
	}
	if !last {
		return nil
	}
	if !w.single {
		f.untrack(w)
	}
	switch {
	case err != nil && out != nil:
		f.discard(w.dir, out)
	case err == nil && out == nil: // no data at all
		if out, err = f.open(w); err == nil {
			err = f.complete(ctx, w, out)
		}
	case err == nil:
		err = f.complete(ctx, w, out)
	}
	return f.failed(ctx, "write", w.at(), err)
}

// complete gives a file that has its content its metadata and its name.
func (f *filler) complete(ctx context.Context, w *file, out *output) error {
	f.at("meta", w.entry.Name)
	err := f.apply(ctx, out.object, out.is, &w.entry, w.at())
	if err != nil && !isAttr(err) || fetchFailed(err) {
		f.discard(w.dir, out)
		return err
	}
	attrErr, id := err, inode{}
	err = nil
	if w.lead != nil {
		var st unix.Stat_t
		st, err = out.stat()
		id = inodeOf(&st)
	}
	// Some filesystems report only on closing what they could not write.
	if cerr := out.close(); err == nil {
		err = cerr
	}
	if err == nil && out.temp {
		f.at("rename", w.entry.Name)
		err = f.change(w.dir, func(dirfd int) error { return f.rename(w.dir, dirfd, out.name, w.entry.Name) })
	}
	if err != nil {
		f.unlink(w.dir, out.name)
		return err
	}
	if w.lead != nil {
		w.lead.inode = id
	}
	f.files.Add(1)
	f.tally(w.verdict)
	f.session.report(w.at())
	return attrErr
}

// fetchFailed tells whether an attribute is missing because the store failed,
// so that trying again helps.
func fetchFailed(err error) bool {
	var errno unix.Errno
	return err != nil && !fetch.Lost(err) && !errors.As(err, &errno)
}

func (s *session) unlink(d *dir, name string) {
	if dirfd, err := s.handles.acquire(d); err == nil {
		unix.Unlinkat(dirfd, name, 0)
		s.handles.release(d)
	}
}
