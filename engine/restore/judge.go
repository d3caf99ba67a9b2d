package restore

import (
	"context"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// verdict is what has to be done about an entry.
type verdict uint8

const (
	right    verdict = iota // nothing
	fix                     // set metadata
	rewrite                 // replace the content
	create                  // nothing is there, or something of another kind
	conflict                // a directory that may not be removed is in the way
)

var kindBits = [...]uint32{
	manifest.File: unix.S_IFREG, manifest.Dir: unix.S_IFDIR, manifest.Symlink: unix.S_IFLNK, manifest.FIFO: unix.S_IFIFO,
	manifest.Socket: unix.S_IFSOCK, manifest.CharDevice: unix.S_IFCHR, manifest.BlockDevice: unix.S_IFBLK,
}

// found is what stands where an entry belongs.
type found struct {
	st    unix.Stat_t
	there bool
}

func find(dirfd int, name string) (found, error) {
	st, ok, err := statAt(dirfd, name)
	return found{st, ok}, err
}

// judge compares an entry that is no directory with what was found in d.
//
// An inode with several names is never changed in place: it may be anybody's
// file. It is left alone if it is right and no other entry has it.
func (s *session) judge(ctx context.Context, d *dir, dirfd int, e *manifest.Entry, f found, known *KnownFile) (verdict, error) {
	switch {
	case !f.there:
		return create, nil
	case isKind(&f.st, unix.S_IFDIR):
		if s.deletes(d) || isEmptyDir(dirfd, e.Name) {
			return create, nil
		}
		return conflict, nil
	case !isKind(&f.st, kindBits[e.Kind]):
		return create, nil
	}
	same, err := s.sameThing(ctx, dirfd, e, &f.st, known)
	if err != nil || !same {
		return rewrite, err
	}
	ok, err := s.metaRight(stateOf(&f.st), nameIn(dirfd, e.Name), e)
	switch {
	case err != nil:
		return rewrite, err
	case f.st.Nlink > 1 && (!ok || !s.claim(inodeOf(&f.st))):
		return rewrite, nil
	case ok:
		return right, nil
	}
	return fix, nil
}

// sameThing tells whether something of the right kind is what the entry says,
// metadata apart.
func (s *session) sameThing(ctx context.Context, dirfd int, e *manifest.Entry, st *unix.Stat_t, known *KnownFile) (bool, error) {
	switch e.Kind {
	case manifest.File:
		return s.sameFile(ctx, dirfd, e, st, known)
	case manifest.Symlink:
		return readLink(dirfd, e.Name, len(e.Target)) == e.Target, nil
	case manifest.CharDevice, manifest.BlockDevice:
		return uint64(st.Rdev) == unix.Mkdev(e.Device.Major, e.Device.Minor), nil
	}
	return true, nil
}

// sameFile decides by size and mtime, as rsync does, unless something better
// is at hand. A file whose mtime differs is compared by content: reading it here
// costs less than fetching and writing it.
func (s *session) sameFile(ctx context.Context, dirfd int, e *manifest.Entry, st *unix.Stat_t, known *KnownFile) (bool, error) {
	is := stateOf(st)
	if uint64(st.Size) != e.Size {
		return false, nil
	}
	if !s.opts.Rescan && known != nil {
		if known.matches(st) {
			return sameExtents(known.Content, e.Content), nil
		}
		return s.sameContent(ctx, dirfd, e)
	}
	if !s.opts.Rescan && is.mtime == e.MTime {
		return true, nil
	}
	return s.sameContent(ctx, dirfd, e)
}

func (k *KnownFile) matches(st *unix.Stat_t) bool {
	return k.Inode == st.Ino && k.Size == uint64(st.Size) && k.MTime == stateOf(st).mtime &&
		k.CTime == manifest.Time{Sec: st.Ctim.Sec, Nsec: uint32(st.Ctim.Nsec)}
}

func sameExtents(a, b manifest.Content) bool {
	if a.List != b.List || len(a.Extents) != len(b.Extents) {
		return false
	}
	for i := range a.Extents {
		if a.Extents[i] != b.Extents[i] {
			return false
		}
	}
	return true
}

// deletes tells whether what is extra in d is to be removed.
func (s *session) deletes(d *dir) bool { return s.opts.Delete && d.whole }

// readLink returns the target of a symlink, cut behind length+1 bytes; empty if
// it cannot be read.
func readLink(dirfd int, name string, length int) string {
	buf := make([]byte, length+1)
	n, err := unix.Readlinkat(dirfd, name, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

func isEmptyDir(dirfd int, name string) bool {
	fd, err := openDir(dirfd, name)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	for range dirNames(fd) {
		return false
	}
	return true
}

// Names that a restore uses for itself.
const (
	markerName    = manifest.RestoreMarker
	partialMiddle = ".snapctl-partial-"
)

func isTemp(name string) bool { return manifest.IsRestoreTemp(name) }
