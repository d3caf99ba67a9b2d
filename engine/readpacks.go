package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// readPacks reads and verifies as many of the packs as were asked for, and always
// those that are damaged as far as is known: only their bytes tell what they have
// lost. Memory: one pack and its content a worker.
func (c *checker) readPacks(ctx context.Context) error {
	names, total := c.chosen()
	stop := c.reportReading(total)
	defer stop()
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(min(runtime.GOMAXPROCS(0), 4))
	for _, name := range names {
		if gctx.Err() != nil {
			break
		}
		group.Go(func() error {
			err := c.readPack(gctx, name)
			c.keeper.keepNowAndThen(gctx)
			return err
		})
	}
	return cmp.Or(group.Wait(), ctx.Err())
}

// chosen returns the packs to read, and their bytes: the doubtful ones, and of the
// others those that are due until the budget is used up. The last one may exceed it,
// so that any budget comes round to all packs in the end.
func (c *checker) chosen() (names []packfile.Name, bytes int64) {
	due := c.keeper.due(c.listed)
	doubtful := moveToFront(due, func(name packfile.Name) bool { return c.marked.Has(name) || c.suspect.Has(name) })
	budget := c.budget()
	for i, name := range due {
		if i >= doubtful && budget <= 0 {
			return due[:i], bytes
		}
		if i >= doubtful {
			budget -= max(c.listed[name], 1)
		}
		bytes += c.listed[name]
	}
	return due, bytes
}

// budget is how many bytes of packs that are not doubtful to read.
func (c *checker) budget() int64 {
	total := int64(0)
	for _, size := range c.listed {
		total += max(size, 1)
	}
	share := min(max(c.opts.ReadData, 0), 1)
	return max(int64(math.Ceil(float64(total)*share)), c.opts.ReadBytes)
}

// reportReading tells the user of the repository how far the reading is, until stop
// is called.
func (c *checker) reportReading(total int64) (stop func()) {
	tell := c.r.opts.Events.Progress
	if tell == nil || total == 0 {
		return func() {}
	}
	start := time.Now()
	return every(reportEvery, func() {
		c.mu.Lock()
		read := c.report.ReadBytes
		c.mu.Unlock()
		tell(Progress{Op: "check", Phase: "read", Elapsed: time.Since(start), Bytes: read, TotalBytes: uint64(total)})
	})
}

func (c *checker) readPack(ctx context.Context, name packfile.Name) error {
	size := c.listed[name]
	if size > packfile.MaxSize {
		c.damaged(name, fmt.Errorf("%w: %d bytes long", ErrDamaged, size), nil)
		return nil
	}
	object, err := objectstore.ReadAll(ctx, c.r.store, packKey(name), size)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil // deleted by a collection since the listing
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.report.ReadPacks++
	c.report.ReadBytes += uint64(len(object))
	c.mu.Unlock()
	wrong := packfile.Verify(name, object)
	pack, err := packfile.ReadFooter(c.r.sealer, name, int64(len(object)), partOf(object))
	if err != nil {
		return c.readWithoutFooter(ctx, name, object, errors.Join(wrong, err))
	}
	hurt, err := c.readFrames(pack, object)
	if err := errors.Join(wrong, err); err != nil {
		c.damaged(name, err, hurt)
		return ctx.Err()
	}
	c.mu.Lock()
	c.whole[name] = struct{}{}
	c.mu.Unlock()
	c.keeper.note(name)
	return ctx.Err()
}

// partOf reads parts of a pack that is in memory. They are copied, since who opens
// one overwrites it.
func partOf(object []byte) func(offset, length int64) ([]byte, error) {
	return func(offset, length int64) ([]byte, error) { return slices.Clone(object[offset : offset+length]), nil }
}

// readWithoutFooter finds the damaged frames of a pack whose footer cannot be used.
// The index knows where they are, and the seal of each vouches for its content.
func (c *checker) readWithoutFooter(ctx context.Context, name packfile.Name, object []byte, why error) error {
	pack, known, err := c.db.Pack(ctx, name)
	if err != nil {
		return err
	}
	if !known { // then nothing of it can be found
		c.damaged(name, why, nil)
		return nil
	}
	hurt := newInjuries()
	var content []byte
	for _, f := range pack.Frames {
		end := int64(f.Offset) + int64(f.Length)
		if end > int64(len(object)) {
			hurt.frames[f.Offset] = true
			continue
		}
		frame := packfile.Frame{Kind: f.Kind, Offset: f.Offset, Length: f.Length, Blobs: []packfile.Blob{{Length: f.Content}}}
		if content, err = frame.Open(content[:0], c.r.sealer, object[f.Offset:end]); err != nil {
			hurt.frames[f.Offset] = true
		}
	}
	c.damaged(name, why, hurt)
	return ctx.Err()
}

// injuries are what is damaged of a pack of which the rest can be read.
type injuries struct {
	frames map[uint32]bool  // by their offsets
	blobs  map[blob.ID]bool // of other frames: their content has another id
}

func newInjuries() *injuries {
	return &injuries{frames: map[uint32]bool{}, blobs: map[blob.ID]bool{}}
}

// lost reports whether a blob of the pack cannot be read.
func (i *injuries) lost(id blob.ID, frame uint32) bool { return i.frames[frame] || i.blobs[id] }

// readFrames finds the damaged frames and blobs.
func (c *checker) readFrames(pack packfile.Pack, object []byte) (hurt *injuries, err error) {
	hurt = newInjuries()
	var content []byte
	for _, frame := range pack.Frames {
		opened, openErr := frame.Open(content[:0], c.r.sealer, object[frame.Offset:frame.Offset+frame.Length])
		if openErr != nil {
			hurt.frames[frame.Offset] = true
			err = errors.Join(err, fmt.Errorf("frame at %d: %w", frame.Offset, openErr))
			continue
		}
		content = opened
		err = errors.Join(err, c.verifyBlobs(frame, content, hurt))
	}
	return hurt, err
}

func (c *checker) verifyBlobs(frame packfile.Frame, content []byte, hurt *injuries) (err error) {
	for _, b := range frame.Blobs {
		if wrong := packfile.VerifyBlob(c.r.namer, frame.Kind, b.ID, content[:b.Length]); wrong != nil {
			hurt.blobs[b.ID] = true
			err = errors.Join(err, fmt.Errorf("frame at %d: %w", frame.Offset, wrong))
		}
		content = content[b.Length:]
	}
	return err
}

// damaged records a damaged pack. With injuries, only those are bad: a flipped bit
// elsewhere in the pack loses no blob.
func (c *checker) damaged(name packfile.Name, err error, hurt *injuries) {
	c.keeper.drop(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.bad[name]
	if p == nil {
		p = c.record(packKey(name), Damaged, err)
		c.bad[name] = p
	} else {
		p.Err = errors.Join(p.Err, err)
	}
	unindexed := p.What == Unindexed // then all that it holds waits for a repair
	p.What = Damaged
	if hurt != nil {
		c.seen[name] = hurt
	}
	if hurt != nil && !unindexed {
		c.damage[name] = hurt
	}
}
