package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// hold keeps the database from being closed until release.
func (db *DB) hold() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return pebble.ErrClosed
	}
	db.readers.Add(1)
	return nil
}

func (db *DB) release() { db.readers.Add(-1) }

// scan calls fn with every record of one kind, in order. key and value are
// valid only during the call.
func (db *DB) scan(ctx context.Context, tag byte, fn func(key, value []byte) error) error {
	if err := db.hold(); err != nil {
		return err
	}
	defer db.release()
	return db.failed.Catch(func() error { return scan(ctx, db.pebble, tag, fn) })
}

func scan(ctx context.Context, r pebble.Reader, tag byte, fn func(key, value []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{tag}, UpperBound: []byte{tag + 1}})
	if err != nil {
		return err
	}
	return errors.Join(each(ctx, it, fn), it.Close())
}

func each(ctx context.Context, it *pebble.Iterator, fn func(key, value []byte) error) error {
	for valid := it.First(); valid; valid = it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := fn(it.Key(), value); err != nil {
			return err
		}
	}
	return nil // the iterator's error is returned by Close again
}

// errStop ends a scan whose consumer has seen enough.
var errStop = errors.New("stop")

// yieldLast hands the error of a scan to the consumer of a sequence.
func yieldLast[T any](err error, yield func(T, error) bool) {
	if err == nil || errors.Is(err, errStop) {
		return
	}
	var none T
	yield(none, fmt.Errorf("read index: %w", err))
}

// Pack describes a pack, if the database knows it.
func (db *DB) Pack(ctx context.Context, name packfile.Name) (PackInfo, bool, error) {
	if err := ctx.Err(); err != nil {
		return PackInfo{}, false, err
	}
	if err := db.hold(); err != nil {
		return PackInfo{}, false, err
	}
	defer db.release()
	info, ok, err := db.packByName(name)
	if err != nil {
		return PackInfo{}, false, &Error{Op: "describe pack", Object: packPrefix + name.String(), Err: err}
	}
	return info, ok, nil
}

func (db *DB) packByName(name packfile.Name) (PackInfo, bool, error) {
	number, known, err := db.number(name)
	if err != nil || !known {
		return PackInfo{}, false, err
	}
	record, err := db.get(packKey(number))
	if err != nil || record == nil {
		return PackInfo{}, false, err
	}
	info, err := decodePackInfo(record)
	return info, err == nil, err
}

// Packs yields all packs, in no order. An error is yielded once, last. The
// sequence is of one moment; the database cannot be closed meanwhile.
func (db *DB) Packs(ctx context.Context) iter.Seq2[PackInfo, error] {
	return func(yield func(PackInfo, error) bool) {
		err := db.scan(ctx, tagPack, func(_, value []byte) error {
			info, err := decodePackInfo(value)
			if err == nil && !yield(info, nil) {
				err = errStop
			}
			return err
		})
		yieldLast(err, yield)
	}
}

// Copy is one copy of a blob.
type Copy struct {
	ID blob.ID
	Location
}

// Blobs yields every copy of every blob, in the order of their ids: the
// copies of one blob come one after the other. An error is yielded once, last.
// The database cannot be closed meanwhile.
func (db *DB) Blobs(ctx context.Context) iter.Seq2[Copy, error] {
	return func(yield func(Copy, error) bool) {
		err := db.scan(ctx, tagBlob, func(key, value []byte) error {
			id, number := splitBlobKey(key)
			p, err := db.packByNumber(number)
			if err != nil || p.gone {
				return err
			}
			at, err := p.locate(value)
			if err == nil && !yield(Copy{id, at}, nil) {
				err = errStop
			}
			return err
		})
		yieldLast(err, yield)
	}
}

// Segments lists the segments that the database has loaded, without their
// packs, in ascending order of their names.
func (db *DB) Segments(ctx context.Context) ([]SegmentInfo, error) {
	var segments []SegmentInfo
	err := db.scan(ctx, tagSegment, func(key, value []byte) error {
		size, _, err := decodeNumbers(value)
		segments = append(segments, SegmentInfo{Name: SegmentName(key[1:]), Size: size})
		return err
	})
	if err != nil {
		return nil, &Error{Op: "list loaded segments", Object: db.dir, Err: err}
	}
	return segments, nil
}

// SegmentsNaming lists the loaded segments that name any of the packs, without
// their packs: what a PlanRewrite has to cover when the packs die. Ask before
// RemovePacks.
func (db *DB) SegmentsNaming(ctx context.Context, packs PackSet) ([]SegmentInfo, error) {
	segments, err := db.segmentsNaming(ctx, packs)
	if err != nil {
		return nil, &Error{Op: "find segments", Object: db.dir, Err: err}
	}
	return segments, nil
}

func (db *DB) segmentsNaming(ctx context.Context, packs PackSet) (segments []SegmentInfo, err error) {
	if err := db.hold(); err != nil {
		return nil, err
	}
	defer db.release()
	wanted := newNumberSet(db.stats.Load().next)
	for name := range packs {
		number, known, err := db.number(name)
		if err != nil {
			return nil, err
		}
		if known {
			wanted.add(number)
		}
	}
	err = db.scan(ctx, tagSegment, func(key, value []byte) error {
		size, numbers, err := decodeNumbers(value)
		for ; len(numbers) > 0; numbers = numbers[numberSize:] {
			if wanted.has(binary.BigEndian.Uint32(numbers)) {
				segments = append(segments, SegmentInfo{Name: SegmentName(key[1:]), Size: size})
				break
			}
		}
		return err
	})
	return segments, err
}
