package engine

import (
	"context"
	"path"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// findAffected names the paths of every snapshot that lost blobs make
// unrestorable. Trees without a loss are looked into once, whatever number of
// snapshots share them.
func (c *checker) findAffected(ctx context.Context) error {
	if len(c.losses) == 0 {
		return nil
	}
	if err := c.dropForgotten(ctx); err != nil {
		return err
	}
	a := affected{checker: c}
	for i := range c.snapshots {
		s := &c.snapshots[i]
		if !s.wanted {
			continue
		}
		a.snapshot = s.id
		clean, err := a.root(ctx, s)
		if err != nil {
			return err
		}
		s.affected = !clean
	}
	return nil
}

// affected walks trees in search of losses.
type affected struct {
	*checker
	snapshot ID
}

func (a *affected) root(ctx context.Context, s *checkedSnapshot) (clean bool, err error) {
	clean, err = a.links(ctx, s.links)
	if err != nil {
		return false, err
	}
	if p := a.losses[s.root]; p != nil {
		a.blame(p, "")
		return false, nil
	}
	root, err := readRoot(ctx, a.fetch.Node, s.root)
	if err != nil {
		return false, a.foundIf("snapshot "+s.id.String(), err)
	}
	below, err := a.entry(ctx, "", &root)
	return clean && below, err
}

// links looks into the list of hard links, without which linked files become files
// of their own.
func (a *affected) links(ctx context.Context, list blob.ID) (clean bool, err error) {
	if p := a.losses[list]; p != nil {
		a.blame(p, "")
		return false, nil
	}
	for _, err := range manifest.ReadLinks(ctx, a.fetch.Node, list) {
		if err != nil { // a node of a split list
			if _, ok := lost(err); !ok {
				return false, err
			}
			a.blameAll("", err)
			return false, nil
		}
	}
	return true, nil
}

func (a *affected) dir(ctx context.Context, at string, dir *manifest.Entry) (clean bool, err error) {
	if a.clean[dir.Node] {
		return true, nil
	}
	if p := a.losses[dir.Node]; p != nil {
		a.blame(p, at)
		return false, nil
	}
	clean = true
	for e, err := range manifest.ReadDir(ctx, a.fetch.Node, dir.Node) {
		if err != nil { // a node of a split directory
			if _, ok := lost(err); !ok {
				return false, err
			}
			a.blameAll(at, err)
			return false, nil
		}
		below, err := a.entry(ctx, path.Join(at, e.Name), e)
		if err != nil {
			return false, err
		}
		clean = clean && below
	}
	if clean {
		a.clean[dir.Node] = true
	}
	return clean, nil
}

func (a *affected) entry(ctx context.Context, at string, e *manifest.Entry) (clean bool, err error) {
	whole := a.xattrs(at, e)
	switch {
	case e.Kind == manifest.Dir:
		clean, err = a.dir(ctx, at, e)
		return clean && whole, err
	case e.Kind == manifest.File && whole:
		return a.file(ctx, at, e)
	}
	return whole, nil
}

// xattrs reports whether all attributes of an entry are there.
func (a *affected) xattrs(at string, e *manifest.Entry) bool {
	for _, x := range e.Xattrs {
		if p := a.losses[x.Blob]; p != nil {
			a.blame(p, at)
			return false
		}
	}
	return true
}

func (a *affected) file(ctx context.Context, at string, e *manifest.Entry) (clean bool, err error) {
	for x, err := range manifest.ReadContent(ctx, a.fetch.Node, e) {
		if err != nil {
			if _, ok := lost(err); !ok {
				return false, err
			}
			a.blameAll(at, err)
			return false, nil
		}
		if p := a.losses[x.ID]; p != nil {
			a.blame(p, at)
			return false, nil
		}
	}
	return true, nil
}

// blameAll blames whichever problem the unreadable node below path is part of.
func (a *affected) blameAll(at string, err error) {
	for _, id := range brokenBlobs(err) {
		if p := a.losses[id]; p != nil {
			a.blame(p, at)
			return
		}
	}
	a.blame(a.found("snapshot "+a.snapshot.String(), Damaged, err), at)
}

func (a *affected) blame(p *Problem, at string) {
	if len(p.Affected) == maxAffected {
		p.MoreAffected++
		return
	}
	p.Affected = append(p.Affected, AffectedPath{Snapshot: a.snapshot, Path: at})
}
