package fetch

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Frames of a pack that are wanted and lie next to each other are read by one
// request. A request costs some 10 to 30 ms before its first byte, of which the
// workers hide most by overlap; skipping maxGap costs about 1 ms at 64 MB/s. So
// a gap of one frame that nobody wants (a few hundred KiB) ends a range, and
// what falls between does not.
//
// Ranges are cut at maxRange: at 64 MB/s that is 120 ms of transfer for one
// latency, and a pack of 32 MiB still keeps four workers busy. A small read is
// cut finer, into about four ranges a worker, so that all have work to the end.
const (
	maxGap   = 64 << 10
	maxRange = 8 << 20
	minRange = 1 << 20
)

// span is a run of wants, those of one frame.
type span struct{ from, to int }

// readRange is what one request reads: frames of one pack in ascending order.
type readRange struct {
	frames []span
	end    int64 // offset in the pack behind the last frame
}

// locate finds a copy of each blob and sorts them by location. What is nowhere
// is delivered as a failure.
func (b *bulk) locate(ctx context.Context) error {
	b.wants = make([]want, 0, len(b.ids))
	var mu sync.Mutex // guards b.wants
	share := max(1, (len(b.ids)+b.cfg.Workers-1)/b.cfg.Workers)
	g, ctx := errgroup.WithContext(ctx)
	for from := 0; from < len(b.ids); from += share {
		g.Go(func() error {
			wants, err := b.locateSome(ctx, from, min(from+share, len(b.ids)))
			mu.Lock()
			defer mu.Unlock()
			b.wants = append(b.wants, wants...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	slices.SortFunc(b.wants, func(x, y want) int {
		return cmp.Or(x.at.Pack.Compare(y.at.Pack), cmp.Compare(x.at.FrameOffset, y.at.FrameOffset), cmp.Compare(x.at.Offset, y.at.Offset))
	})
	return nil
}

func (b *bulk) locateSome(ctx context.Context, from, to int) ([]want, error) {
	wants := make([]want, 0, to-from)
	var copies []Location
	for i := from; i < to; i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		copies, err = b.cfg.Locator.Copies(ctx, b.kind, b.ids[i], copies[:0])
		failed := copyFailures{kind: b.kind, id: b.ids[i]}
		switch {
		case err != nil:
			failed.add(Location{}, err)
			err = b.deliver(i, nil, failed.err(ctx))
		case len(copies) == 0:
			err = b.deliverOther(ctx, want{i, Location{}}, ErrNotIndexed)
		case copies[0].check() != nil:
			err = b.deliverOther(ctx, want{i, copies[0]}, copies[0].check())
		default:
			wants = append(wants, want{i, copies[0]})
		}
		if err != nil {
			return nil, err
		}
	}
	return wants, nil
}

// plan groups the wants into frames and the frames into ranges.
func (b *bulk) plan() []readRange {
	frames, sealed := b.frames()
	limit := min(max(sealed/int64(4*b.cfg.Workers), minRange), maxRange)
	var ranges []readRange
	for _, frame := range frames {
		l := b.wants[frame.from].at
		end := int64(l.FrameOffset) + int64(l.FrameLength)
		if n := len(ranges); n > 0 {
			last := &ranges[n-1]
			first := b.wants[last.frames[0].from].at
			gap := int64(l.FrameOffset) - last.end
			if first.Pack == l.Pack && gap >= 0 && gap <= maxGap && end-int64(first.FrameOffset) <= limit {
				last.frames, last.end = append(last.frames, frame), end
				continue
			}
		}
		ranges = append(ranges, readRange{frames: []span{frame}, end: end})
	}
	return ranges
}

// frames groups the wants by frame and adds up the sealed lengths.
func (b *bulk) frames() (frames []span, sealed int64) {
	for i, w := range b.wants {
		if n := len(frames); n > 0 {
			first := b.wants[frames[n-1].from].at
			if first.Pack == w.at.Pack && first.FrameOffset == w.at.FrameOffset {
				frames[n-1].to = i + 1
				continue
			}
		}
		frames = append(frames, span{i, i + 1})
		sealed += int64(w.at.FrameLength)
	}
	return frames, sealed
}
