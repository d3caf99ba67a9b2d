package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/snapctl/snapctl/packfile"
)

// errFull ends a database that gave out all its numbers; it cannot happen
// before four billion packs were added to one cache.
var errFull = fmt.Errorf("%w: out of pack numbers", ErrFailed)

// change is one atomic change of the database.
type change struct {
	db      *DB
	batch   *pebble.Batch
	state   state
	touched []uint32 // numbers of packs that appear or go
}

// update runs fn and commits what it put into the batch, together with the
// state. Nothing of it is visible if update fails, and all of it when it
// returns: to readers that exist already, too.
func (db *DB) update(ctx context.Context, fn func(c *change) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return pebble.ErrClosed
	}
	return db.failed.Catch(func() error {
		c := &change{db: db, batch: db.pebble.NewBatch(), state: db.state}
		err := fn(c)
		if err == nil {
			err = c.commit()
		}
		return errors.Join(err, c.batch.Close())
	})
}

func (c *change) commit() error {
	if err := c.batch.Set(stateKey, c.state.encode(), nil); err != nil {
		return err
	}
	err := c.db.packs.change(c.touched, func() error { return c.batch.Commit(c.db.sync) })
	if err == nil {
		err = c.db.failed.Err() // Pebble reports some commit errors to its logger alone
	}
	if err != nil {
		return err
	}
	c.db.publish(c.state)
	c.db.epoch.Add(1)
	return nil
}

// publish makes s the state. The caller holds db.mu, or is alone.
func (db *DB) publish(s state) {
	db.state = s
	db.stats.Store(&s)
}

// number is the number of a pack, if it has one.
func (db *DB) number(name packfile.Name) (uint32, bool, error) {
	v, err := db.get(numberKey(name))
	if err != nil || v == nil {
		return 0, false, err
	}
	if len(v) != numberSize {
		return 0, false, fmt.Errorf("%w: number record of %d bytes", ErrFailed, len(v))
	}
	return binary.BigEndian.Uint32(v), true, nil
}

// allocate gives out the next number.
func (c *change) allocate() (uint32, error) {
	if c.state.next == math.MaxUint32 {
		return 0, errFull
	}
	c.state.next++
	return c.state.next - 1, nil
}

// addPack writes all records of a pack but those of its blobs.
func (c *change) addPack(number uint32, info PackInfo) error {
	c.touched = append(c.touched, number)
	c.state.packs++
	c.state.blobs += uint64(info.Blobs())
	return errors.Join(
		c.batch.Set(packKey(number), info.encode(), nil),
		c.batch.Set(numberKey(info.Name), binary.BigEndian.AppendUint32(nil, number), nil))
}

func (c *change) addBlobs(entries []entry) error {
	var key, value []byte
	for _, e := range entries {
		key, value = appendBlobKey(key[:0], e.id, e.number), e.place.append(value[:0])
		if err := c.batch.Set(key, value, nil); err != nil {
			return err
		}
	}
	return nil
}

// removePack takes a pack away, if it is there. Its blob records stay, as
// garbage that readers skip.
func (c *change) removePack(number uint32) error {
	record, err := c.db.get(packKey(number))
	if err != nil || record == nil {
		return err
	}
	info, err := decodePackInfo(record)
	if err != nil {
		return err
	}
	c.touched = append(c.touched, number)
	c.state.packs--
	c.state.blobs -= uint64(info.Blobs())
	c.state.garbage += uint64(info.Blobs())
	return errors.Join(
		c.batch.Delete(packKey(number), nil),
		c.batch.Delete(numberKey(info.Name), nil),
		c.batch.Delete(unsegmentedKey(info.Name), nil))
}

// addSegment records a segment that names the packs with the numbers.
func (c *change) addSegment(info SegmentInfo, numbers []uint32) error {
	known, err := c.db.get(segmentKey(info.Name))
	if err != nil {
		return err
	}
	if known == nil {
		c.state.segments++
	}
	return c.batch.Set(segmentKey(info.Name), encodeNumbers(info.Size, numbers), nil)
}
