// Package file keeps objects as files below a directory, one file per object,
// with the key as its path. It gives every guarantee of the contract on a
// local file system; [Store.FilesystemType] tells when the directory is not on
// one.
//
// An object is written to a temporary file in the folder .tmp, synced, and
// only then renamed or linked to its name; the folders on the way are synced
// before Put returns. Names that start with a dot are the store's own: .tmp,
// and .lock, whose flock makes compare-and-swap atomic among all processes.
//
// Symbolic links below the directory are never followed. One in place of an
// object or of a folder is an error, not an absent object: taking it for
// absent would let a collector believe that data is gone.
//
// Delete leaves empty folders behind.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Store is an objectstore.Store in a directory. It is safe for concurrent use,
// by any number of Stores in any number of processes on one machine. It holds
// one descriptor, of the directory itself: a file system that is mounted there
// stays mounted.
type Store struct {
	root *os.File
	made settled
}

// Open returns the store in an existing directory.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open object directory: %w", err)
	}
	fd, err := openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open object directory: %w", &os.PathError{Op: "open", Path: dir, Err: err})
	}
	return &Store{root: os.NewFile(uintptr(fd), dir)}, nil
}

// Create makes the directory, with missing parents, and opens it. A directory
// that exists is opened as it is. A new one is private to its owner (mode
// 0700); whoever wants to share it changes that one mode, since everything
// below is made with the modes that the umask allows.
func Create(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("create object directory: %w", err)
	}
	if err := makeAll(dir); err != nil {
		return nil, fmt.Errorf("create object directory: %w", err)
	}
	return Open(dir)
}

// makeAll is os.MkdirAll that syncs every folder in which it made one.
func makeAll(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, os.ErrNotExist) {
		if err := makeAll(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, os.ErrExist) {
		return nil // Open tells whether it is a directory
	}
	if err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	return syncFolder(parent)
}

// Close releases the descriptor of the directory. Readers that Get returned
// stay usable, the store does not.
func (s *Store) Close() error { return s.root.Close() }

// Stat implements objectstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	st, err := s.stat(ctx, key)
	if err != nil {
		return objectstore.Info{}, failed("stat", key, err)
	}
	return infoOf(key, &st), nil
}

func (s *Store) stat(ctx context.Context, key string) (unix.Stat_t, error) {
	if err := check(ctx, key); err != nil {
		return unix.Stat_t{}, err
	}
	folder, name, err := s.openParent(key)
	if err != nil {
		return unix.Stat_t{}, err
	}
	defer folder.Close()
	return statObject(folder, name)
}

// Delete implements objectstore.Store. It syncs the folder: what was deleted
// does not come back after a power failure.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := s.delete(ctx, key); err != nil && !errors.Is(err, objectstore.ErrNotExist) {
		return failed("delete", key, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, key string) error {
	if err := check(ctx, key); err != nil {
		return err
	}
	folder, name, err := s.openParent(key)
	if err != nil {
		return err
	}
	defer folder.Close()
	if _, err := statObject(folder, name); err != nil {
		return err
	}
	if err := s.unlink(ctx, folder, name); err != nil {
		return err
	}
	return syncFolder(folder)
}

func (s *Store) unlink(ctx context.Context, folder *os.File, name string) error {
	lock, err := s.lock(ctx, shared)
	if err != nil {
		return err
	}
	defer lock.Close()
	return explain(pathIn(folder, name), notExist(unix.Unlinkat(int(folder.Fd()), name, 0)))
}

// Get implements objectstore.Store. The reader goes on reading the object that
// it was opened on, whatever happens to the key.
func (s *Store) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	reader, err := s.get(ctx, key, r)
	if err != nil {
		return nil, failed("get", key, err)
	}
	return reader, nil
}

func (s *Store) get(ctx context.Context, key string, r objectstore.Range) (*reader, error) {
	if err := check(ctx, key); err != nil {
		return nil, err
	}
	folder, name, err := s.openParent(key)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	file, size, err := openObject(folder, name)
	if err != nil {
		return nil, err
	}
	r, err = r.Within(size)
	if err != nil {
		file.Close()
		return nil, err
	}
	return &reader{ctx: ctx, key: key, file: file, offset: r.Offset, left: r.Length}, nil
}

func check(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return objectstore.ValidKey(key)
}

// splitKey cuts a key into the folders on its way and its name.
func splitKey(key string) (folders []string, name string) {
	parts := strings.Split(key, "/")
	return parts[:len(parts)-1], parts[len(parts)-1]
}
