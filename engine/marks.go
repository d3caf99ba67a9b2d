package engine

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

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

// judge tells damage from waste, when all losses are known. Of a check of some
// snapshots only, what concerns none of them is no matter.
func (c *checker) judge() {
	needed := c.judgePacks()
	for _, p := range c.segments {
		p.Harmless = !needed
		if !needed && c.partial() {
			c.dismiss(p)
		}
	}
}

// judgePacks tells which packs lose something: a bad pack loses nothing if each live
// blob in it has a good copy elsewhere. A pack that a collection deleted is no news at
// all then. It reports whether a pack is needed that no segment names.
func (c *checker) judgePacks() (needed bool) {
	for name, p := range c.bad {
		if len(p.Affected) > 0 || c.needed[p] {
			needed = needed || p.What == Unindexed
			continue
		}
		p.Harmless = true
		if p.What == Unindexed {
			p.What = Orphaned
		}
		if c.partial() || c.dead.Has(name) {
			c.dismiss(p)
		}
	}
	return needed
}

// dismiss takes a problem out of the report.
func (c *checker) dismiss(p *Problem) { c.dismissed[p] = true }

// markPacks marks the packs that are gone or damaged, so that the next snapshot
// stores again what they held, and takes the mark from packs that are whole again.
// The mark of a pack that is gone stays for ever: a writer that has been open since
// may still know the pack. A repository that cannot be written to is checked all
// the same.
func (c *checker) markPacks(ctx context.Context) error {
	c.r.markAll(ctx, c.unmarked(), func(name packfile.Name) error {
		c.r.opts.Events.warn("mark damaged", packKey(name), commit.MarkDamaged(ctx, c.r.protocol(), name))
		return nil
	})
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

// unmarked returns the packs that are gone or damaged and neither marked nor dead.
func (c *checker) unmarked() (names []packfile.Name) {
	for _, name := range ascending(c.bad) {
		what := c.bad[name].What
		if what != Unindexed && what != Orphaned && !c.marked.Has(name) && !c.dead.Has(name) {
			names = append(names, name)
		}
	}
	return names
}

// markDamaged marks packs.
func (r *Repository) markDamaged(ctx context.Context, names []packfile.Name) error {
	return r.markAll(ctx, names, func(name packfile.Name) error { return commit.MarkDamaged(ctx, r.protocol(), name) })
}

// markAll calls mark for several packs at a time: each mark is a small request.
func (r *Repository) markAll(ctx context.Context, names []packfile.Name, mark func(packfile.Name) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loads)
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return mark(name) })
	}
	return group.Wait()
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
