package restore

import (
	"context"
	"errors"
	"iter"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// Action is what a restore does to one path.
type Action uint8

// The actions.
const (
	Create   Action = iota + 1 // it is not there, or is of another kind
	Update                     // a file or link with other content
	Fix                        // only mode, owner, xattrs or mtime differ
	Link                       // becomes a hard link
	Delete                     // the snapshot lacks it
	Conflict                   // cannot be restored: see Reason
	Omit                       // left out by policy
)

var actionNames = [...]string{Create: "create", Update: "update", Fix: "meta", Link: "link", Delete: "delete", Conflict: "conflict", Omit: "skip"}

func (a Action) String() string {
	if int(a) < len(actionNames) && actionNames[a] != "" {
		return actionNames[a]
	}
	return "unknown"
}

// Change is one step of a plan.
type Change struct {
	Action Action
	Path   string // below the root
	Kind   manifest.EntryKind
	Bytes  uint64 // of content to write, or to delete
	Reason string // of a conflict or an omission
}

// Plan yields what Run would do, directory by directory, without doing it. Its
// memory is bounded as that of Run is; collect the changes to keep them. What
// Run would report as failed is yielded as a conflict. An error that would end
// Run is yielded once, last.
func Plan(ctx context.Context, src Source, snap Snapshot, opts Options) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		err := plan(ctx, src, snap, opts, func(c Change) bool { return yield(c, nil) })
		if err != nil && err != errEnough {
			yield(Change{}, err)
		}
	}
}

// errEnough ends a plan that nobody wants more of.
var errEnough = errors.New("enough")

func plan(ctx context.Context, src Source, snap Snapshot, opts Options, yield func(Change) bool) error {
	s, err := newSession(ctx, src, snap, opts)
	if err != nil {
		return err
	}
	root, err := unix.Open(opts.Target, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil && err != unix.ENOENT {
		return &Error{Op: "compare", Path: opts.Target, Err: err}
	}
	if err == nil {
		defer unix.Close(root)
		defer s.handles.close()
		s.root = newDir(nil, "", s.selection.whole)
		s.root.fd, s.root.users = root, 1
	}
	p := &planner{session: s, yield: yield}
	if err := s.walk(ctx, p); err != nil {
		return err
	}
	if err := p.links(ctx); err != nil {
		return err
	}
	for _, f := range s.rep.result.Failed {
		if err := p.say(Change{Action: Conflict, Path: f.Path, Reason: f.Err.Error()}); err != nil {
			return err
		}
	}
	return nil
}
