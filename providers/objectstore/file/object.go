package file

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// openObject opens an object for reading and returns its size.
func openObject(folder *os.File, name string) (*os.File, int64, error) {
	path := pathIn(folder, name)
	// O_NONBLOCK: opening a FIFO must not wait for its writer.
	fd, err := openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == unix.ELOOP {
		err = errIrregular
	}
	if err != nil {
		return nil, 0, explain(path, notExist(err))
	}
	file := os.NewFile(uintptr(fd), path)
	st, err := fstat(file)
	if err == nil {
		err = regular(path, &st)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, st.Size, nil
}

func statObject(folder *os.File, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	path := pathIn(folder, name)
	err := retry(func() error {
		return unix.Fstatat(int(folder.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return st, explain(path, notExist(err))
	}
	return st, regular(path, &st)
}

// regular refuses what is no regular file. A folder is no object and in
// nobody's way.
func regular(path string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return objectstore.ErrNotExist
	}
	return explain(path, errIrregular)
}

func fstat(file *os.File) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(int(file.Fd()), &st) })
	return st, explain(file.Name(), err)
}

func infoOf(key string, st *unix.Stat_t) objectstore.Info {
	return objectstore.Info{
		Key:     key,
		Size:    st.Size,
		ETag:    etag(st),
		ModTime: time.Unix(st.Mtim.Unix()),
	}
}

// etag names a version of an object: inode, size and modification time in
// nanoseconds, in hexadecimal. Inodes are used again and the kernel's clock
// may stand still for 4 ms, so that alone could repeat; but the nanoseconds
// are drawn at random by stamp, and two versions collide by chance of 1 in
// 10^9, given the same inode, size and second. The change time is left out: it
// moves whenever a link is made or removed, while the object stays the same.
func etag(st *unix.Stat_t) string {
	sec, nsec := st.Mtim.Unix()
	b := strconv.AppendUint(nil, st.Ino, 16)
	b = append(b, '-')
	b = strconv.AppendInt(b, st.Size, 16)
	b = append(b, '-')
	b = strconv.AppendInt(b, sec, 16)
	b = append(b, '.')
	b = strconv.AppendInt(b, nsec, 16)
	return string(b)
}

func openat(dir int, name string, flags int, mode uint32) (int, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

// retry repeats a system call that a signal interrupted: the runtime's own
// signals do that on some network file systems.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
