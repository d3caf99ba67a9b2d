package restore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// linkTable knows the hard links of a snapshot while its tree is walked. The
// first chosen path of a group leads: it is restored like any file, and the
// others are linked to its inode at the end. If the tree does not show it, the
// next one leads.
//
// Paths are kept as two 64-bit hashes with random seeds. A group of n paths
// takes about 90 + 40 (n-1) bytes.
type linkTable struct {
	seeds [2]maphash.Seed

	mu      sync.Mutex // guards the fields below while the tree is walked
	leaders map[linkKey]*leader
	members map[linkKey]bool // true once the path was met in the tree
}

type linkKey [2]uint64

// leader is the first path of a group.
type leader struct {
	inode   inode  // that this run wrote or compared; zero if it was not restored
	err     error  // why not; guarded by linkTable.mu
	omitted string // the policy that left it out
}

func newLinkTable() *linkTable {
	return &linkTable{
		seeds:   [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		leaders: make(map[linkKey]*leader),
		members: make(map[linkKey]bool),
	}
}

func (t *linkTable) key(path string) linkKey {
	return linkKey{maphash.String(t.seeds[0], path), maphash.String(t.seeds[1], path)}
}

// add enters a group. A path in two groups is damage.
func (t *linkTable) add(group []string) error {
	for i, path := range group {
		k := t.key(path)
		if _, member := t.members[k]; member || t.leaders[k] != nil {
			return fmt.Errorf("link list: %w: %q is in two groups", manifest.ErrDamaged, path)
		}
		if i == 0 {
			t.leaders[k] = new(leader)
		} else {
			t.members[k] = false
		}
	}
	return nil
}

// role tells whether the entry leads a group, or is to be linked to one.
func (t *linkTable) role(at place) (lead *leader, member bool) {
	if len(t.leaders) == 0 {
		return nil, false
	}
	k := t.key(at.path())
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, member = t.members[k]; member {
		t.members[k] = true
	}
	return t.leaders[k], member
}

// failed records why the leader at path, if there is one, was not restored.
func (t *linkTable) failed(path string, err error) {
	if lead := t.leaders[t.key(path)]; lead != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		lead.err = err
	}
}

// isMember tells whether the entry is to be linked to another one.
func (t *linkTable) isMember(at place) bool {
	if len(t.leaders) == 0 {
		return false
	}
	_, member := t.members[t.key(at.path())]
	return member
}

func (t *linkTable) met(path string) bool { return t.members[t.key(path)] }

// chosenLinks yields the groups cut to the chosen paths, in order.
func (s *session) chosenLinks(ctx context.Context, visit func(group []string) error) error {
	previous := ""
	paths := uint64(0)
	for group, err := range manifest.ReadLinks(ctx, s.src.Node, s.snap.Links) {
		if err != nil {
			return err
		}
		if group[0] <= previous {
			return fmt.Errorf("link list: %w: groups are not sorted", manifest.ErrDamaged)
		}
		previous = group[0]
		if paths += uint64(len(group)); paths > s.opts.Limits.MaxEntries {
			return fmt.Errorf("%w: more than %d hard links", ErrLimit, s.opts.Limits.MaxEntries)
		}
		chosen := make([]string, 0, len(group))
		for _, path := range group {
			if s.selection.has(path) {
				chosen = append(chosen, path)
			}
		}
		if len(chosen) < 2 {
			continue
		}
		if err := visit(chosen); err != nil {
			return err
		}
	}
	return nil
}

// loadLinks fills the table. Without a readable list files are restored one by
// one, which is reported.
func (s *session) loadLinks(ctx context.Context) error {
	s.links = newLinkTable()
	err := s.chosenLinks(ctx, s.links.add)
	if err == nil || isFatal(ctx, err) {
		return err
	}
	s.links = newLinkTable()
	s.rep.fail("", &Error{Op: "read the hard links of", Path: s.opts.Target, Err: err})
	return nil
}

