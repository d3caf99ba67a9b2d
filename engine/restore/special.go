package restore

import (
	"cmp"
	"context"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// omitted is why an entry is left out by policy; empty if it is not.
func (s *session) omitted(e *manifest.Entry) string {
	device := e.Kind == manifest.CharDevice || e.Kind == manifest.BlockDevice
	switch {
	case e.Kind == manifest.File || e.Kind == manifest.Dir || e.Kind == manifest.Symlink:
		return ""
	case s.opts.Special == SpecialNone, device && s.opts.Special != SpecialAll:
		return e.Kind.String() + " left out by policy"
	}
	return ""
}

// settleSpecial restores a symlink, FIFO, socket or device.
func (s *session) settleSpecial(ctx context.Context, at place, dirfd int, e *manifest.Entry, lead *leader) error {
	if reason := s.omitted(e); reason != "" {
		s.rep.skip(at.path(), reason)
		if lead != nil {
			lead.omitted = reason
		}
		return nil
	}
	return s.settle(ctx, at, dirfd, e, lead, nil, func(v verdict) error {
		id, err := s.makeSpecial(ctx, at, e)
		if err == nil || isAttr(err) {
			s.tally(v)
			if lead != nil {
				lead.inode = id
			}
		}
		return s.failed(ctx, "make", at, err)
	})
}

// makeSpecial makes the thing under a temporary name, gives it its metadata by
// descriptor, and moves it to its own.
func (s *session) makeSpecial(ctx context.Context, at place, e *manifest.Entry) (id inode, err error) {
	s.at("special", e.Name)
	err = s.change(at.dir, func(dirfd int) error {
		temp := tempName()
		if err := makeNode(dirfd, temp, e); err != nil {
			return err
		}
		var attrErr error
		id, attrErr = s.finishSpecial(ctx, dirfd, temp, e, at)
		if attrErr != nil && !isAttr(attrErr) {
			unix.Unlinkat(dirfd, temp, 0)
			return attrErr
		}
		if err := s.rename(at.dir, dirfd, temp, e.Name); err != nil {
			unix.Unlinkat(dirfd, temp, 0)
			return err
		}
		return attrErr
	})
	return id, err
}

func makeNode(dirfd int, name string, e *manifest.Entry) error {
	if e.Kind == manifest.Symlink {
		return unix.Symlinkat(e.Target, dirfd, name)
	}
	return unix.Mknodat(dirfd, name, kindBits[e.Kind]|tempMode, int(unix.Mkdev(e.Device.Major, e.Device.Minor)))
}

// finishSpecial sets the metadata of what makeNode made, if it still is that.
func (s *session) finishSpecial(ctx context.Context, dirfd int, temp string, e *manifest.Entry, at place) (inode, error) {
	s.at("node", e.Name)
	o, st, err := openPath(dirfd, temp)
	if err != nil {
		return inode{}, err
	}
	defer o.close()
	if ours, err := s.isOurs(dirfd, temp, e, &st); err != nil || !ours {
		return inode{}, cmp.Or(err, ErrChanged)
	}
	is := stateOf(&st)
	is.isNew = true
	return inodeOf(&st), s.apply(ctx, o, is, e, at)
}

// isOurs tells whether st, an open inode, is what makeNode made under the name
// temp, and not something that somebody linked there meanwhile.
//
// One name in all is not enough: it may be the victim's own, if the link to it
// was removed again between open and fstat. So the name must still lead there.
func (s *session) isOurs(dirfd int, temp string, e *manifest.Entry, st *unix.Stat_t) (bool, error) {
	named, there, err := statAt(dirfd, temp)
	if err != nil {
		return false, err
	}
	alone := st.Nlink == 1 && there && named.Nlink == 1 && inodeOf(&named) == inodeOf(st)
	return alone && isKind(st, kindBits[e.Kind]) && st.Uid == s.place.self, nil
}
