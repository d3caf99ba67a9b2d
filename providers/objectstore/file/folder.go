package file

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// openParent opens the folder in which the object of a key lies, one component
// at a time from the root, so that no symbolic link is followed. ErrNotExist
// if a folder is missing or an object has its name.
func (s *Store) openParent(key string) (*os.File, string, error) {
	folders, name := splitKey(key)
	folder, err := s.openFolder(folders)
	return folder, name, err
}

func (s *Store) openFolder(names []string) (*os.File, error) {
	folder, err := enter(s.root, ".")
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		parent := folder
		folder, err = enter(parent, name)
		parent.Close()
	}
	return folder, err
}

// enter opens a subfolder.
func enter(parent *os.File, name string) (*os.File, error) {
	path := pathIn(parent, name)
	fd, err := openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		// An object with the name of a folder means that there is nothing
		// below it; anything else that is no folder is refused.
		if _, err := statObject(parent, name); err != nil {
			return nil, err
		}
		return nil, objectstore.ErrNotExist
	}
	if err != nil {
		return nil, explain(path, notExist(err))
	}
	return os.NewFile(uintptr(fd), path), nil
}

// makeParent is openParent that makes the folders that are missing and sees to
// it that all of them will survive a power failure.
func (s *Store) makeParent(key string) (*os.File, string, error) {
	folders, name := splitKey(key)
	folder, err := enter(s.root, ".")
	for _, sub := range folders {
		if err != nil {
			return nil, "", err
		}
		parent := folder
		folder, err = s.enterOrMake(parent, sub)
		parent.Close()
	}
	return folder, name, err
}

func (s *Store) enterOrMake(parent *os.File, name string) (*os.File, error) {
	path := pathIn(parent, name)
	err := unix.Mkdirat(int(parent.Fd()), name, 0o777)
	if err != nil && err != unix.EEXIST {
		return nil, explain(path, err)
	}
	// A folder that another process made may not be durable yet.
	if err == nil || !s.made.has(path) {
		if err := syncFolder(parent); err != nil {
			return nil, err
		}
		s.made.add(path)
	}
	folder, err := enter(parent, name)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, explain(path, unix.ENOTDIR)
	}
	return folder, err
}

// settled remembers folders whose entry in their parent this Store has synced,
// so that a put into a known folder costs no sync of its ancestors. It forgets
// everything at 4096 folders, about half a megabyte: a sync too many is harmless.
type settled struct {
	mu    sync.Mutex // guards paths
	paths map[string]struct{}
}

func (s *settled) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.paths[path]
	return found
}

func (s *settled) add(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paths == nil || len(s.paths) >= 4096 {
		s.paths = make(map[string]struct{})
	}
	s.paths[path] = struct{}{}
}

// syncFolder makes the entries of a folder durable. File systems that cannot
// sync a folder (some FUSE and SMB mounts) answer EINVAL; nothing more can be
// done there.
func syncFolder(folder *os.File) error {
	err := folder.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return explain(folder.Name(), err)
}

// pathIn is the path of an entry, for messages.
func pathIn(folder *os.File, name string) string {
	if name == "." {
		return folder.Name()
	}
	return folder.Name() + "/" + name
}
