package workspace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// listing is the content of a directory: names in one string, and for each of
// them 8 bytes, so that a million names of 20 bytes take 28 MB.
type listing struct {
	block string
	names []listed
}

type listed struct {
	off uint32
	len uint16
	typ uint8 // DT_UNKNOWN if the filesystem does not tell
}

func (l *listing) name(i int) string {
	n := l.names[i]
	return l.block[n.off : n.off+uint32(n.len)]
}

// has reports whether the directory has an entry of this name.
func (l *listing) has(name string) bool {
	_, ok := slices.BinarySearchFunc(l.names, name, func(n listed, name string) int {
		return cmp.Compare(l.block[n.off:n.off+uint32(n.len)], name)
	})
	return ok
}

// direntSize is that of the buffer for getdents64(2): 64 KiB take some 2,000
// entries a call.
const direntSize = 64 << 10

var errHugeDir = errors.New("names take more than 4 GiB")

// lister reads directories; its buffers serve one after the other.
type lister struct {
	dirents []byte
	block   []byte
	names   []listed
}

// list reads all names of a directory, sorted. With an error come the names
// that were read before it.
func (l *lister) list(fd int) (*listing, error) {
	if l.dirents == nil {
		l.dirents = make([]byte, direntSize)
	}
	l.block, l.names = l.block[:0], l.names[:0]
	err := l.readAll(fd)
	out := &listing{block: string(l.block), names: slices.Clone(l.names)}
	if cap(l.block) > 1<<20 { // do not keep the buffers of a huge directory
		l.block, l.names = nil, nil
	}
	slices.SortFunc(out.names, func(a, b listed) int {
		return strings.Compare(out.block[a.off:a.off+uint32(a.len)], out.block[b.off:b.off+uint32(b.len)])
	})
	// A filesystem under change may list a name twice.
	out.names = slices.CompactFunc(out.names, func(a, b listed) bool {
		return out.block[a.off:a.off+uint32(a.len)] == out.block[b.off:b.off+uint32(b.len)]
	})
	return out, err
}

func (l *lister) readAll(fd int) error {
	for {
		n, err := unix.Getdents(fd, l.dirents)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n <= 0:
			return nil
		}
		if err := l.parse(l.dirents[:n]); err != nil {
			return err
		}
	}
}

// direntName is the offset of the name in a struct linux_dirent64: inode and
// offset of 8 bytes each, record length of 2, type of 1.
const direntName = 19

func (l *lister) parse(b []byte) error {
	for len(b) > direntName {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= direntName || size > len(b) {
			return unix.EIO // no kernel does this; do not run past the buffer
		}
		name := b[direntName:size]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		if s := unsafe.String(unsafe.SliceData(name), len(name)); s != "." && s != ".." && s != "" {
			if len(l.block)+len(name) > 1<<32-1 {
				return errHugeDir
			}
			l.names = append(l.names, listed{off: uint32(len(l.block)), len: uint16(len(name)), typ: b[18]})
			l.block = append(l.block, name...)
		}
		b = b[size:]
	}
	return nil
}
