package workspace

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
)

// readOther completes an entry that is neither a file nor a directory. It is
// never opened.
func (w *worker) readOther(d *dir, dirfd, i int) error {
	e := &d.entries[i]
	if e.status.kind() == manifest.Symlink {
		target, err := readlink(dirfd, e.name)
		switch {
		case errors.Is(err, unix.EINVAL): // no link any more
			return w.replaced(d, dirfd, i)
		case err != nil:
			return w.lost(d, i, err)
		}
		e.target = target
		// What is kept by default cannot be set on symbolic links.
		if len(w.walk.opts.Xattrs) == 0 {
			return nil
		}
	}
	var err error
	e.xattrs, err = w.readXattrs(sourceAt(dirfd, e.name), func(reason string) { w.unsupported(d, e, reason) })
	return err
}

var errBadTarget = errors.New("symbolic link without a usable target")

func readlink(dirfd int, name string) (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(dirfd, name, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return "", err
		case n == 0 || n > manifest.MaxTarget || strings.IndexByte(string(buf[:n]), 0) >= 0:
			return "", errBadTarget
		case n < size:
			return string(buf[:n]), nil
		}
	}
}
