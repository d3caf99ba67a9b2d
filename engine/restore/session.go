package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// session is one run or plan.
type session struct {
	src       Source
	snap      Snapshot
	opts      Options
	rep       *report
	selection *selection
	rootEntry manifest.Entry
	links     *linkTable

	root    *dir // nil in a plan for a target that does not exist
	handles *handles
	place   *target // nil in a plan
	claims  claims
	// madeOnWay are directories that the first walk made on the way to chosen
	// paths. Only that walk writes to it.
	madeOnWay map[string]bool

	euid   int
	groups map[uint32]bool // of the process
	umask  uint32

	written  atomic.Uint64 // bytes of content
	files    atomic.Uint64 // written
	seen     atomic.Uint64 // entries
	extents  atomic.Uint64 // of files to write
	planned  atomic.Uint64 // bytes to write, if they are limited
	progress sync.Mutex    // held during a call of Options.Progress
}

// claims are the inodes with several names that were found to be right, each
// for one entry: two entries that are no hard links must not share one.
type claims struct {
	mu     sync.Mutex
	inodes map[inode]struct{}
}

func (s *session) claim(id inode) bool {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if _, taken := s.claims.inodes[id]; taken {
		return false
	}
	if s.claims.inodes == nil {
		s.claims.inodes = make(map[inode]struct{})
	}
	s.claims.inodes[id] = struct{}{}
	return true
}

// newSession reads the root of the snapshot and what the process may do.
func newSession(ctx context.Context, src Source, snap Snapshot, opts Options) (*session, error) {
	s := &session{src: src, snap: snap, opts: opts.withDefaults(), rep: new(report), madeOnWay: make(map[string]bool),
		handles: newHandles(maxIdle), euid: os.Geteuid(), umask: readUmask(), groups: map[uint32]bool{uint32(os.Getegid()): true}}
	groups, err := os.Getgroups()
	if err != nil {
		return nil, &Error{Op: "restore to", Path: opts.Target, Err: err}
	}
	for _, g := range groups {
		s.groups[uint32(g)] = true
	}
	if s.selection, err = parsePaths(opts.Paths); err != nil {
		return nil, err
	}
	node, err := src.Node(ctx, snap.Root)
	if err != nil {
		return nil, fmt.Errorf("read the root of the snapshot: %w", err)
	}
	if s.rootEntry, err = manifest.DecodeRoot(node); err != nil {
		return nil, fmt.Errorf("read the root of the snapshot: %w", err)
	}
	if err := s.selection.check(ctx, src.Node, s.rootEntry, opts.Paths); err != nil {
		return nil, err
	}
	return s, s.loadLinks(ctx)
}

// readUmask reads the umask without changing it, which would affect other
// threads. If it cannot be read, every bit counts as masked: that costs a
// chmod for each file.
func readUmask() uint32 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return permBits
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if value, ok := strings.CutPrefix(line, "Umask:"); ok {
			if mask, err := strconv.ParseUint(strings.TrimSpace(value), 8, 32); err == nil {
				return uint32(mask)
			}
		}
	}
	return permBits
}

// walk shows the chosen tree to v.
func (s *session) walk(ctx context.Context, v visitor) error {
	w := &walker{src: s.src, limits: s.opts.Limits, fail: s.rep.fail, visit: v}
	root := s.root
	if root == nil {
		root = newDir(nil, "", s.selection.whole)
		root.absent = true
	}
	return w.walk(ctx, root, &s.rootEntry, s.selection, 1)
}

// change runs fn on the descriptor of a directory that fn is going to change,
// and once more if the directory's own mode was in the way.
func (s *session) change(d *dir, fn func(dirfd int) error) error {
	if err := s.place.touch(); err != nil {
		return err
	}
	dirfd, err := s.handles.acquire(d)
	if err != nil {
		return err
	}
	defer s.handles.release(d)
	err = fn(dirfd)
	if err == unix.EACCES && s.euid != rootOwner && loosen(dirfd, s.euid) == nil {
		err = fn(dirfd)
	}
	return err
}

// rename moves a temporary file to its name, over what is there.
func (s *session) rename(d *dir, dirfd int, temp, name string) error {
	err := unix.Renameat(dirfd, temp, dirfd, name)
	if err != unix.EISDIR {
		return err
	}
	if err := s.clear(d, dirfd, name); err != nil {
		return err
	}
	return unix.Renameat(dirfd, temp, dirfd, name)
}

// clear removes a directory that is in the way, if it is empty or extra.
func (s *session) clear(d *dir, dirfd int, name string) error {
	err := unix.Unlinkat(dirfd, name, unix.AT_REMOVEDIR)
	switch {
	case err == unix.EBUSY:
		return ErrMount
	case err != unix.ENOTEMPTY && err != unix.EEXIST:
		return err
	case !s.deletes(d):
		return ErrConflict
	}
	removed, err := s.removeTree(dirfd, name)
	s.rep.add(func(r *Result) { r.Deleted += removed })
	return err
}

// failed records the failure of one entry, or returns it if it ends the run.
func (s *session) failed(ctx context.Context, op string, at place, err error) error {
	if err == nil {
		return nil
	}
	own := &Error{Op: op, Path: at.path(), Err: explain(err)}
	switch {
	case isFatal(ctx, err) && isLocal(err): // of the target as a whole
		return &Error{Op: "restore to", Path: s.opts.Target, Err: own}
	case isFatal(ctx, err):
		return own
	}
	s.rep.fail(own.Path, own)
	s.links.failed(own.Path, err)
	return nil
}

// fatal are the conditions under which going on makes no sense: every other
// file would fail too.
var fatal = []error{ErrLimit, ErrNoSpace, errNoMarker, unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EIO}

// isFatal tells whether an error ends the run. A blob that is lost, or a file
// that the target refuses, fails alone; a store that does not answer fails
// everything, and the run is better tried again.
func isFatal(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	for _, f := range fatal {
		if errors.Is(err, f) {
			return true
		}
	}
	return !fetch.Lost(err) && !isLocal(err)
}

// isLocal tells whether an error comes from the target.
func isLocal(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) || errors.Is(err, ErrConflict) || errors.Is(err, ErrMount) || errors.Is(err, ErrChanged) || errors.Is(err, errNoLeader)
}

// report tells Options.Progress how far the run is, unless another goroutine
// does so already.
func (s *session) report(at place) {
	if s.opts.Progress == nil || !s.progress.TryLock() {
		return
	}
	defer s.progress.Unlock()
	s.opts.Progress(Progress{Entries: s.seen.Load(), Files: s.files.Load(), Bytes: s.written.Load(), Current: at.path()})
}

// at marks a step for tests.
func (s *session) at(step, path string) {
	if s.opts.hook != nil {
		s.opts.hook(step, path)
	}
}
