package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/packfile"
)

// readMarks reads what collections and earlier checks say of packs. A list that
// is damaged itself is a problem of the protocol, and reported there.
func (c *checker) readMarks(ctx context.Context) error {
	view, err := commit.ReadView(ctx, c.r.protocol(), commit.View{})
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	c.dead, c.marked = view.Dead, view.Damaged
	return nil
}

// moveToFront puts the names that are chosen before the others, and returns their
// number.
func moveToFront(names []packfile.Name, chosen func(packfile.Name) bool) int {
	n := 0
	for i, name := range names {
		if chosen(name) {
			names[i], names[n] = names[n], name
			n++
		}
	}
	return n
}

// judgePacks tells damage from waste: a bad pack loses nothing if each live blob
// in it has a good copy elsewhere. A pack that a collection deleted is no news at
// all then. Of a check of some snapshots only, nothing of the kind is known.
func (c *checker) judgePacks() {
	for name, p := range c.bad {
		unused := len(p.Affected) == 0 && !c.needed[p]
		if p.What == Unindexed || len(c.opts.Snapshots) == 0 {
			p.Harmless = unused
		}
		if unused && c.dead.Has(name) {
			c.problems = slices.DeleteFunc(c.problems, func(other *Problem) bool { return other == p })
		}
	}
}

// markPacks marks the packs that are gone or damaged, so that the next snapshot
// stores again what they held, and takes the mark from packs that are whole again.
// The mark of a pack that is gone stays for ever: a writer that has been open since
// may still know the pack. A repository that cannot be written to is checked all
// the same.
func (c *checker) markPacks(ctx context.Context) error {
	for name, p := range c.bad {
		if p.What == Unindexed || c.marked.Has(name) || c.dead.Has(name) {
			continue
		}
		if err := commit.MarkDamaged(ctx, c.r.protocol(), name); err != nil {
			c.r.opts.Events.warn("mark damaged", packKey(name), err)
		}
	}
	for name := range c.marked {
		if !c.whole.Has(name) {
			continue
		}
		if err := commit.UnmarkDamaged(ctx, c.r.protocol(), name); err != nil {
			c.r.opts.Events.warn("take the mark from", packKey(name), err)
		}
	}
	return ctx.Err()
}

// dropForgotten leaves out snapshots that were forgotten since they were listed:
// a collection may have taken what they needed.
func (c *checker) dropForgotten(ctx context.Context) error {
	var err error
	c.snapshots = slices.DeleteFunc(c.snapshots, func(s checkedSnapshot) bool {
		published, existsErr := commit.Exists(ctx, c.r.protocol(), s.ref)
		err = errors.Join(err, existsErr)
		return existsErr == nil && !published
	})
	return err
}
