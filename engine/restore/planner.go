package restore

import (
	"context"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// planner is the walk of a plan: it judges everything and touches nothing.
type planner struct {
	*session
	yield func(Change) bool

	// Of the directory that is being listed.
	names map[string]bool
	last  map[string]KnownFile
}

func (p *planner) say(c Change) error {
	if !p.yield(c) {
		return errEnough
	}
	return nil
}

func (p *planner) enter(ctx context.Context, d *dir, e *manifest.Entry) error {
	p.names, p.last = make(map[string]bool), nil
	if d.parent == nil {
		return p.enterThere(ctx, d, e)
	}
	if d.parent.absent {
		d.absent = true
		return p.say(Change{Action: Create, Path: d.path(), Kind: e.Kind})
	}
	parentfd, err := p.handles.acquire(d.parent)
	if err != nil {
		return p.skip(ctx, d, err)
	}
	defer p.handles.release(d.parent)
	there, err := find(parentfd, d.name)
	if err != nil {
		return p.skip(ctx, d, err)
	}
	if there.there && isKind(&there.st, unix.S_IFDIR) {
		return p.enterThere(ctx, d, e)
	}
	if there.there {
		if err := p.displaced(ctx, parentfd, place{d.parent, d.name}); err != nil {
			return err
		}
	}
	d.absent = true
	return p.say(Change{Action: Create, Path: d.path(), Kind: e.Kind})
}

// enterThere compares a directory that exists.
func (p *planner) enterThere(ctx context.Context, d *dir, e *manifest.Entry) error {
	if d.absent {
		return p.say(Change{Action: Create, Path: d.path(), Kind: e.Kind})
	}
	v, err := p.judgeDir(d, e)
	if err != nil {
		return p.skip(ctx, d, err)
	}
	p.last = p.known(ctx, d)
	if v == fix {
		return p.say(Change{Action: Fix, Path: d.path(), Kind: e.Kind})
	}
	return nil
}

// skip records that a directory cannot be compared, and leaves it out.
func (p *planner) skip(ctx context.Context, d *dir, err error) error {
	if err := p.failed(ctx, "compare", place{d, ""}, err); err != nil {
		return err
	}
	return errSkip
}

func (p *planner) entry(ctx context.Context, d *dir, e *manifest.Entry) error {
	p.names[e.Name] = true
	if e.Kind == manifest.Dir {
		return nil
	}
	at := place{d, e.Name}
	c := Change{Path: at.path(), Kind: e.Kind}
	if c.Reason = p.omitted(e); reserved(at) {
		c.Reason = "the name is reserved"
	}
	if c.Reason != "" {
		c.Action = Omit
		return p.say(c)
	}
	lead, member := p.session.links.role(at)
	if member {
		return nil // see links
	}
	var err error
	if c.Action, err = p.action(ctx, at, e, lead); err != nil {
		return p.failed(ctx, "compare", at, err)
	}
	if c.Action == 0 {
		return nil
	}
	if c.Action != Fix {
		c.Bytes = e.Size
	}
	return p.say(c)
}

// action is what has to be done about an entry that is no directory; 0 if it
// is right.
func (p *planner) action(ctx context.Context, at place, e *manifest.Entry, lead *leader) (Action, error) {
	if at.dir.absent {
		return Create, nil
	}
	dirfd, err := p.handles.acquire(at.dir)
	if err != nil {
		return 0, err
	}
	defer p.handles.release(at.dir)
	there, err := find(dirfd, e.Name)
	if err != nil {
		return 0, err
	}
	var known *KnownFile
	if k, ok := p.last[e.Name]; ok {
		known = &k
	}
	v, err := p.judge(ctx, at.dir, dirfd, e, there, known)
	if err == nil && v == create && there.there && isKind(&there.st, unix.S_IFDIR) {
		err = p.displaced(ctx, dirfd, at)
	}
	if lead != nil && (v == right || v == fix) {
		lead.inode = inodeOf(&there.st)
	}
	switch {
	case err != nil:
		return 0, err
	case v == conflict:
		return 0, ErrConflict
	}
	return map[verdict]Action{fix: Fix, rewrite: Update, create: Create}[v], nil
}

// displaced plans the end of something of another kind that is in the way.
func (p *planner) displaced(ctx context.Context, dirfd int, at place) error {
	c := Change{Action: Delete, Path: at.path(), Reason: "something of another kind takes its place"}
	var err error
	if c.Kind, c.Bytes, err = weigh(ctx, dirfd, at.name, 0); err != nil {
		return err
	}
	return p.say(c)
}

// listed plans what is deleted from d.
func (p *planner) listed(ctx context.Context, d *dir) error {
	if d.absent || d.broken || !p.deletes(d) {
		return ctx.Err()
	}
	dirfd, err := p.handles.acquire(d)
	if err != nil {
		return p.failed(ctx, "list", place{d, ""}, err)
	}
	defer p.handles.release(d)
	for name, err := range dirNames(dirfd) {
		if err != nil {
			return p.failed(ctx, "list", place{d, ""}, err)
		}
		if p.names[name] || reserved(place{d, name}) {
			continue
		}
		c := Change{Action: Delete, Path: d.join(name)}
		if c.Kind, c.Bytes, err = weigh(ctx, dirfd, name, 0); err != nil {
			return p.failed(ctx, "look at", place{d, name}, err)
		}
		if err := p.say(c); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) leave(context.Context, *dir, *manifest.Entry) error { return nil }

// links plans the hard links, whose leaders are all judged by now.
func (p *planner) links(ctx context.Context) error {
	if len(p.session.links.leaders) == 0 {
		return nil
	}
	return p.chosenLinks(ctx, func(group []string) error {
		lead := p.session.links.leaders[p.session.links.key(group[0])]
		if lead != nil && !lead.met {
			if group, _ = p.session.links.led(group); len(group) == 0 {
				return nil
			}
			lead = new(leader)
			if err := p.promoted(ctx, group[0], lead); err != nil {
				return err
			}
		}
		for _, path := range group[1:] {
			if lead == nil || !p.session.links.met(path) || lead.inode != (inode{}) && p.inodeAt(path) == lead.inode {
				continue
			}
			if err := p.say(Change{Action: Link, Path: path, Kind: manifest.File}); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// promoted plans a file that leads in place of one that the tree does not show.
func (p *planner) promoted(ctx context.Context, path string, lead *leader) error {
	e, err := manifest.Lookup(ctx, p.src.Node, p.rootEntry, path)
	if err != nil {
		return p.failed(ctx, "look up", place{newDir(nil, "", true), path}, err)
	}
	c := Change{Action: Create, Path: path, Kind: e.Kind}
	if p.root != nil {
		at := p.placeOf(path)
		if dirfd, err := p.handles.acquire(at.dir); err == nil && dirfd >= 0 {
			p.last = p.known(ctx, at.dir)
			c.Action, err = p.action(ctx, at, &e, lead)
			p.done(at.dir)
			if err != nil {
				return p.failed(ctx, "compare", at, err)
			}
		}
	}
	if c.Action == 0 {
		return nil
	}
	if c.Action != Fix {
		c.Bytes = e.Size
	}
	return p.say(c)
}

// inodeAt is what stands at a path; zero if nothing does.
func (p *planner) inodeAt(path string) inode {
	if p.root == nil {
		return inode{}
	}
	at := p.placeOf(path)
	dirfd, err := p.handles.acquire(at.dir)
	if err != nil {
		return inode{}
	}
	defer p.done(at.dir)
	there, err := find(dirfd, at.name)
	if err != nil || !there.there {
		return inode{}
	}
	return inodeOf(&there.st)
}

// weigh tells what name is and how many bytes the files in it have. What is
// nested deeper than maxRemoveDepth does not count.
func weigh(ctx context.Context, dirfd int, name string, depth int) (kind manifest.EntryKind, bytes uint64, err error) {
	there, err := find(dirfd, name)
	if err != nil {
		return 0, 0, err
	}
	for k, bits := range kindBits {
		if k > 0 && isKind(&there.st, bits) {
			kind = manifest.EntryKind(k)
		}
	}
	if kind == manifest.File {
		return kind, uint64(there.st.Size), nil
	}
	if kind != manifest.Dir || depth > maxRemoveDepth {
		return kind, 0, ctx.Err()
	}
	fd, err := openDir(dirfd, name)
	if err != nil {
		return kind, 0, err
	}
	defer unix.Close(fd)
	for child, err := range dirNames(fd) {
		if err != nil {
			return kind, bytes, err
		}
		_, more, err := weigh(ctx, fd, child, depth+1)
		if err != nil {
			return kind, bytes, err
		}
		bytes += more
	}
	return kind, bytes, nil
}
