package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/ignore"
)

// Rules decide what is left out of one directory. Values are immutable: they
// are used by many goroutines.
type Rules interface {
	// Enter returns the rules of the directory called name inside of the one that
	// these rules are for; an empty name stands for the root. After an error the
	// directory is kept empty and reported as unreadable, since to go on without
	// its rules would store what they exclude; at the root the walk fails.
	Enter(name string, read ReadFile) (Rules, error)
	// Excluded reports whether the entry is left out, and by which rule.
	Excluded(name string, isDir bool) (rule string, excluded bool)
}

// ReadFile returns the content of a regular file in the directory that is being
// entered, at most one byte more than [ignore.MaxFile] of it. The name may have
// several components; symbolic links are not followed in it. What does not
// exist or is not a regular file is fs.ErrNotExist. It is valid during Enter.
type ReadFile func(name string) ([]byte, error)

// enterRules replaces the rules of the parent, which d has so far.
func (w *worker) enterRules(d *dir, fd int) error {
	if d.rules == nil {
		return nil
	}
	rules, err := d.rules.Enter(d.name, func(name string) ([]byte, error) {
		first, _, _ := strings.Cut(name, "/")
		if !d.list.has(first) {
			return nil, fs.ErrNotExist
		}
		return readBeneath(fd, name, ignore.MaxFile+1)
	})
	if err == nil {
		d.rules = rules
	}
	return err
}

// readBeneath reads up to limit bytes of a regular file below a directory.
func readBeneath(dirfd int, name string, limit int64) ([]byte, error) {
	dir, rest, nested := strings.Cut(name, "/")
	if nested {
		fd, err := openRetry(dirfd, dir, dirFlags)
		if err != nil {
			return nil, notThere(err)
		}
		defer unix.Close(fd)
		return readBeneath(fd, rest, limit)
	}
	st, err := fstatat(dirfd, name)
	if err == nil && st.kind() != manifest.File {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	fd, err := openat(dirfd, name, fileFlags, st.UID)
	if err != nil {
		return nil, notThere(err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if now, err := fstat(fd); err != nil || !now.sameFile(&st) {
		return nil, errors.Join(fmt.Errorf("%q was replaced", name), err)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// notThere takes what is no file or no directory for nothing.
func notThere(err error) error {
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return fs.ErrNotExist
	}
	return err
}

// skipTaggedCache reduces the list of a directory that is tagged as a cache to
// the tag.
func (w *worker) skipTaggedCache(d *dir, fd int) {
	if !w.walk.opts.SkipTaggedCaches || d.parent == nil || !d.list.has(ignore.CacheDirTag) {
		return
	}
	header, err := readBeneath(fd, ignore.CacheDirTag, 64)
	if err != nil || !ignore.IsCacheDirTag(header) {
		return
	}
	w.report(d.path(), manifest.Excluded, ignore.CacheDirTag)
	d.list = &listing{
		block: ignore.CacheDirTag,
		names: []listed{{len: uint16(len(ignore.CacheDirTag)), typ: unix.DT_UNKNOWN}},
	}
}
