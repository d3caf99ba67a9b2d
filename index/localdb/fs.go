package localdb

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the filesystem of a database. Its first operation that fails to
// write anything stops it: from then on it changes nothing on the disk, and all
// writes seem to succeed. To the files that is a crash at that moment, which the
// next Open recovers from. To Pebble nothing happened: it ends the process, or
// goes wrong, when it cannot write its log or manifest, as on a full disk. What
// it still does is lost, but Failure.Catch, around every use of it, sees to it
// that nobody is told otherwise.
//
// The directory is locked already, by Open: Pebble's own lock would only add
// ways to fail.
type FS struct {
	vfs.FS
	failed *Failure
}

// NewFS returns a filesystem that fails with the database.
func NewFS(fs vfs.FS, failed *Failure) *FS { return &FS{fs, failed} }

func (s *FS) stopped() bool {
	select {
	case <-s.failed.happened:
		return true
	default:
		return false
	}
}

// change runs fn unless the filesystem has stopped, and stops it if fn fails.
func (s *FS) change(fn func() error) {
	if s.stopped() {
		return
	}
	if err := fn(); err != nil {
		s.failed.set(fmt.Errorf("%w: write: %w", ErrFailed, err), 0)
	}
}

// Lock does nothing.
func (s *FS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (s *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return s.file(func() (vfs.File, error) { return s.FS.Create(name, category) })
}

func (s *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return s.file(func() (vfs.File, error) { return s.FS.OpenReadWrite(name, category, opts...) })
}

func (s *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return s.file(func() (vfs.File, error) { return s.FS.ReuseForWrite(oldname, newname, category) })
}

// file makes a file for writing, or one that loses everything.
func (s *FS) file(open func() (vfs.File, error)) (f vfs.File, err error) {
	s.change(func() error { f, err = open(); return err })
	if f == nil {
		if f, err = vfs.NewMem().Create("lost", vfs.WriteCategoryUnspecified); err != nil {
			return nil, err
		}
	}
	return &file{f, s}, nil
}

func (s *FS) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{f, s}, nil
}

func (s *FS) Link(oldname, newname string) error {
	s.change(func() error { return s.FS.Link(oldname, newname) })
	return nil
}

// Remove does not stop for a file that is not there: Pebble asks.
func (s *FS) Remove(name string) (err error) {
	s.change(func() error {
		if err = s.FS.Remove(name); errors.Is(err, iofs.ErrNotExist) {
			return nil
		}
		return err
	})
	if s.stopped() {
		return nil
	}
	return err
}

func (s *FS) RemoveAll(name string) error {
	s.change(func() error { return s.FS.RemoveAll(name) })
	return nil
}

func (s *FS) Rename(oldname, newname string) error {
	s.change(func() error { return s.FS.Rename(oldname, newname) })
	return nil
}

func (s *FS) MkdirAll(dir string, perm os.FileMode) error {
	s.change(func() error { return s.FS.MkdirAll(dir, perm) })
	return nil
}

// file is a file that is written, or a directory that is synced.
type file struct {
	vfs.File
	fs *FS
}

func (f *file) Write(p []byte) (int, error) {
	f.fs.change(func() error { _, err := f.File.Write(p); return err })
	return len(p), nil
}

func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	f.fs.change(func() error { _, err := f.File.WriteAt(p, offset); return err })
	return len(p), nil
}

func (f *file) Preallocate(offset, length int64) error {
	f.fs.change(func() error { return f.File.Preallocate(offset, length) })
	return nil
}

func (f *file) Sync() error {
	f.fs.change(f.File.Sync)
	return nil
}

func (f *file) SyncData() error {
	f.fs.change(f.File.SyncData)
	return nil
}

func (f *file) SyncTo(length int64) (fullSync bool, err error) {
	f.fs.change(func() error { fullSync, err = f.File.SyncTo(length); return err })
	return fullSync, nil
}

// Close closes the file even if the filesystem has stopped.
func (f *file) Close() error {
	if err := f.File.Close(); err != nil {
		f.fs.change(func() error { return err })
	}
	return nil
}
