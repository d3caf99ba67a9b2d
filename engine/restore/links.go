package restore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
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
	met     bool   // in the tree
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
	if lead = t.leaders[k]; lead != nil {
		lead.met = true
	}
	return lead, member
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
	if err := s.promoteAll(ctx); err != nil {
		return err
	}
	return s.chosenLinks(ctx, func(group []string) error {
		group, lead := s.links.led(group)
		if lead == nil {
			return nil
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

// led returns a group without what the tree does not show before its leader: the first
// path, or the first one that was met. No leader if none was.
func (t *linkTable) led(group []string) ([]string, *leader) {
	lead := t.leaders[t.key(group[0])]
	if lead == nil || lead.met {
		return group, lead
	}
	for len(group) > 0 && !t.met(group[0]) {
		group = group[1:]
	}
	if len(group) == 0 {
		return nil, nil
	}
	return group, t.leaders[t.key(group[0])]
}

// promoteAll makes members the leaders of those groups whose first path was not met in
// the tree, as in a directory that cannot be read, and restores them like any files:
// together, so that what lies together is read together.
func (s *session) promoteAll(ctx context.Context) error {
	promoted := 0
	for path, err := range s.missing(ctx) {
		if err != nil {
			return err
		}
		s.links.leaders[s.links.key(path)] = &leader{}
		promoted++
	}
	if promoted == 0 {
		return nil
	}
	return s.filling(ctx, func(ctx context.Context, f *filler) error {
		for path, err := range s.missing(ctx) {
			if err == nil {
				err = f.promote(ctx, path)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// missing yields the first path that was met of each group whose first path was not.
func (s *session) missing(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		stop := errors.New("enough")
		err := s.chosenLinks(ctx, func(group []string) error {
			if lead := s.links.leaders[s.links.key(group[0])]; lead == nil || lead.met {
				return ctx.Err()
			}
			if group, _ = s.links.led(group); len(group) > 0 && !yield(group[0], nil) {
				return stop
			}
			return ctx.Err()
		})
		if err != nil && err != stop {
			yield("", err)
		}
	}
}

// promote restores a member that leads now.
func (f *filler) promote(ctx context.Context, path string) error {
	lead, at := f.links.leaders[f.links.key(path)], f.placeOf(path)
	e, err := manifest.Lookup(ctx, f.src.Node, f.rootEntry, path)
	if err != nil {
		return f.failed(ctx, "look up", at, err)
	}
	dirfd, err := f.handles.acquire(at.dir)
	if err != nil {
		return f.failed(ctx, "open directory", at, err)
	}
	defer f.handles.release(at.dir) // it is used again when the file is written
	if e.Kind != manifest.File {
		return f.settleSpecial(ctx, at, dirfd, &e, lead)
	}
	var last *KnownFile
	if k, ok := f.known(ctx, at.dir)[e.Name]; ok {
		last = &k
	}
	return f.settle(ctx, at, dirfd, &e, lead, last, func(v verdict) error { return f.start(ctx, at.dir, &e, lead, v) })
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
