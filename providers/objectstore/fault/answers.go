package fault

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// cutting ends readers and listings early.
type cutting struct {
	objectstore.Store
	n   int64
	err error
}

func (s cutting) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	reader, err := s.Store.Get(ctx, key, r)
	if err != nil {
		return nil, err
	}
	return &shortReader{ReadCloser: reader, left: s.n, err: failed(Get, key, s.err)}, nil
}

func (s cutting) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		left := s.n
		for info, err := range s.Store.List(ctx, prefix, after) {
			if left == 0 {
				yield(objectstore.Info{}, failed(List, prefix, s.err))
				return
			}
			if !yield(info, err) {
				return
			}
			left--
		}
	}
}

type shortReader struct {
	io.ReadCloser
	left int64
	err  error
	over bool // err was returned
}

// Read fails only when there was more to read, so that a limit at or behind
// the end of the object changes nothing.
func (r *shortReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, r.end()
	}
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

func (r *shortReader) end() error {
	if r.over {
		return r.err
	}
	var probe [1]byte
	if _, err := io.ReadFull(r.ReadCloser, probe[:]); err != nil {
		return err
	}
	r.over = true
	return r.err
}

// stale answers reads from another store.
type stale struct {
	objectstore.Store
	past objectstore.Store
}

func (s stale) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	return s.past.Get(ctx, key, r)
}

func (s stale) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	return s.past.Stat(ctx, key)
}

func (s stale) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return s.past.List(ctx, prefix, after)
}

// dropping acknowledges writes that it does not do.
type dropping struct{ objectstore.Store }

func (s dropping) Put(_ context.Context, key string, body objectstore.Body, _ objectstore.PutOptions) (objectstore.Info, error) {
	return objectstore.Info{Key: key, Size: body.Size(), ETag: "dropped", ModTime: time.Unix(0, 0).UTC()}, nil
}

func (s dropping) Delete(context.Context, string) error { return nil }

// truncating stores the start of a body.
type truncating struct {
	objectstore.Store
	n int64
}

func (s truncating) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	info, err := s.Store.Put(ctx, key, io.NewSectionReader(body, 0, min(s.n, body.Size())), opts)
	if err != nil {
		return objectstore.Info{}, err
	}
	info.Size = body.Size()
	return info, nil
}

// flipping damages what is read.
type flipping struct {
	objectstore.Store
	bit int64
}

func (s flipping) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	reader, err := s.Store.Get(ctx, key, r)
	if err != nil {
		return nil, err
	}
	return &flippedReader{ReadCloser: reader, at: s.bit / 8, mask: 1 << (s.bit % 8)}, nil
}

type flippedReader struct {
	io.ReadCloser
	at   int64 // bytes until the damaged one; negative behind it
	mask byte
}

func (r *flippedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if 0 <= r.at && r.at < int64(n) {
		p[r.at] ^= r.mask
	}
	r.at -= int64(n)
	return n, err
}

// repeating does every write twice. The first answer is lost, whatever it was.
type repeating struct{ objectstore.Store }

func (s repeating) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	_, _ = s.Store.Put(ctx, key, body, opts)
	return s.Store.Put(ctx, key, body, opts)
}

func (s repeating) Delete(ctx context.Context, key string) error {
	_ = s.Store.Delete(ctx, key)
	return s.Store.Delete(ctx, key)
}
