package index

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// lockFile opens the file, made if needed, and locks it until it is closed, or
// until the process ends. ErrBusy says that it is locked already. The lock is
// one of flock(2): it belongs to the open file, so it also excludes others in
// this process.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrBusy
	}
	return nil, err
}

// isEnvironment reports whether a database could not be opened for a reason
// that discarding it would not help against.
func isEnvironment(err error) bool {
	if errors.Is(err, fs.ErrPermission) {
		return true
	}
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ENOENT
}

const (
	privatePrefix = "private-"
	lockSuffix    = ".lock"
)

// OpenPrivate makes an empty index in a new directory below parent, for a
// process that finds the shared one busy. Close removes it. What processes left
// there that died is removed first.
func OpenPrivate(parent, repositoryID string, opts Options) (*DB, error) {
	db, err := openPrivate(parent, repositoryID, opts)
	if err != nil {
		return nil, &Error{Op: "open private index", Object: parent, Err: err}
	}
	return db, nil
}

func openPrivate(parent, repositoryID string, opts Options) (*DB, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	if err := removeLeftovers(parent); err != nil {
		return nil, err
	}
	lock, err := lockNewDir(parent)
	if err != nil {
		return nil, err
	}
	remove := func() error { return removeLocked(lock) }
	db, err := open(vfs.Default, filepath.Join(privateDir(lock.Name()), "db"), repositoryID, tunePrivate(opts))
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	db.unlock = remove
	return db, nil
}

// A private directory D exists only while D.lock does and its maker, or
// whoever cleans up, holds the lock on it: the directory is made after the
// lock was taken, and removed before the lock file.

func privateDir(lockPath string) string { return strings.TrimSuffix(lockPath, lockSuffix) }

// lockNewDir makes and locks the lock file of a new private directory.
func lockNewDir(parent string) (*os.File, error) {
	for range 100 {
		lock, err := lockFile(filepath.Join(parent, privatePrefix+rand.Text()+lockSuffix))
		if errors.Is(err, ErrBusy) {
			continue // a cleaner got hold of it before we did
		}
		if err != nil {
			return nil, err
		}
		if stillThere(lock) {
			return lock, nil
		}
		lock.Close() // a cleaner removed it before we locked it
	}
	return nil, fmt.Errorf("%w: cannot keep a lock file", ErrBusy)
}

func stillThere(f *os.File) bool {
	held, err1 := f.Stat()
	named, err2 := os.Stat(f.Name())
	return err1 == nil && err2 == nil && os.SameFile(held, named)
}

func removeLeftovers(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), privatePrefix) || !strings.HasSuffix(e.Name(), lockSuffix) {
			continue
		}
		lock, err := lockFile(filepath.Join(parent, e.Name()))
		if errors.Is(err, ErrBusy) {
			continue
		}
		if err != nil {
			return err
		}
		if err := removeLocked(lock); err != nil {
			return err
		}
	}
	return nil
}

func removeLocked(lock *os.File) error {
	err := os.RemoveAll(privateDir(lock.Name()))
	if err == nil {
		err = os.Remove(lock.Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, lock.Close())
}