// makeLinks links the members of all groups to their leaders.
func (s *session) makeLinks(ctx context.Context) error {
	if len(s.links.leaders) == 0 {
		return nil
	}
	return s.chosenLinks(ctx, func(group []string) error {
		lead := s.links.leaders[s.links.key(group[0])]
		if lead == nil {
			return nil
		}
		if lead.isMissing() {
			if group = s.links.present(group); len(group) == 0 {
				return nil
			}
			var err error
			if lead, err = s.promote(ctx, group[0]); err != nil {
				return err
			}
		}
		for _, path := range group[1:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !s.links.met(path) {
				continue // not in the tree, or in a directory that failed
			}
			if lead.omitted != "" {
				s.rep.skip(path, lead.omitted)
				continue
			}
			if err := s.failed(ctx, "link", s.placeOf(path), s.makeLink(group[0], lead, path)); err != nil {
				return err
			}
		}
		return nil
	})
}

// isMissing tells whether the leader was not met in the tree, as in a directory that
// cannot be read.
func (l *leader) isMissing() bool { return l.inode == (inode{}) && l.err == nil && l.omitted == "" }

// present are the members of a group from the first one on that was met in the tree.
func (t *linkTable) present(group []string) []string {
	for len(group) > 0 && !t.met(group[0]) {
		group = group[1:]
	}
	return group
}

// promote makes a member the leader of its group, and restores it like any file.
func (s *session) promote(ctx context.Context, path string) (*leader, error) {
	lead, at := new(leader), s.placeOf(path)
	s.links.leaders[s.links.key(path)] = lead
	e, err := manifest.Lookup(ctx, s.src.Node, s.rootEntry, path)
	if err != nil {
		return lead, s.failed(ctx, "look up", at, err)
	}
	dirfd, err := s.handles.acquire(at.dir)
	if err != nil {
		return lead, s.failed(ctx, "open directory", at, err)
	}
	defer s.done(at.dir)
	return lead, s.filling(ctx, func(ctx context.Context, f *filler) error {
		if e.Kind != manifest.File {
			return f.settleSpecial(ctx, at, dirfd, &e, lead)
		}
		return f.settle(ctx, at, dirfd, &e, lead, nil, func(v verdict) error { return f.start(ctx, at.dir, &e, lead, v) })
	})
}

// errNoLeader says that a file has nothing to be linked to.
var errNoLeader = errors.New("the first of its hard links was not restored")

// makeLink makes path a name of the inode that the leader has.
func (s *session) makeLink(leadPath string, lead *leader, path string) error {
	want := lead.inode
	if want == (inode{}) {
		return errors.Join(errNoLeader, lead.err)
	}
	from, to := s.placeOf(leadPath), s.placeOf(path)
	fromfd, err := s.handles.acquire(from.dir)
	if err != nil {
		return err
	}
	defer s.done(from.dir)
	tofd, err := s.handles.acquire(to.dir)
	if err != nil {
		return err
	}
	defer s.done(to.dir)
	st, ok, err := statAt(tofd, to.name)
	if err != nil {
		return err
	}
	if ok && inodeOf(&st) == want {
		s.rep.add(func(r *Result) { r.Unchanged++ })
		return nil
	}
	s.at("link", path)
	if err := s.change(to.dir, func(tofd int) error { return s.linkAt(fromfd, from.name, want, tofd, to) }); err != nil {
		return err
	}
	s.rep.add(func(r *Result) {
		if ok {
			r.Updated++
		} else {
			r.Created++
		}
	})
	return nil
}

// linkAt links under a temporary name first: only after the link is there can
// it be told which inode it names.
func (s *session) linkAt(fromfd int, fromName string, want inode, tofd int, to place) error {
	temp := tempName()
	if err := unix.Linkat(fromfd, fromName, tofd, temp, 0); err != nil {
		return err
	}
	s.at("linked", to.name)
	st, ok, err := statAt(tofd, temp)
	if err == nil && (!ok || inodeOf(&st) != want) {
		err = ErrChanged
	}
	if err == nil {
		err = s.rename(to.dir, tofd, temp, to.name)
	}
	if err != nil {
		unix.Unlinkat(tofd, temp, 0)
	}
	return err
}

// placeOf makes the directories on the way to a path below the root, unopened.
func (s *session) placeOf(path string) place {
	d := s.root
	for {
		name, rest, more := strings.Cut(path, "/")
		if !more {
			return place{d, name}
		}
		d, path = newDir(d, name, s.selection.whole), rest
	}
}

// done releases a directory that nobody else knows.
func (s *session) done(d *dir) {
	s.handles.release(d)
	if d != s.root {
		s.handles.forget(d)
	}
}
