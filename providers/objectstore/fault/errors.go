package fault

import (
	"context"
	"io"
	"iter"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// failing answers every call with err.
type failing struct{ err error }

func (s failing) Put(_ context.Context, key string, _ objectstore.Body, _ objectstore.PutOptions) (objectstore.Info, error) {
	return objectstore.Info{}, failed(Put, key, s.err)
}

func (s failing) Get(_ context.Context, key string, _ objectstore.Range) (io.ReadCloser, error) {
	return nil, failed(Get, key, s.err)
}

func (s failing) Stat(_ context.Context, key string) (objectstore.Info, error) {
	return objectstore.Info{}, failed(Stat, key, s.err)
}

func (s failing) List(_ context.Context, prefix, _ string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		yield(objectstore.Info{}, failed(List, prefix, s.err))
	}
}

func (s failing) Delete(_ context.Context, key string) error { return failed(Delete, key, s.err) }

// losing passes every call on and turns its success into err. A call that
// fails by itself keeps its own error.
type losing struct {
	next objectstore.Store
	err  error
}

func (s losing) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if _, err := s.next.Put(ctx, key, body, opts); err != nil {
		return objectstore.Info{}, err
	}
	return objectstore.Info{}, failed(Put, key, s.err)
}

func (s losing) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	reader, err := s.next.Get(ctx, key, r)
	if err != nil {
		return nil, err
	}
	if err := reader.Close(); err != nil {
		return nil, err
	}
	return nil, failed(Get, key, s.err)
}

func (s losing) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	if _, err := s.next.Stat(ctx, key); err != nil {
		return objectstore.Info{}, err
	}
	return objectstore.Info{}, failed(Stat, key, s.err)
}

func (s losing) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		for info, err := range s.next.List(ctx, prefix, after) {
			if !yield(info, err) || err != nil {
				return
			}
		}
		yield(objectstore.Info{}, failed(List, prefix, s.err))
	}
}

func (s losing) Delete(ctx context.Context, key string) error {
	if err := s.next.Delete(ctx, key); err != nil {
		return err
	}
	return failed(Delete, key, s.err)
}

func failed(kind Kind, key string, err error) error {
	return &objectstore.Error{Op: string(kind), Key: key, Err: err}
}
