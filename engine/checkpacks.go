package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// checkPacks compares the packs of the index with those in the store.
func (c *checker) checkPacks(ctx context.Context) error {
	if err := c.readMarks(ctx); err != nil {
		return err
	}
	if err := c.listPacks(ctx); err != nil {
		return err
	}
	indexed := index.PackSet{}
	for pack, err := range c.db.Packs(ctx) {
		if err != nil {
			return err
		}
		indexed[pack.Name] = struct{}{}
		c.checkPack(pack)
	}
	c.report.Packs = uint64(len(indexed))
	for _, name := range ascending(c.listed) {
		if !indexed.Has(name) {
			if err := c.addUnindexed(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) listPacks(ctx context.Context) error {
	for info, err := range c.r.store.List(ctx, packPrefix, "") {
		if err != nil {
			return err
		}
		name, err := packfile.ParseName(info.Key[len(packPrefix):])
		if err != nil {
			c.found(info.Key, Foreign, errors.New("not the key of a pack")).Harmless = true
			continue
		}
		c.listed[name] = info.Size
	}
	return nil
}

// addUnindexed adds a pack that no segment names to the private index of this
// check, so that what only it holds is known to be there, and whom it concerns.
func (c *checker) addUnindexed(ctx context.Context, name packfile.Name) error {
	p := c.found(packKey(name), Unindexed, errors.New("no index segment names it: a session that was interrupted, or still runs, put it, or `snapctl repair index` is needed"))
	c.bad[name] = p
	pack, err := packfile.ReadFooter(c.r.sealer, name, c.listed[name], c.r.readPart(ctx, name))
	switch what, ok := lost(err); {
	case err == nil:
		return c.db.AddPacks(ctx, pack)
	case !ok:
		return err
	default:
		p.What, p.Err = what, errors.Join(p.Err, err)
		return nil
	}
}

// readPart reads parts of a pack.
func (r *Repository) readPart(ctx context.Context, name packfile.Name) func(offset, length int64) ([]byte, error) {
	return func(offset, length int64) ([]byte, error) {
		return objectstore.ReadRange(ctx, r.store, packKey(name), offset, length)
	}
}

func (c *checker) checkPack(pack index.PackInfo) {
	size, ok := c.listed[pack.Name]
	switch {
	case !ok:
		c.bad[pack.Name] = c.found(packKey(pack.Name), Missing, objectstore.ErrNotExist)
	case size != pack.Size:
		c.suspect[pack.Name] = struct{}{}
		c.bad[pack.Name] = c.found(packKey(pack.Name), Damaged, fmt.Errorf("%w: %d bytes long, the index says %d", ErrDamaged, size, pack.Size))
	}
}
