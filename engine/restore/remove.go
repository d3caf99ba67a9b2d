package restore

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// dirNames yields the names in a directory. Removing those that were yielded
// does no harm. An error is yielded once, last.
func dirNames(dirfd int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		fd, err := unix.Openat(dirfd, ".", dirFlags, 0) // an offset of its own
		if err != nil {
			yield("", err)
			return
		}
		defer unix.Close(fd)
		buf := make([]byte, 16<<10)
		var names []string
		for {
			n, err := retryInterrupted(func() (int, error) { return unix.ReadDirent(fd, buf) })
			if err != nil {
				yield("", err)
				return
			}
			if n <= 0 {
				return
			}
			_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
			for _, name := range names {
				if !yield(name, nil) {
					return
				}
			}
		}
	}
}

func tempName() string { return fmt.Sprintf("%s%016x", manifest.RestoreTemp, rand.Uint64()) }

// remover removes a tree beneath a directory, without following symlinks or
// entering another mount.
type remover struct {
	euid    int
	top     int // descriptor of the directory that holds the tree
	removed uint64
	moved   []string // directories too deep to stay where they were, now in top
}

// maxRemoveDepth bounds the descriptors that removing holds. What is nested
// deeper is moved to the top and removed from there.
const maxRemoveDepth = 64

// removeTree removes name in dirfd and all below it, and returns how many
// entries that were.
func (s *session) removeTree(dirfd int, name string) (uint64, error) {
	r := &remover{euid: s.euid, top: dirfd}
	err := r.remove(dirfd, name, 0)
	for len(r.moved) > 0 && err == nil {
		name, r.moved = r.moved[len(r.moved)-1], r.moved[:len(r.moved)-1]
		err = r.remove(dirfd, name, 0)
	}
	return r.removed, err
}

func (r *remover) remove(dirfd int, name string, depth int) error {
	err := unix.Unlinkat(dirfd, name, 0)
	if err == nil || err == unix.ENOENT {
		r.removed++
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM { // POSIX says EPERM for directories
		return err
	}
	if depth > maxRemoveDepth {
		temp := tempName()
		r.moved = append(r.moved, temp)
		return unix.Renameat(dirfd, name, r.top, temp)
	}
	if err := r.empty(dirfd, name, depth); err != nil {
		return err
	}
	err = unix.Unlinkat(dirfd, name, unix.AT_REMOVEDIR)
	if err == unix.EBUSY {
		return ErrMount
	}
	if err == nil {
		r.removed++
	}
	return err
}

// empty removes what is in a directory.
func (r *remover) empty(dirfd int, name string, depth int) error {
	fd, err := openDir(dirfd, name)
	if err == unix.EACCES && loosenAt(dirfd, name, r.euid) == nil {
		fd, err = openDir(dirfd, name)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := loosen(fd, r.euid); err != nil && !errors.Is(err, unix.EACCES) {
		return err
	}
	for child, err := range dirNames(fd) {
		if err != nil {
			return err
		}
		if err := r.remove(fd, child, depth+1); err != nil {
			return fmt.Errorf("%q: %w", child, err)
		}
	}
	return nil
}

// loosen lets the owner change a directory of its own that its mode locks.
// EACCES if it is somebody else's. Root needs none of this.
func loosen(dirfd, euid int) error {
	if euid == rootOwner {
		return nil
	}
	o := object{fd: dirfd}
	st, err := o.stat()
	switch {
	case err != nil:
		return err
	case int(st.Uid) != euid:
		return unix.EACCES
	case st.Mode&dirMode == dirMode:
		return nil
	}
	return o.chmod(st.Mode&modeBits | dirMode)
}

// loosenAt is loosen for a directory that cannot even be opened.
func loosenAt(dirfd int, name string, euid int) error {
	o, st, err := openPath(dirfd, name)
	if err != nil {
		return err
	}
	defer o.close()
	if int(st.Uid) != euid || !isKind(&st, unix.S_IFDIR) {
		return unix.EACCES
	}
	return o.chmod(st.Mode&modeBits | dirMode)
}
