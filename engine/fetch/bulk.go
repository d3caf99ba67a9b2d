package fetch

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
	"golang.org/x/sync/errgroup"
)

// Blobs reads many blobs of one kind, each frame once. It calls deliver once
// for each element of ids, from up to Config.Workers goroutines, blobs of one
// frame one after the other in the order of its content, either with the
// verified plaintext, which is valid only during the call, or with the reason
// (an *Error) why it cannot be had. An error of deliver ends the read and is
// returned; otherwise Blobs fails only when ctx does.
func (f *Fetcher) Blobs(ctx context.Context, kind blob.Kind, ids []blob.ID, deliver func(i int, plaintext []byte, err error) error) error {
	b := &bulk{Fetcher: f, kind: kind, ids: ids, deliver: deliver}
	b.take = b.openFrame
	return b.run(ctx)
}

func (b *bulk) run(ctx context.Context) error {
	if err := b.locate(ctx); err != nil {
		return err
	}
	reads := b.plan()
	next := atomic.Int64{}
	g, ctx := errgroup.WithContext(ctx)
	for range min(b.cfg.Workers, len(reads)) {
		g.Go(func() error {
			buffers := bufferPool.Get().(*buffers)
			defer bufferPool.Put(buffers)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(reads) {
					return nil
				}
				if err := b.read(ctx, reads[i], buffers); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// bulk is one call of Blobs or Frames.
type bulk struct {
	*Fetcher
	kind    blob.Kind
	ids     []blob.ID
	deliver func(i int, plaintext []byte, err error) error
	take    func(ctx context.Context, frame span, buf *buffers) error // of a frame in buf.sealed
	wants   []want                                                    // sorted by location
}

// want is a blob that is asked for: its index in ids and the copy to read.
type want struct {
	index int
	at    Location
}

// buffers of a worker, reused from frame to frame.
type buffers struct{ sealed, content []byte }

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

// read reads the frames of one range from one stream and delivers their blobs.
// A frame that cannot be read or opened does not stop the others.
func (b *bulk) read(ctx context.Context, r readRange, buf *buffers) error {
	first := b.wants[r.frames[0].from].at
	body, err := b.store(b.kind).Get(ctx, packKey(first.Pack), objectstore.Range{Offset: int64(first.FrameOffset), Length: r.end - int64(first.FrameOffset)})
	if err == nil {
		defer body.Close()
	}
	at := int64(first.FrameOffset)
	for _, frame := range r.frames {
		l := b.wants[frame.from].at
		if err == nil {
			_, err = io.CopyN(io.Discard, body, int64(l.FrameOffset)-at)
		}
		if err == nil {
			buf.sealed = sized(buf.sealed, int(l.FrameLength))
			_, err = io.ReadFull(body, buf.sealed)
			at = int64(l.FrameOffset) + int64(l.FrameLength)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if deliverErr := b.deliverFrame(ctx, frame, buf, err); deliverErr != nil {
			return deliverErr
		}
	}
	return nil
}

// deliverFrame hands on the frame in buf.sealed, unless reading it failed with
// readErr.
func (b *bulk) deliverFrame(ctx context.Context, frame span, buf *buffers, readErr error) (err error) {
	if readErr != nil && !errors.Is(readErr, objectstore.ErrNotExist) {
		buf.sealed, readErr = b.readFrame(ctx, b.kind, b.wants[frame.from].at) // the stream broke; once more, alone
	}
	if readErr != nil {
		return b.deliverOthers(ctx, frame, readErr)
	}
	return b.take(ctx, frame, buf)
}

// openFrame opens the frame and delivers its blobs.
func (b *bulk) openFrame(ctx context.Context, frame span, buf *buffers) (err error) {
	l := b.wants[frame.from].at
	buf.content, err = b.open(buf.content[:0], b.kind, l, buf.sealed)
	if err != nil && b.forget(b.kind, l.Pack) {
		buf.content, err = b.readAndOpen(ctx, buf.content[:0], b.kind, l)
	}
	if err != nil {
		return b.deliverOthers(ctx, frame, err)
	}
	for _, w := range b.wants[frame.from:frame.to] {
		plaintext, cause := b.verified(b.kind, b.ids[w.index], w.at, buf.content)
		if cause == nil {
			err = b.deliver(w.index, plaintext, nil)
		} else {
			err = b.deliverOther(ctx, w, cause)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deliverOthers delivers the blobs of a frame that failed from other copies.
func (b *bulk) deliverOthers(ctx context.Context, frame span, cause error) error {
	for _, w := range b.wants[frame.from:frame.to] {
		if err := b.deliverOther(ctx, w, cause); err != nil {
			return err
		}
	}
	return nil
}

// deliverOther delivers a blob from another copy than the one that failed.
func (b *bulk) deliverOther(ctx context.Context, w want, cause error) error {
	failed := &copyFailures{kind: b.kind, id: b.ids[w.index]}
	failed.add(w.at, cause)
	plaintext, failed := b.fromCopies(ctx, b.kind, b.ids[w.index], failed)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed != nil {
		return b.deliver(w.index, nil, failed.err(ctx))
	}
	return b.deliver(w.index, plaintext, nil)
}

// sized returns a slice of n bytes, in the memory of b if that is enough.
func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
