package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// reader reads a range of an object, block by block.
type reader struct {
	store    *Store
	ctx      context.Context
	key      string
	pos, end int64   // next byte; behind the last one asked for, which need not exist
	block    *block  // holds pos, or ends there
	flight   *flight // that it is aboard of; it may be over
	err      error   // of an earlier Read
}

func (s *Store) newReader(ctx context.Context, key string, r objectstore.Range) *reader {
	end := int64(math.MaxInt64)
	if r.Length > 0 && r.Length < end-r.Offset {
		end = r.Offset + r.Length
	}
	return &reader{store: s, ctx: ctx, key: key, pos: r.Offset, end: end, block: s.blocks.Get().(*block)}
}

// start loads the first block, and with it learns whether the object has the
// first byte.
func (r *reader) start() error {
	if err := r.load(r.pos / r.store.size); err != nil {
		return err
	}
	if size := r.blockEnd(); r.pos > 0 && r.pos >= size {
		return fmt.Errorf("%w: offset %d of %d bytes", objectstore.ErrRange, r.pos, size)
	}
	return nil
}

// blockEnd is the offset behind the block's data.
func (r *reader) blockEnd() int64 {
	return r.block.at.number*r.store.size + int64(r.block.length)
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err == nil && r.pos < r.end && r.pos == r.blockEnd() {
		r.err = r.advance()
	}
	if r.err == nil {
		r.err = r.ctx.Err()
	}
	if r.err == nil && r.pos == min(r.end, r.blockEnd()) {
		r.err = io.EOF
	}
	if r.err == io.EOF {
		return 0, io.EOF
	}
	if r.err != nil {
		return 0, failed(r.key, r.err)
	}
	rest := r.block.data()[r.pos-r.block.at.number*r.store.size:]
	n := copy(p, rest[:min(int64(len(rest)), r.end-r.pos)])
	r.pos += int64(n)
	return n, nil
}

// advance loads the next block, if the object has one.
func (r *reader) advance() error {
	if r.block.isLast() {
		return nil
	}
	next := r.block.at.number + 1
	err := r.load(next)
	if errors.Is(err, objectstore.ErrRange) { // the last block was full
		r.block.aim(place{r.key, next})
		r.store.disk.keep(r.block)
		return nil
	}
	return err
}

// Close gives everything back. It may be called again.
func (r *reader) Close() error {
	if r.block == nil {
		return nil
	}
	r.store.blocks.Put(r.block)
	r.block, r.err, r.end = nil, fs.ErrClosed, 0
	r.hold(nil)
	return nil
}

// hold boards a flight, or none, instead of the one before.
func (r *reader) hold(next *flight) {
	if r.flight != nil {
		r.store.flights.leave(r.flight)
	}
	r.flight = next
}

// errMissed says that a flight brought a block to somebody else or ended before
// it. The block is on the disk, or a request has to be made for it.
var errMissed = errors.New("block came by, or will not come")

// load gets block n from the disk, from a request that is under way, or by a
// request of its own.
func (r *reader) load(n int64) error {
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if r.cached(n) {
			return nil
		}
		fly := r.join
		if fresh := r.board(n); fresh {
			fly = r.lead
		}
		if err := fly(n); err != errMissed && r.ctx.Err() == nil {
			return err
		}
	}
}

// board finds a flight that brings block n, or opens one. The reader has the
// turn of a fresh one.
func (r *reader) board(n int64) (fresh bool) {
	var found *flight
	end := (r.end-1)/r.store.size + 1
	if r.store.disk.isPaused() {
		found, fresh = r.store.flights.boardOwn(r.ctx, r.flight, r.key, n, end)
	} else {
		found, fresh = r.store.flights.board(r.ctx, r.key, n, end)
	}
	r.hold(found)
	return fresh
}

// cached reads block n from the disk.
func (r *reader) cached(n int64) bool {
	if !r.store.disk.read(r.block, place{r.key, n}) {
		return false
	}
	r.store.count.hits.Add(1)
	asked := min(r.end, r.blockEnd()) - max(r.pos, n*r.store.size)
	r.store.count.fromCache.Add(max(asked, 0))
	return true
}
