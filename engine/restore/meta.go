package restore

import (
	"context"
	"fmt"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

const (
	setIDs    = unix.S_ISUID | unix.S_ISGID
	modeBits  = 0o7777
	permBits  = 0o777
	dirMode   = 0o700 // of a directory while it is filled
	tempMode  = 0o600 // of a file in a directory that others may enter
	rootOwner = 0
)

// state is the metadata that a file has.
type state struct {
	owner  owner
	mode   uint32
	mtime  manifest.Time
	isNew  bool // written by this run: the mtime is to be set in any case
	noAttr bool // known to have no xattrs
}

func stateOf(st *unix.Stat_t) state {
	return state{
		owner: owner{st.Uid, st.Gid},
		mode:  st.Mode & modeBits,
		mtime: manifest.Time{Sec: st.Mtim.Sec, Nsec: uint32(st.Mtim.Nsec)},
	}
}

// storedOwner is the owner of an entry, mapped to this host.
func (s *session) storedOwner(e *manifest.Entry) owner {
	if s.opts.MapOwner == nil {
		return owner{e.UID, e.GID}
	}
	uid, gid := s.opts.MapOwner(e.UID, e.GID)
	return owner{uid, gid}
}

// setsOwner tells whether owners are restored at all.
func (s *session) setsOwner() bool {
	return s.opts.Owner == OwnerStored || s.opts.Owner == OwnerAuto && s.euid == rootOwner
}

// modeFor is the mode that an entry gets if it belongs to has. Setuid and
// setgid bits are for the stored owner only: under another one they would
// hand out somebody else's rights. The kernel drops the setgid bit without a
// word if the caller is neither privileged nor in the group; expecting that
// keeps the next run from setting it again.
func (s *session) modeFor(e *manifest.Entry, has owner) uint32 {
	mode := e.Mode & modeBits
	if e.Kind != manifest.Dir && (!s.opts.Privileged || has != s.storedOwner(e)) {
		mode &^= setIDs
	}
	if s.euid != rootOwner && !s.groups[has.gid] {
		mode &^= unix.S_ISGID
	}
	return mode
}

// metaRight tells whether a file has the owner, mode, mtime and xattrs of its
// entry. Privileges that the file has already are not taken away if the
// snapshot gives them too.
func (s *session) metaRight(is state, r xattrReader, e *manifest.Entry) (bool, error) {
	if s.setsOwner() && is.owner != s.storedOwner(e) || is.mtime != e.MTime {
		return false, nil
	}
	granted := is.owner == s.storedOwner(e) && is.mode == e.Mode&modeBits
	if e.Kind != manifest.Symlink && !granted && is.mode != s.modeFor(e, is.owner) {
		return false, nil
	}
	p, err := s.planXattrs(r, e)
	return err == nil && len(p.steps) == 0, err
}

// apply gives a file the metadata of its entry: owner, xattrs, mode, times, in
// that order, because a change of owner clears capabilities and setuid bits,
// and a change of the ACL changes the mode. What is right already is not set
// again, so that ctime stays. An *attrError means that all the rest is set.
func (s *session) apply(ctx context.Context, o object, is state, e *manifest.Entry, at place) error {
	is, err := s.applyOwner(o, is, e, at)
	is, xerr := s.applyXattrs(ctx, o, is, e, at)
	if err == nil {
		err = xerr
	}
	if err != nil && !isAttr(err) {
		return err
	}
	if merr := s.applyMode(o, is, e, at); merr != nil && err == nil {
		err = merr
	}
	if is.isNew || is.mtime != e.MTime {
		if terr := o.setTime(e.MTime); terr != nil && err == nil {
			err = &attrError{"set mtime", terr}
		}
	}
	return err
}

func (s *session) applyOwner(o object, is state, e *manifest.Entry, at place) (state, error) {
	want := s.storedOwner(e)
	if !s.setsOwner() || is.owner == want {
		return is, nil
	}
	err := o.chown(want)
	switch {
	case err == nil:
		is.owner = want
		if e.Kind != manifest.Dir {
			is.mode &^= setIDs
		}
		return is, nil
	case s.opts.Owner == OwnerAuto && (err == unix.EPERM || err == unix.EINVAL):
		// Root of a container that may not give files away.
		s.rep.skip(at.path(), fmt.Sprintf("owner %d:%d: %v", want.uid, want.gid, err))
		return is, nil
	}
	return is, &attrError{fmt.Sprintf("set owner %d:%d", want.uid, want.gid), err}
}

func (s *session) applyXattrs(ctx context.Context, o object, is state, e *manifest.Entry, at place) (state, error) {
	if is.noAttr && len(e.Xattrs) == 0 {
		return is, nil
	}
	p, err := s.planXattrs(o, e)
	// Even its owner may read and set user attributes only as the mode says.
	const readWrite = unix.S_IRUSR | unix.S_IWUSR
	if err == nil && len(p.steps) > 0 && s.euid != rootOwner && is.mode&readWrite != readWrite && e.Kind != manifest.Symlink {
		if err = o.chmod(is.mode | readWrite); err == nil {
			is.mode |= readWrite
			p, err = s.planXattrs(o, e)
		}
	}
	if err != nil {
		return is, &attrError{"read xattrs", err}
	}
	for _, name := range p.refused {
		s.rep.skip(at.path(), "xattr "+name+" needs the permission to restore privileges")
	}
	aclSet, err := s.setXattrs(ctx, o, p.steps)
	if aclSet {
		st, serr := o.stat()
		if serr != nil {
			return is, serr
		}
		is.mode = st.Mode & modeBits
	}
	return is, err
}

func (s *session) applyMode(o object, is state, e *manifest.Entry, at place) error {
	if e.Kind == manifest.Symlink {
		return nil
	}
	want := s.modeFor(e, is.owner)
	if want != e.Mode&modeBits {
		s.rep.skip(at.path(), fmt.Sprintf("mode %04o instead of %04o: no setuid or setgid bit", want, e.Mode&modeBits))
	}
	if is.mode == want {
		return nil
	}
	if err := o.chmod(want); err != nil {
		return &attrError{fmt.Sprintf("set mode %04o", want), err}
	}
	return nil
}
