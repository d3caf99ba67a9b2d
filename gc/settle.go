package gc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
)

// sight is an observation and the mark that goes with it.
type sight struct {
	*observation
	*mark
}

// Bounds on how often a collection looks, and how often of those it marks everything
// anew because something seems to be lost.
const (
	maxSights = 8
	maxLosses = 2
)

// watch looks at the repository, extends the mark to what is live, and acts on that
// (steps G1 and G3). While it does not fit together it looks again: other collectors
// and compactions move packs and segments. And what seems lost may belong to a
// snapshot that was forgotten since it was marked, and collected by somebody else:
// then it marks anew.
func (p *Plan) watch(ctx context.Context, act func(context.Context) error) (err error) {
	losses := 0
	for range maxSights {
		if err = p.look(ctx); err == nil {
			err = act(ctx)
		}
		if isLost(err) {
			p.anew = true
			err = p.forgetMark(p.repo.believed(ctx, p.sight.observation, err))
		}
		switch {
		case isLost(err):
			if losses++; losses == maxLosses {
				return err
			}
		case !errors.Is(err, ErrChanging):
			return err
		}
	}
	return err
}

// look observes the repository and marks what is live, starting from the mark of an
// earlier look if there is one. A mark that could not be completed is closed.
func (p *Plan) look(ctx context.Context) error {
	o, err := p.repo.observe(ctx)
	if err == nil {
		err = p.fits(ctx, o)
	}
	if err != nil {
		return err
	}
	if p.sight.observation = o; p.sight.mark == nil {
		p.sight.mark = newMark(p.repo)
		if !p.anew {
			p.sight.mark.resume(o)
		}
	}
	if err := p.sight.extend(ctx, o, o.undoable(p.opts)); err != nil {
		return p.forgetMark(err)
	}
	return nil
}

// forgetMark closes the mark, so that the next look begins with none.
func (p *Plan) forgetMark(why error) error {
	if p.sight.mark == nil {
		return why
	}
	err := p.sight.close()
	p.sight.mark = nil
	if err != nil {
		return fmt.Errorf("%w (%w)", why, err)
	}
	return why
}

// believed is ErrChanging in place of a loss that was seen while other collectors opened
// or settled generations: what is missing may be where nobody looked.
func (r *Repository) believed(ctx context.Context, o *observation, loss error) error {
	now, err := commit.ReadGenerations(ctx, r.Repo, r.Settled)
	switch {
	case err != nil:
		return err
	case now.Highest != o.generations.Highest || len(now.Final) != len(o.generations.Final) || len(now.Open) != len(o.generations.Open):
		return fmt.Errorf("%w: %v", ErrChanging, loss)
	}
	return loss
}

// settle decides which packs of the open generations are dead for good (steps G3
// and G4), and returns the final lists.
//
// A live blob with a copy outside all dead lists spares nothing. Otherwise all
// condemned packs that hold it stay, whatever generation condemned them: a writer may
// rely on any of them, and of several copies each collector would keep another.
func (r *Repository) settle(ctx context.Context, s sight) ([]generation, error) {
	if !slices.ContainsFunc(s.generations.Open, func(g commit.Generation) bool { return g.State != commit.Kept }) {
		return nil, nil
	}
	if err := r.settleUnreadable(ctx, s.generations.Open); err != nil {
		return nil, err
	}
	spared, err := s.spared(ctx)
	if err != nil {
		return nil, err
	}
	var settled []generation
	for _, open := range s.generations.Open {
		if open.State == commit.Kept {
			continue
		}
		var dead []packfile.Name
		for name := range open.Condemned {
			if !spared.Has(name) {
				dead = append(dead, name)
			}
		}
		final, err := commit.Finalise(ctx, r.Repo, open.Number, dead)
		if err != nil {
			return settled, err
		}
		settled = append(settled, generation{number: open.Number, condemned: len(open.Condemned), final: final})
	}
	return settled, nil
}

// settleUnreadable settles generations whose condemned lists are damaged, with empty
// final lists: a part of whatever they condemned. ErrChanging if there were any: what
// was condemned may have counted as a copy.
func (r *Repository) settleUnreadable(ctx context.Context, open []commit.Generation) error {
	found := false
	for _, g := range open {
		if g.State != commit.Unreadable {
			continue
		}
		if _, err := commit.Finalise(ctx, r.Repo, g.Number, nil); err != nil {
			return err
		}
		found = true
	}
	if found {
		return fmt.Errorf("%w: which packs were condemned could not be read", ErrChanging)
	}
	return nil
}

// generation is a generation that was settled.
type generation struct {
	number    uint64
	condemned int // packs
	final     []packfile.Name
}

// spared returns the condemned packs that have to stay.
func (s sight) spared(ctx context.Context) (index.PackSet, error) {
	condemned := s.condemnedPacks()
	spared := index.PackSet{}
	for b, err := range s.locate(ctx) {
		if err != nil {
			return nil, err
		}
		outside := func(at index.Copy) bool { return s.isCopy(at.Pack, at.PackSize) && !condemned.Has(at.Pack) }
		if slices.ContainsFunc(b.copies, outside) {
			continue
		}
		known := false
		for _, at := range b.copies {
			if condemned.Has(at.Pack) {
				spared[at.Pack] = struct{}{}
			}
			known = known || s.holds(at.Pack)
		}
		if !known && b.published {
			return nil, lost(b.id)
		}
	}
	return spared, nil
}

// condemnedPacks returns the packs of all open generations.
func (o *observation) condemnedPacks() index.PackSet {
	all := index.PackSet{}
	for _, open := range o.generations.Open {
		maps.Copy(all, open.Condemned)
	}
	return all
}

// holds reports whether the pack is there, in whatever state, and not dead for
// good.
func (o *observation) holds(name packfile.Name) bool {
	_, there := o.packs[name]
	return there && !o.generations.Final.Has(name)
}
