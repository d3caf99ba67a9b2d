package restore

import (
	"bytes"
	"context"
	"io"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"golang.org/x/sys/unix"
)

// sameContent tells whether a file of the right size holds what its entry
// says, by reading it. A file that cannot be read does not.
func (s *session) sameContent(ctx context.Context, dirfd int, e *manifest.Entry) (bool, error) {
	fd, err := retryInterrupted(func() (int, error) {
		return unix.Openat(dirfd, e.Name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return false, nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || !isKind(&st, unix.S_IFREG) || uint64(st.Size) != e.Size {
		return false, nil
	}
	offset := int64(0)
	var buf []byte
	for x, err := range manifest.ReadContent(ctx, s.src.Node, e) {
		if err != nil {
			return false, err
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		var same bool
		if x.Hole() {
			same, buf = zerosAt(fd, offset, int64(x.Length), buf)
		} else if x.Length <= packfile.MaxFrameContent {
			buf = grown(buf, int(x.Length))
			same = readAt(fd, buf, offset) && s.src.Name(blob.Data, buf) == x.ID
		}
		if !same {
			return false, nil
		}
		offset += int64(x.Length)
	}
	return true, nil
}

// grown returns n bytes, in the memory of buf if that is enough.
func grown(buf []byte, n int) []byte {
	if cap(buf) < n {
		return make([]byte, n)
	}
	return buf[:n]
}

// readAt fills b from a file.
func readAt(fd int, b []byte, offset int64) bool {
	for len(b) > 0 {
		n, err := retryInterrupted(func() (int, error) { return unix.Pread(fd, b, offset) })
		if err != nil || n == 0 {
			return false
		}
		b, offset = b[n:], offset+int64(n)
	}
	return true
}

// zerosAt tells whether a range of a file reads as zeros. Holes are skipped by
// SEEK_DATA where the filesystem knows it.
func zerosAt(fd int, offset, length int64, buf []byte) (bool, []byte) {
	for end := offset + length; offset < end; {
		data, err := unix.Seek(fd, offset, unix.SEEK_DATA)
		if err == unix.ENXIO { // nothing but a hole up to the end of the file
			return true, buf
		}
		if err == nil {
			offset = max(offset, data)
		}
		n := min(end-offset, 1<<20)
		if n <= 0 {
			break
		}
		buf = grown(buf, int(n))
		if !readAt(fd, buf, offset) || !allZero(buf) {
			return false, buf
		}
		offset += n
	}
	return true, buf
}

var zeroPage [pageSize]byte

// pageSize is the granule in which zeros are left out of sparse files.
const pageSize = 4096

func allZero(b []byte) bool {
	for len(b) > pageSize {
		if !bytes.Equal(b[:pageSize], zeroPage[:]) {
			return false
		}
		b = b[pageSize:]
	}
	return bytes.Equal(b, zeroPage[:len(b)])
}

// writeAt writes data to a file from offset.
func writeAt(fd int, data []byte, offset int64) error {
	for len(data) > 0 {
		n, err := retryInterrupted(func() (int, error) { return unix.Pwrite(fd, data, offset) })
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		data, offset = data[n:], offset+int64(n)
	}
	return nil
}

// writeSparse writes data, but not the pages of it that are zero: in a file
// that already has its size they read as zeros, and take no room.
func writeSparse(fd int, data []byte, offset int64) error {
	for len(data) > 0 {
		n := 0
		for n < len(data) && !zeroAt(data[n:], offset+int64(n)) {
			n += pageRest(offset+int64(n), len(data)-n)
		}
		if err := writeAt(fd, data[:n], offset); err != nil {
			return err
		}
		data, offset = data[n:], offset+int64(n)
		if len(data) > 0 {
			n = pageRest(offset, len(data))
			data, offset = data[n:], offset+int64(n)
		}
	}
	return nil
}

// pageRest is the number of bytes from offset to the end of its page, at most n.
func pageRest(offset int64, n int) int {
	return min(n, pageSize-int(offset%pageSize))
}

// zeroAt tells whether data up to the end of the page at offset is zero.
func zeroAt(data []byte, offset int64) bool {
	n := pageRest(offset, len(data))
	return bytes.Equal(data[:n], zeroPage[:n])
}
