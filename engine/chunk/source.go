package chunk

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// Source is where a Cutter reads a file from. Reads come in ascending order
// without overlap, so that a stream can be a source too.
type Source = io.ReaderAt

// sparseSource is a Source that knows which parts of it are not allocated.
type sparseSource interface {
	// findData returns the first allocated range that ends after off. If there is
	// none, start is at or behind the end of the file.
	findData(off int64) (start, end int64, err error)
}

// FD is an open file. Reading does not move its offset.
type FD int

// ReadAt is pread(2), repeated until p is full or the file ends.
func (fd FD) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Pread(int(fd), p[done:], off+int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return done, err
		case n == 0:
			return done, io.EOF
		default:
			done += n
		}
	}
	return done, nil
}

// SparseFD is an open file with unallocated parts, which are skipped instead of
// read (lseek(2) with SEEK_DATA; it moves the offset). It yields the same
// pieces as FD.
type SparseFD int

// ReadAt is that of FD.
func (fd SparseFD) ReadAt(p []byte, off int64) (int, error) { return FD(fd).ReadAt(p, off) }

func (fd SparseFD) findData(off int64) (start, end int64, err error) {
	start, err = unix.Seek(int(fd), off, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) { // nothing but a hole up to the end
		return maxOffset, maxOffset, nil
	}
	if err != nil {
		return 0, 0, err
	}
	end, err = unix.Seek(int(fd), start, unix.SEEK_HOLE)
	if errors.Is(err, unix.ENXIO) { // truncated in between
		return maxOffset, maxOffset, nil
	}
	return start, end, err
}
