package workspace

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/chunk"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// fileFlags never wait for a writer of a FIFO that took the place of a file.
const fileFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// maxAttempts is how often a file is read that changes while it is read.
const maxAttempts = 4

const tornReason = "changed while it was read"

// largeFile is the size from which all workers share in one file.
const largeFile = 8 << 20

// readError is an error of a file, in contrast to one of the writer.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

// readRun reads files of a directory in the order of their names.
func (w *worker) readRun(d *dir, dirfd int, indices []int) error {
	for len(indices) > 0 {
		part := indices[:min(interimFiles, len(indices))]
		indices = indices[len(part):]
		for _, i := range part {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			if err := w.readFile(d, dirfd, i); err != nil {
				return err
			}
		}
		w.recordPart(d, part)
	}
	return nil
}

// readFile reads a file until it held still meanwhile, or records it as torn.
func (w *worker) readFile(d *dir, dirfd, i int) error {
	e := &d.entries[i]
	if e.status.nlink > 1 {
		if c := w.walk.links.known(&e.status); c != nil {
			e.content, e.xattrs, e.fresh = c.content, c.xattrs, c.fresh
			return nil
		}
	}
	for attempt := 1; ; attempt++ {
		still, err := w.attempt(d, dirfd, i, attempt)
		var read *readError
		switch {
		case errors.As(err, &read):
			return w.lost(d, i, read.err)
		case err != nil || e.omitted:
			return err
		case still:
			w.noteFile(d, e)
			return nil
		case attempt == maxAttempts:
			e.fresh = true
			w.report(d.pathOf(e.name), manifest.TornFile, tornReason)
			w.noteFile(d, e)
			return nil
		}
	}
}

// noteFile counts a file that was read.
func (w *worker) noteFile(d *dir, e *entry) {
	size := e.status.Size
	w.result.FilesRead++
	w.unsaved += size
	progress := w.walk.opts.Progress
	progress.Files.Add(1)
	progress.Bytes.Add(uint64(size))
	if e.status.nlink > 1 && size >= minLinkedContent && !e.fresh {
		w.walk.links.remember(&linkedContent{
			status: e.status, content: e.content, xattrs: e.xattrs, fresh: fresh(&e.status.Stat, d.now, d.granule)})
	}
}

// attempt reads a file once and reports whether it held still, or is no file any
// more and was dealt with.
func (w *worker) attempt(d *dir, dirfd, i, attempt int) (still bool, err error) {
	e := &d.entries[i]
	if h := w.walk.opts.hooks.beforeOpen; h != nil {
		h(d.pathOf(e.name))
	}
	fd, err := openat(dirfd, e.name, fileFlags, e.status.UID)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return true, w.replaced(d, dirfd, i)
	case err != nil:
		return false, &readError{err}
	}
	defer unix.Close(fd)
	before, err := fstat(fd)
	if err != nil {
		return false, &readError{err}
	}
	if !before.sameFile(&e.status) {
		return true, w.replaced(d, dirfd, i)
	}
	size, err := w.readContent(e, fd, &before)
	if err != nil {
		return false, err
	}
	if e.xattrs, err = w.readXattrs(xattrSource{fd: fd}, func(reason string) { w.unsupported(d, e, reason) }); err != nil {
		return false, err
	}
	if h := w.walk.opts.hooks.afterRead; h != nil {
		h(d.pathOf(e.name), attempt)
	}
	after, err := fstat(fd)
	if err != nil {
		return false, &readError{err}
	}
	still = after.Stat == before.Stat && size == after.Size
	e.status = after
	e.status.Size = size
	return still, nil
}

// readContent puts what an open file holds up to the size it has, and returns
// how much that was.
func (w *worker) readContent(e *entry, fd int, st *status) (int64, error) {
	e.content = manifest.Content{}
	switch {
	case st.Size == 0:
		return 0, nil
	case st.Size < chunk.BlockSize:
		return w.readSmall(e, fd, int(st.Size))
	case st.Size >= largeFile && w.walk.opts.Workers > 1:
		return w.readLarge(e, fd, st)
	}
	cutter := w.openCutter(fd, st)
	out := manifest.NewContentWriter(w.putNode)
	size := int64(0)
	for {
		piece, err := cutter.Next(w.cutBuf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, &readError{err}
		}
		size += piece.Length
		if err := w.putPiece(out, piece); err != nil {
			return 0, err
		}
	}
	w.countRead(cutter.BytesRead())
	content, err := out.Finish()
	e.content = content
	return size, err
}

// readSmall reads a file that is one blob: shorter than any hole.
func (w *worker) readSmall(e *entry, fd, size int) (int64, error) {
	if w.small == nil {
		w.small = make([]byte, chunk.BlockSize)
	}
	n, err := chunk.FD(fd).ReadAt(w.small[:size], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, &readError{err}
	}
	w.countRead(int64(n))
	if n == 0 {
		return 0, nil
	}
	id, err := w.writer.Put(w.ctx, blob.Data, w.small[:n])
	e.content.Extents = []manifest.Extent{{Length: uint64(n), ID: id}}
	return int64(n), err
}

// openCutter turns the worker's cutter to a file.
func (w *worker) openCutter(fd int, st *status) *chunk.Cutter {
	if w.cutter == nil {
		w.cutter = chunk.NewCutter(w.walk.opts.Chunk)
		w.cutBuf = make([]byte, w.walk.opts.Chunk.Max)
	}
	if st.sparse {
		w.cutter.Reset(chunk.SparseFD(fd), st.Size)
	} else {
		w.cutter.Reset(chunk.FD(fd), st.Size)
	}
	return w.cutter
}

func (w *worker) putPiece(out *manifest.ContentWriter, piece chunk.Piece) error {
	x := manifest.Extent{Length: uint64(piece.Length)}
	if piece.Data != nil {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		id, err := w.writer.Put(w.ctx, blob.Data, piece.Data)
		if err != nil {
			return err
		}
		x.ID = id
	}
	return out.Add(x)
}

func (w *worker) countRead(n int64) {
	w.result.BytesRead += uint64(n)
	w.walk.opts.Progress.BytesRead.Add(uint64(n))
}
