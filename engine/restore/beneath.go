package restore

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

	// resolution never leaves the directory it starts from: not by "..", not
	// by a symlink or a magic link of /proc, not into another mount.
	resolution = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

	// maxOpenPath keeps a path below PATH_MAX, 4096 bytes with its end.
	maxOpenPath = 4000
)

// noOpenat2 is set when the kernel, or a seccomp filter, turns out to lack
// openat2.
var noOpenat2 atomic.Bool

// openDir opens the directory at path, components joined by slashes, beneath
// dirfd. ErrMount if it lies in another mount; ELOOP or ENOTDIR if a symlink or
// something else stands in its way.
func openDir(dirfd int, path string) (int, error) {
	fd := dirfd
	for path != "" {
		var head string
		head, path = splitPath(path)
		next, err := openShort(fd, head)
		if fd != dirfd {
			unix.Close(fd)
		}
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// splitPath cuts a path behind as many whole components as one call may take.
func splitPath(path string) (head, rest string) {
	if len(path) <= maxOpenPath {
		return path, ""
	}
	i := strings.LastIndexByte(path[:maxOpenPath], '/')
	return path[:i], path[i+1:]
}

func openShort(dirfd int, path string) (int, error) {
	if noOpenat2.Load() {
		return openStepwise(dirfd, path)
	}
	how := unix.OpenHow{Flags: dirFlags, Resolve: resolution}
	fd, err := -1, error(unix.EAGAIN)
	for try := 0; err == unix.EAGAIN || err == unix.EINTR; try++ {
		if try == 100 { // EAGAIN: a rename ran at the same time
			return -1, ErrChanged
		}
		fd, err = unix.Openat2(dirfd, path, &how)
	}
	switch err {
	case unix.ENOSYS, unix.EPERM:
		noOpenat2.Store(true)
		return openStepwise(dirfd, path)
	case unix.EXDEV:
		return -1, ErrMount
	}
	return fd, err
}

// openStepwise opens one component after the other, none of which may be a
// symlink or lie on another device. Unlike openat2 it does not notice a bind
// mount of the same filesystem.
func openStepwise(dirfd int, path string) (int, error) {
	var start unix.Stat_t
	if err := unix.Fstat(dirfd, &start); err != nil {
		return -1, err
	}
	fd := dirfd
	for name := range strings.SplitSeq(path, "/") {
		next, err := openComponent(fd, name, start.Dev)
		if fd != dirfd {
			unix.Close(fd)
		}
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

func openComponent(dirfd int, name string, dev uint64) (int, error) {
	fd, err := retryInterrupted(func() (int, error) { return unix.Openat(dirfd, name, dirFlags, 0) })
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Dev != dev {
		err = ErrMount
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func retryInterrupted(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// statAt describes name in dirfd without following it. ok is false if there is
// nothing.
func statAt(dirfd int, name string) (st unix.Stat_t, ok bool, err error) {
	err = unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return st, false, nil
	}
	return st, err == nil, err
}

func isKind(st *unix.Stat_t, kind uint32) bool { return st.Mode&unix.S_IFMT == kind }

// explain gives errors of the kernel a meaning that callers can test for.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("%w: %w", ErrMount, err)
	}
	return err
}
