package fault

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// stalling stops readers and listings half-way, until their context ends.
type stalling struct {
	objectstore.Store
	n int64
}

func (s stalling) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	reader, err := cutting{s.Store, s.n, errStall}.Get(ctx, key, r)
	if err != nil {
		return nil, err
	}
	return &stalledReader{ReadCloser: reader, ctx: ctx, key: key}, nil
}

func (s stalling) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		for info, err := range (cutting{s.Store, s.n, errStall}).List(ctx, prefix, after) {
			if !yield(info, endOfStall(ctx, List, prefix, err)) {
				return
			}
		}
	}
}

type stalledReader struct {
	io.ReadCloser
	ctx context.Context
	key string
}

func (r *stalledReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	return n, endOfStall(r.ctx, Get, r.key, err)
}

// errStall marks the place of a stall.
var errStall = errors.New("stall")

// endOfStall waits for the end of the context in the place of errStall.
func endOfStall(ctx context.Context, kind Kind, key string, err error) error {
	if !errors.Is(err, errStall) {
		return err
	}
	<-ctx.Done()
	return failed(kind, key, ctx.Err())
}
