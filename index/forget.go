package index

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// numberSet is a set of pack numbers: one bit for each that was given out.
type numberSet []uint64

func newNumberSet(next uint32) numberSet { return make(numberSet, uint64(next)/64+1) }

func (s numberSet) add(n uint32) {
	if int(n/64) < len(s) {
		s[n/64] |= 1 << (n % 64)
	}
}

func (s numberSet) has(n uint32) bool { return int(n/64) < len(s) && s[n/64]&(1<<(n%64)) != 0 }

// forgetPacks are removed by one change: about 10 MB of it.
const forgetPacks = 64 << 10

// forget drops segments that are gone from the store, and the packs that no
// other segment names.
func (r *syncRun) forget(ctx context.Context, gone []SegmentName) error {
	if len(gone) > 0 {
		if err := r.removeUnnamed(ctx, gone); err != nil {
			return err
		}
	}
	return r.db.purge(ctx)
}

func (r *syncRun) removeUnnamed(ctx context.Context, gone []SegmentName) error {
	for more := true; more; {
		removed := 0
		err := r.db.update(ctx, func(c *change) (err error) {
			removed, err = c.removeUnnamed(ctx, gone)
			return err
		})
		if err != nil {
			return err
		}
		r.stats.PacksRemoved += removed
		more = removed == forgetPacks
	}
	// Last: until then a crash makes the next Sync find them gone again.
	err := r.db.update(ctx, func(c *change) error {
		for _, name := range gone {
			if err := c.batch.Delete(segmentKey(name), nil); err != nil {
				return err
			}
		}
		c.state.segments -= uint64(len(gone))
		return nil
	})
	if err == nil {
		r.stats.Forgotten += len(gone)
	}
	return err
}

// removeUnnamed removes up to forgetPacks packs that neither wait for a segment
// nor are named by one that is not gone. It looks for them within the change:
// between two changes a pack may cease to wait because it got its segment.
func (c *change) removeUnnamed(ctx context.Context, gone []SegmentName) (removed int, err error) {
	named, err := c.named(ctx, gone)
	if err != nil {
		return 0, err
	}
	err = scan(ctx, c.db.pebble, tagPack, func(key, _ []byte) error {
		n := binary.BigEndian.Uint32(key[1:])
		if named.has(n) {
			return nil
		}
		if removed == forgetPacks {
			return errStop
		}
		removed++
		return c.removePack(n)
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return removed, err
}

// named is the set of packs that wait for a segment, or have one besides those
// that are gone.
func (c *change) named(ctx context.Context, gone []SegmentName) (numberSet, error) {
	isGone := map[SegmentName]bool{}
	for _, name := range gone {
		isGone[name] = true
	}
	named := newNumberSet(c.state.next)
	waiting, err := c.unsegmented()
	if err != nil {
		return nil, err
	}
	for n := range waiting {
		named.add(n)
	}
	err = scan(ctx, c.db.pebble, tagSegment, func(key, value []byte) error {
		if isGone[SegmentName(key[1:])] {
			return nil
		}
		_, numbers, err := decodeNumbers(value)
		for ; len(numbers) > 0; numbers = numbers[numberSize:] {
			named.add(binary.BigEndian.Uint32(numbers))
		}
		return err
	})
	return named, err
}

// Garbage is collected when it is more than a quarter of all blob records, and
// worth a pass over them.
const (
	minGarbage = 64 << 10
	purgeBatch = 32 << 10 // records deleted by one change
)

// purge deletes blob records whose pack is gone. The caller runs Sync: nobody
// else loads blob records ahead of their packs.
func (db *DB) purge(ctx context.Context) error {
	s := db.stats.Load()
	if s.garbage < minGarbage || s.garbage < s.blobs/3 {
		return nil
	}
	if err := db.hold(); err != nil {
		return err
	}
	defer db.release()
	return db.failed.Catch(func() error {
		view := db.pebble.NewSnapshot()
		defer view.Close()
		return db.purgeView(ctx, view, s.next)
	})
}

func (db *DB) purgeView(ctx context.Context, view *pebble.Snapshot, next uint32) error {
	live := newNumberSet(next)
	err := scan(ctx, view, tagPack, func(key, _ []byte) error {
		live.add(binary.BigEndian.Uint32(key[1:]))
		return nil
	})
	if err != nil {
		return err
	}
	var dead [][]byte
	flush := func() error {
		err := db.update(ctx, func(c *change) error { return c.deleteGarbage(dead) })
		dead = dead[:0]
		return err
	}
	err = scan(ctx, view, tagBlob, func(key, _ []byte) error {
		_, n := splitBlobKey(key)
		if n >= next || live.has(n) {
			return nil // added since, or there
		}
		dead = append(dead, append([]byte{}, key...))
		if len(dead) < purgeBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

func (c *change) deleteGarbage(keys [][]byte) error {
	for _, key := range keys {
		if err := c.batch.Delete(key, nil); err != nil {
			return err
		}
	}
	c.state.garbage -= min(c.state.garbage, uint64(len(keys)))
	return nil
}
