package restore

import (
	"context"
	"fmt"

	"github.com/snapctl/snapctl/engine/manifest"
)

// Run restores a snapshot and says what it did. A *PartialError comes with a
// complete result: everything else is restored. After any other error the
// target is incomplete, and running again goes on where it ended.
func Run(ctx context.Context, src Source, snap Snapshot, opts Options) (Result, error) {
	s, err := newSession(ctx, src, snap, opts)
	if err != nil {
		return Result{}, err
	}
	if s.place, err = openTarget(snap, opts, s.euid); err != nil {
		return Result{}, err
	}
	defer s.place.close()
	defer s.handles.close()
	if err := s.openRoot(); err != nil {
		return Result{}, err
	}
	err = s.run(ctx)
	s.rep.result.WrittenBytes = s.written.Load()
	if err != nil {
		return s.rep.result, err
	}
	return s.rep.finish()
}

func (s *session) run(ctx context.Context) error {
	if err := s.checkFits(ctx); err != nil {
		return err
	}
	if err := s.fill(ctx); err != nil {
		return err
	}
	if err := s.makeLinks(ctx); err != nil {
		return err
	}
	if err := s.finish(ctx); err != nil {
		return err
	}
	return s.publish()
}

// openRoot makes the root directory of the session from its target.
func (s *session) openRoot() error {
	st, err := object{fd: s.place.root}.stat()
	if err != nil {
		return &Error{Op: "restore to", Path: s.opts.Target, Err: err}
	}
	s.root = newDir(nil, "", s.selection.whole)
	s.root.fd, s.root.id, s.root.users = s.place.root, inodeOf(&st), 1
	s.root.private, s.root.owner = s.place.pristine, owner{st.Uid, st.Gid}
	if s.place.build != nil {
		s.opts.Delete = true // what a killed run left there is nobody's
	}
	return nil
}

// publish makes the restored tree visible under its name.
func (s *session) publish() error {
	if s.opts.Sync {
		if err := s.place.sync(); err != nil {
			return &Error{Op: "sync", Path: s.opts.Target, Err: explain(err)}
		}
	}
	s.at("publish", s.opts.Target)
	if err := s.place.publish(); err != nil {
		return &Error{Op: "rename the restored tree to", Path: s.opts.Target, Err: explain(err)}
	}
	if s.opts.Sync {
		if err := s.place.sync(); err != nil {
			return &Error{Op: "sync", Path: s.opts.Target, Err: explain(err)}
		}
	}
	return nil
}

// checkFits fails before anything is written if the whole snapshot cannot fit
// into a new target. Over an existing tree only a comparison could tell, so
// there each batch is checked when it is about to be written.
func (s *session) checkFits(ctx context.Context) error {
	free, ok := s.place.free()
	if !s.place.pristine || !ok || s.snap.Bytes > 0 && s.snap.Bytes <= free {
		return nil
	}
	m := &measure{session: s, free: free}
	return s.walk(ctx, m)
}

// measure adds up the content of a tree, holes left out, until it is more than
// what is free.
type measure struct {
	*session
	free, bytes uint64
}

func (m *measure) enter(context.Context, *dir, *manifest.Entry) error { return nil }

func (m *measure) entry(ctx context.Context, d *dir, e *manifest.Entry) error {
	if e.Kind != manifest.File || m.links.isMember(place{d, e.Name}) {
		return nil
	}
	for x, err := range manifest.ReadContent(ctx, m.src.Node, e) {
		if err != nil {
			return m.failed(ctx, "read", place{d, e.Name}, err)
		}
		if x.Hole() {
			continue
		}
		if x.Length > m.free-m.bytes {
			return &Error{Op: "write to", Path: m.opts.Target, Err: fmt.Errorf("%w: the snapshot holds more than the %d bytes that are free", ErrNoSpace, m.free)}
		}
		m.bytes += x.Length
	}
	return nil
}

func (m *measure) listed(context.Context, *dir) error { return nil }

func (m *measure) leave(context.Context, *dir, *manifest.Entry) error { return nil }
