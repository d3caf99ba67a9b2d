package file

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// List implements objectstore.Store. It reads one folder at a time, and only
// folders that can hold an object to yield: memory is bounded by the names of
// the largest folder, about 100 bytes each, on each level of the tree.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		l := listing{ctx: ctx, prefix: prefix, after: after, yield: yield}
		if err := l.run(s); err != nil && err != errStopped {
			yield(objectstore.Info{}, failed("list", prefix, err))
		}
	}
}

// errStopped says that the reader of a listing has had enough.
var errStopped = errors.New("listing stopped")

type listing struct {
	ctx    context.Context
	prefix string
	after  string
	yield  func(objectstore.Info, error) bool
}

// run starts in the innermost folder that holds everything with the prefix.
func (l *listing) run(s *Store) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	var names []string
	base := l.prefix[:strings.LastIndexByte(l.prefix, '/')+1]
	if base != "" {
		if objectstore.ValidKey(base[:len(base)-1]) != nil {
			return nil // no key starts like this
		}
		names = strings.Split(base[:len(base)-1], "/")
	}
	folder, err := s.openFolder(names)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer folder.Close()
	return l.walk(folder, base)
}

// walk yields what lies in one folder; base is its key with a slash, or empty.
//
// Entries are visited in the order of their keys, where a folder counts with
// its slash: "a-b" and "a.b" come before "a/", and "a0" behind it, as do the
// whole keys below it.
func (l *listing) walk(folder *os.File, base string) error {
	keys, err := l.entries(folder, base)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		name, isFolder := strings.CutSuffix(key[len(base):], "/")
		if isFolder {
			err = l.descend(folder, name, key)
		} else {
			err = l.object(folder, name, key)
		}
		// Deleted since the folder was read, or replaced by the other kind.
		if err != nil && !errors.Is(err, objectstore.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (l *listing) descend(parent *os.File, name, base string) error {
	folder, err := enter(parent, name)
	if err != nil {
		return err
	}
	defer folder.Close()
	return l.walk(folder, base)
}

func (l *listing) object(folder *os.File, name, key string) error {
	st, err := statObject(folder, name)
	if err != nil {
		return err
	}
	if !l.yield(infoOf(key, &st), nil) {
		return errStopped
	}
	return nil
}

// entries returns, sorted, the keys of the objects and subfolders that the
// listing asks for, those of subfolders with a slash at the end.
func (l *listing) entries(folder *os.File, base string) ([]string, error) {
	var keys []string
	for {
		batch, err := folder.ReadDir(1024)
		for _, entry := range batch {
			key := base + entry.Name()
			if entry.IsDir() {
				key += "/"
			}
			if !l.wants(key) || objectstore.ValidKey(base+entry.Name()) != nil {
				continue // the store's own names start with a dot
			}
			if !entry.IsDir() && entry.Type()&fs.ModeType != 0 {
				return nil, explain(pathIn(folder, entry.Name()), errIrregular)
			}
			keys = append(keys, key)
		}
		if err == io.EOF {
			break
		}
		if err == nil {
			err = l.ctx.Err()
		}
		if err != nil {
			return nil, explain(folder.Name(), err)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil // a name replaced meanwhile may be read twice
}

// wants says whether an object is asked for, or may be below a folder.
func (l *listing) wants(key string) bool {
	if strings.HasPrefix(key, l.prefix) && key > l.after {
		return true
	}
	if !strings.HasSuffix(key, "/") {
		return false
	}
	// Everything below the folder starts with key. Behind after is some of it
	// if after lies below the folder too, or if all of it is.
	reaches := key > l.after || strings.HasPrefix(l.after, key)
	related := strings.HasPrefix(key, l.prefix) || strings.HasPrefix(l.prefix, key)
	return reaches && related
}
