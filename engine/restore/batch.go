package restore

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/snapctl/snapctl/packfile/blob"
)

// Bounds of a batch. Blobs of a batch that lie in one frame are read together,
// so a large batch reads few frames twice; 256 MiB of content are some 60 MB of
// packs. A piece and its file take at most 500 bytes of memory, 32,768 of them
// 16 MB. Files of several blobs stay open while the batch is written. The first
// batch is small, so that writing starts at once; each is twice as large as the
// one before.
const (
	maxPieces     = 32 << 10
	maxBatchBytes = 256 << 20
	maxBatchOpen  = 128
	firstBatch    = 8 << 20
)

// piece is one blob of one file.
type piece struct {
	id     blob.ID
	file   *file
	offset int64
	length uint64
}

// batch is what is read by one call of Source.Blobs.
type batch struct {
	pieces []piece
	bytes  uint64
	open   int   // files of several blobs
	last   *file // of those, the one added last
}

// collector turns pieces, which come from several goroutines, into batches.
type collector struct {
	out chan *batch

	mu    sync.Mutex // guards the fields below; held while a full batch waits for its reader: so do the others
	batch *batch
	limit uint64
}

func newCollector() *collector {
	return &collector{out: make(chan *batch), batch: new(batch), limit: firstBatch}
}

// add appends a piece and, if the batch is full, hands it on.
func (c *collector) add(ctx context.Context, p piece) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.batch
	b.pieces = append(b.pieces, p)
	b.bytes += p.length
	if !p.file.single && b.last != p.file {
		b.open++
		b.last = p.file
	}
	if len(b.pieces) < maxPieces && b.bytes < c.limit && b.open < maxBatchOpen {
		return nil
	}
	c.limit = min(2*c.limit, maxBatchBytes)
	return c.flush(ctx)
}

// flush hands on what was collected. The caller holds mu.
func (c *collector) flush(ctx context.Context) error {
	full := c.batch
	c.batch = new(batch)
	if len(full.pieces) == 0 {
		return nil
	}
	select {
	case c.out <- full:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish hands on the rest, unless err says that nothing more is to be
// written, and ends the stream of batches.
func (c *collector) finish(ctx context.Context, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(c.out)
	if err != nil {
		return err
	}
	return c.flush(ctx)
}

// write reads the blobs of a batch and writes them to the files that want
// them.
func (f *filler) write(ctx context.Context, b *batch) error {
	if err := f.place.checkSpace(b.bytes); err != nil {
		return err
	}
	slices.SortFunc(b.pieces, func(x, y piece) int { return bytes.Compare(x.id[:], y.id[:]) })
	var ids []blob.ID
	var starts []int // where in pieces those of an id start
	for i, p := range b.pieces {
		if i == 0 || p.id != b.pieces[i-1].id {
			ids, starts = append(ids, p.id), append(starts, i)
		}
	}
	starts = append(starts, len(b.pieces))
	return f.src.Blobs(ctx, blob.Data, ids, func(i int, plaintext []byte, err error) error {
		for j := starts[i]; j < starts[i+1]; j++ {
			if err := f.deliver(ctx, &b.pieces[j], plaintext, err); err != nil {
				return err
			}
		}
		return nil
	})
}
