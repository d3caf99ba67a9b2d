package index

import (
	"context"
	"slices"

	"github.com/snapctl/snapctl/packfile"
)

// AddPacks records packs whose upload was acknowledged and that no segment
// names yet. Readers see them when AddPacks returns, and they survive a crash.
// Packs that are known already are skipped.
func (db *DB) AddPacks(ctx context.Context, packs ...packfile.Pack) error {
	for _, p := range packs {
		if err := db.update(ctx, func(c *change) error { return c.addUnsegmented(p) }); err != nil {
			return &Error{Op: "index pack", Object: packPrefix + p.Name.String(), Err: err}
		}
	}
	return nil
}

func (c *change) addUnsegmented(p packfile.Pack) error {
	if _, known, err := c.db.number(p.Name); known || err != nil {
		return err
	}
	number, err := c.allocate()
	if err != nil {
		return err
	}
	if err := c.addPack(number, describe(p)); err != nil {
		return err
	}
	if err := c.addBlobs(appendEntries(nil, p, number)); err != nil {
		return err
	}
	return c.batch.Set(unsegmentedKey(p.Name), EncodeSegment([]packfile.Pack{p}), nil)
}

// Unsegmented returns the packs that were added by AddPacks and that no segment
// names as far as the database knows, in ascending order of their names. They
// are left from sessions that have not written their segment, or never will.
func (db *DB) Unsegmented(ctx context.Context) ([]packfile.Pack, error) {
	var packs []packfile.Pack
	err := db.scan(ctx, tagUnsegmented, func(_, value []byte) error {
		p, err := DecodeSegment(value)
		packs = append(packs, p...)
		return err
	})
	if err != nil {
		return nil, &Error{Op: "list unsegmented packs", Object: db.dir, Err: err}
	}
	return packs, nil
}

// Segmented records segments that WriteSegments or a Plan has put: their packs
// are no longer unsegmented. A segment with a pack that is not known is left
// for Sync to load.
func (db *DB) Segmented(ctx context.Context, segments ...SegmentInfo) error {
	for _, s := range segments {
		if err := db.update(ctx, func(c *change) error { return c.addOwnSegment(s) }); err != nil {
			return &Error{Op: "record segment", Object: s.Name.Key(), Err: err}
		}
	}
	return nil
}

func (c *change) addOwnSegment(s SegmentInfo) error {
	numbers := make([]uint32, 0, len(s.Packs))
	for _, name := range s.Packs {
		number, known, err := c.db.number(name)
		if err != nil {
			return err
		}
		if known {
			numbers = append(numbers, number)
		}
		if err := c.batch.Delete(unsegmentedKey(name), nil); err != nil {
			return err
		}
	}
	if len(numbers) < len(s.Packs) {
		return nil
	}
	return c.addSegment(s, numbers)
}

// RemovePacks drops packs that a collector has deleted. Look-ups that start
// after it returns do not find them.
func (db *DB) RemovePacks(ctx context.Context, names ...packfile.Name) error {
	names = slices.Clone(names)
	slices.SortFunc(names, packfile.Name.Compare)
	names = slices.Compact(names)
	err := db.update(ctx, func(c *change) error {
		for _, name := range names {
			number, known, err := db.number(name)
			if err != nil {
				return err
			}
			if !known {
				continue
			}
			if err := c.removePack(number); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return &Error{Op: "remove packs from index", Object: db.dir, Err: err}
	}
	return nil
}
