package file

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// errIrregular is about what stands in the way of an object or a folder. It
// is loud because nobody but an operator or an attacker can have put it there.
var errIrregular = errors.New("neither a file nor a folder, refused")

// errFolder says that a folder has the name of the object to put.
var errFolder = errors.New("a folder of objects has this name")

func failed(op, key string, err error) error {
	return &objectstore.Error{Op: op, Key: key, Err: err}
}

// explain adds the path to a system error, and the sentinel that callers know.
func explain(path string, err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		path, err = pathErr.Path, pathErr.Err
	}
	switch {
	case err == nil, errors.Is(err, objectstore.ErrNotExist):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w: %s: %w", objectstore.ErrNoSpace, path, err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: %s: %w", objectstore.ErrDenied, path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// notExist turns a missing directory entry into a missing object.
func notExist(err error) error {
	if err == unix.ENOENT {
		return objectstore.ErrNotExist
	}
	return err
}
