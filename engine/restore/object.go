package restore

import (
	"errors"
	"strconv"
	"unsafe"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// object is an open file of any kind. A descriptor opened with O_PATH, which
// is the only way to hold a symlink, a device or an unreadable file without
// side effects, serves most calls only by its name below /proc.
type object struct {
	fd       int
	pathOnly bool
}

// openPath opens name in dirfd without following or activating it.
func openPath(dirfd int, name string) (object, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := retryInterrupted(func() (int, error) {
		return unix.Openat(dirfd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return object{}, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return object{}, st, err
	}
	return object{fd: fd, pathOnly: true}, st, nil
}

func (o object) close() error { return unix.Close(o.fd) }

func (o object) procName() string { return "/proc/self/fd/" + strconv.Itoa(o.fd) }

func (o object) stat() (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstat(o.fd, &st)
	return st, err
}

func (o object) chown(to owner) error {
	return unix.Fchownat(o.fd, "", int(to.uid), int(to.gid), unix.AT_EMPTY_PATH)
}

func (o object) chmod(mode uint32) error {
	if o.pathOnly {
		return unix.Chmod(o.procName(), mode)
	}
	return unix.Fchmod(o.fd, mode)
}

// setTime sets the mtime and leaves the atime alone.
func (o object) setTime(mtime manifest.Time) error {
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: mtime.Sec, Nsec: int64(mtime.Nsec)}}
	if !o.pathOnly {
		// futimens(3); unix.UtimesNanoAt cannot pass a null path.
		_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(o.fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}
	err := unix.UtimesNanoAt(o.fd, "", times[:], unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT { // before Linux 5.8
		err = unix.UtimesNanoAt(unix.AT_FDCWD, o.procName(), times[:], 0)
	}
	return err
}

func (o object) setXattr(name string, value []byte) error {
	if o.pathOnly {
		return unix.Setxattr(o.procName(), name, value, 0)
	}
	return unix.Fsetxattr(o.fd, name, value, 0)
}

func (o object) removeXattr(name string) error {
	var err error
	if o.pathOnly {
		err = unix.Removexattr(o.procName(), name)
	} else {
		err = unix.Fremovexattr(o.fd, name)
	}
	if err == unix.ENODATA {
		return nil
	}
	return err
}

func (o object) listXattrs(buf []byte) (int, error) {
	if o.pathOnly {
		return unix.Listxattr(o.procName(), buf)
	}
	return unix.Flistxattr(o.fd, buf)
}

func (o object) getXattr(name string, buf []byte) (int, error) {
	if o.pathOnly {
		return unix.Getxattr(o.procName(), name, buf)
	}
	return unix.Fgetxattr(o.fd, name, buf)
}

// named is a file that is only looked at: its xattrs are read by the name of
// its directory's descriptor below /proc, without opening or following it.
type named struct{ path string }

func nameIn(dirfd int, name string) named {
	return named{"/proc/self/fd/" + strconv.Itoa(dirfd) + "/" + name}
}

func (n named) listXattrs(buf []byte) (int, error) { return unix.Llistxattr(n.path, buf) }

func (n named) getXattr(name string, buf []byte) (int, error) {
	return unix.Lgetxattr(n.path, name, buf)
}

// xattrReader reads the extended attributes of one file.
type xattrReader interface {
	listXattrs(buf []byte) (int, error)
	getXattr(name string, buf []byte) (int, error)
}

// noXattrs tells whether err says that there are no xattrs, because the
// filesystem or the kind of file has none.
func noXattrs(err error) bool {
	return errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM)
}
