package workspace

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// keptXattrs are always kept. Others describe the host rather than the
// workspace (security.selinux, trusted.overlay.*), unless the caller asks.
var keptXattrs = []string{"user.*", "security.capability", "system.posix_acl_access", "system.posix_acl_default"}

// xattrFilter is an allow list: names, and prefixes of names ending in '*'.
type xattrFilter []string

func newXattrFilter(more []string) xattrFilter {
	return append(slices.Clone(xattrFilter(keptXattrs)), more...)
}

func (f xattrFilter) keeps(name string) bool {
	for _, pattern := range f {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) || name == pattern {
			return true
		}
	}
	return false
}

// xattrSource is an inode to ask for attributes: an open file, or a name that
// cannot be opened (a symbolic link, a FIFO, a device) by way of its
// directory's descriptor in /proc, so that no path is resolved either.
type xattrSource struct {
	fd   int    // if path is empty
	path string // the last component is not followed
}

func sourceAt(dirfd int, name string) xattrSource {
	return xattrSource{path: "/proc/self/fd/" + strconv.Itoa(dirfd) + "/" + name}
}

func (s xattrSource) list(buf []byte) (int, error) {
	if s.path != "" {
		return unix.Llistxattr(s.path, buf)
	}
	return unix.Flistxattr(s.fd, buf)
}

func (s xattrSource) get(name string, buf []byte) (int, error) {
	if s.path != "" {
		return unix.Lgetxattr(s.path, name, buf)
	}
	return unix.Fgetxattr(s.fd, name, buf)
}

// maxXattrList bounds the names of one inode; Linux returns 64 KiB at most.
const maxXattrList = 1 << 20

// readXattrs returns the attributes that the filter keeps, sorted. Long values
// become blobs. What cannot be kept is reported by omit; other attributes are.
func (w *worker) readXattrs(src xattrSource, omit func(reason string)) ([]manifest.Xattr, error) {
	names, err := w.growing(maxXattrList, src.list)
	if err != nil || len(names) == 0 {
		if err != nil && !noXattrs(err) {
			omit("extended attributes: " + err.Error())
		}
		return nil, nil
	}
	var xattrs []manifest.Xattr
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if name == "" || !w.walk.xattrs.keeps(name) {
			continue
		}
		value, err := w.growing(manifest.MaxXattrValue, func(buf []byte) (int, error) { return src.get(name, buf) })
		switch {
		case errors.Is(err, unix.ENODATA): // removed in between
			continue
		case err == nil && (len(name) > manifest.MaxXattrName || len(xattrs) == manifest.MaxXattrs):
			err = errors.New("too long or too many")
			fallthrough
		case err != nil:
			omit("extended attribute " + strconv.Quote(name) + ": " + err.Error())
			continue
		}
		x, err := w.xattr(name, value)
		if err != nil {
			return nil, err
		}
		xattrs = append(xattrs, x)
	}
	slices.SortFunc(xattrs, func(a, b manifest.Xattr) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(xattrs, func(a, b manifest.Xattr) bool { return a.Name == b.Name }), nil
}

func (w *worker) xattr(name string, value []byte) (manifest.Xattr, error) {
	if len(value) <= manifest.MaxInlineXattr {
		return manifest.Xattr{Name: name, Value: bytes.Clone(value)}, nil
	}
	id, err := w.writer.Put(w.ctx, blob.Data, value)
	return manifest.Xattr{Name: name, Blob: id, Size: uint32(len(value))}, err
}

// noXattrs tells errors of filesystems, or kinds of files, without attributes.
func noXattrs(err error) bool {
	return errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENODATA)
}

// growing calls read with the worker's buffer, and with a longer one as long as
// the result does not fit, up to limit. The result is valid until the next call.
func (w *worker) growing(limit int, read func([]byte) (int, error)) ([]byte, error) {
	if w.xattrBuf == nil {
		w.xattrBuf = make([]byte, 4<<10)
	}
	for {
		n, err := read(w.xattrBuf)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ERANGE) && len(w.xattrBuf) < limit:
			w.xattrBuf = make([]byte, min(limit, 4*len(w.xattrBuf)))
		case err != nil:
			return nil, err
		default:
			return w.xattrBuf[:n], nil
		}
	}
}
