package file

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Put implements objectstore.Store. It costs one sync of the file and one of
// its folder, and one more for each new folder on the way.
func (s *Store) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	info, err := s.put(ctx, key, body, opts)
	if err != nil {
		return objectstore.Info{}, failed("put", key, err)
	}
	return info, nil
}

func (s *Store) put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if err := check(ctx, key); err != nil {
		return objectstore.Info{}, err
	}
	if err := opts.Validate(); err != nil {
		return objectstore.Info{}, err
	}
	temp, err := s.newTemp()
	if err != nil {
		return objectstore.Info{}, err
	}
	defer temp.discard()
	st, err := temp.fill(ctx, body)
	if err != nil {
		return objectstore.Info{}, err
	}
	folder, name, err := s.makeParent(key)
	if err != nil {
		return objectstore.Info{}, err
	}
	defer folder.Close()
	err = s.publish(ctx, temp, folder, name, opts)
	// After ErrExist too: the object may be our own, from before a crash that
	// came between link and sync, and the caller may rely on it now.
	if err != nil && !errors.Is(err, objectstore.ErrExist) {
		return objectstore.Info{}, err
	}
	if err := syncFolder(folder); err != nil {
		return objectstore.Info{}, err
	}
	return infoOf(key, &st), err
}

// publish gives the temporary file its name.
func (s *Store) publish(ctx context.Context, temp *tempFile, folder *os.File, name string, opts objectstore.PutOptions) error {
	if opts.IfAbsent {
		return temp.link(folder, name)
	}
	mode := shared
	if opts.IfMatch != "" {
		mode = exclusive
	}
	lock, err := s.lock(ctx, mode)
	if err != nil {
		return err
	}
	defer lock.Close()
	if opts.IfMatch != "" {
		if err := match(folder, name, opts.IfMatch); err != nil {
			return err
		}
	}
	return temp.rename(folder, name)
}

func match(folder *os.File, name, etagWanted string) error {
	st, err := statObject(folder, name)
	if errors.Is(err, objectstore.ErrNotExist) {
		return objectstore.ErrPrecondition
	}
	if err != nil {
		return err
	}
	if etag(&st) != etagWanted {
		return objectstore.ErrPrecondition
	}
	return nil
}

// rename replaces whatever has the name, except a folder.
func (t *tempFile) rename(folder *os.File, name string) error {
	err := unix.Renameat(int(t.folder.Fd()), t.name, int(folder.Fd()), name)
	if err == unix.EISDIR || err == unix.ENOTEMPTY || err == unix.EEXIST {
		err = errFolder
	}
	if err == nil {
		t.gone = true
	}
	return explain(pathIn(folder, name), err)
}

// link gives the file a second name if that is free; a plain rename would
// overwrite. File systems without hard links get an exclusive rename.
func (t *tempFile) link(folder *os.File, name string) error {
	err := unix.Linkat(int(t.folder.Fd()), t.name, int(folder.Fd()), name, 0)
	if err == unix.EPERM || err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EMLINK {
		err = t.renameExclusively(folder, name)
	}
	if err == unix.EEXIST {
		return exists(folder, name)
	}
	return explain(pathIn(folder, name), err)
}

func (t *tempFile) renameExclusively(folder *os.File, name string) error {
	err := renameNoReplace(int(t.folder.Fd()), t.name, int(folder.Fd()), name)
	if err == nil {
		t.gone = true
	}
	return err
}

// exists tells what a put-if-absent ran into.
func exists(folder *os.File, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(folder.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return objectstore.ErrExist // it was there, and is deleted by now
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return explain(pathIn(folder, name), errFolder)
	}
	if err := regular(pathIn(folder, name), &st); err != nil {
		return err
	}
	return objectstore.ErrExist
}
