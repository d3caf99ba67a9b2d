package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// checkTrees reads every tree blob of every snapshot once, and looks every data
// blob up.
func (c *checker) checkTrees(ctx context.Context) error {
	c.reader = c.db.NewReader(nil)
	walk := reach{get: c.fetch.Node, seen: map[blob.ID]struct{}{}, visit: c.lookUp, broken: c.brokenTree}
	var err error
	for _, s := range c.snapshots {
		if !s.wanted {
			continue
		}
		if err = walk.from(ctx, s.root, s.links); err != nil {
			break
		}
	}
	c.report.Trees = uint64(len(walk.seen))
	return errors.Join(err, c.reader.Close())
}

// standing is what the copies of a blob are worth together.
type standing int

const (
	safe    standing = iota // a whole pack holds it
	fragile                 // only damaged packs hold it, in frames that are whole
	gone                    // no copy of it can be read, or only in a pack that no segment names
)

// judgeCopies tells how a blob with these copies stands, and which pack it depends
// on or was lost with, if one is known.
func (c *checker) judgeCopies(id blob.ID, copies []index.Location) (standing, packfile.Name) {
	var culprit, holder packfile.Name
	stands := gone
	for _, at := range copies {
		if c.bad[at.Pack] == nil {
			return safe, at.Pack
		}
		if hurt := c.damage[at.Pack]; hurt != nil && !hurt.lost(id, at.FrameOffset) {
			stands, holder = fragile, at.Pack
		} else {
			culprit = at.Pack
		}
	}
	if stands == fragile {
		return fragile, holder
	}
	return gone, culprit
}

// lookUp records a loss if the blob has no good copy.
func (c *checker) lookUp(kind blob.Kind, id blob.ID) error {
	c.report.Blobs++
	if len(c.bad) == 0 {
		_, ok, err := c.reader.Has(id)
		if err != nil || ok {
			return err
		}
	}
	copies, err := c.reader.Copies(nil, id)
	if err != nil {
		return err
	}
	switch stands, pack := c.judgeCopies(id, copies); stands {
	case fragile:
		c.needed[c.bad[pack]] = true
	case gone:
		c.lose(id, c.bad[pack], kind, fetch.ErrNotIndexed)
	}
	return nil
}

// brokenTree records the loss of a tree blob that could not be read, and what is
// below it with it.
func (c *checker) brokenTree(id blob.ID, err error) error {
	if _, ok := lost(err); !ok {
		return err
	}
	var culprit *Problem
	if at := (*fetch.Error)(nil); errors.As(err, &at) && at.Pack != (packfile.Name{}) {
		culprit = c.bad[at.Pack]
		if culprit == nil {
			what, _ := lost(err)
			culprit = c.found(packKey(at.Pack), what, err)
			c.bad[at.Pack] = culprit
			c.damage[at.Pack] = newInjuries()
			c.keeper.drop(at.Pack)
		}
		if hurt := c.damage[at.Pack]; hurt != nil {
			hurt.frames[at.Offset] = true
		}
	}
	c.lose(id, culprit, blob.Tree, err)
	return nil
}

func (c *checker) lose(id blob.ID, culprit *Problem, kind blob.Kind, err error) {
	if c.losses[id] != nil {
		return
	}
	if culprit == nil {
		what, _ := lost(err)
		culprit = c.found(fmt.Sprintf("%v blob %v", kind, id), what, err)
	}
	c.losses[id] = culprit
}
