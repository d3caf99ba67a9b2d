package transport

import (
	"context"
	"io"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Get implements objectstore.Store. An open reader of a bulk transfer occupies
// the lane until its end, its Close, or a pause in reading. Its Read returns at
// once when ctx ends, or when the reader is closed from another goroutine.
func (s *Store) Get(ctx context.Context, key string, wanted objectstore.Range) (io.ReadCloser, error) {
	r := &reader{
		request:   s.request("get", key),
		lane:      s.route(key, wanted.Length),
		pay:       s.down.payControl,
		resumable: hasPrefix(key, s.opts.Immutable),
		wanted:    wanted,
		body:      noBody,
	}
	if r.lane == s.bulk {
		r.pay = s.down.payBulk
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	if err := r.open(); err != nil {
		r.cancel()
		return nil, err
	}
	return r, nil
}

// open makes attempts until one is answered with a body.
func (r *reader) open() error {
	for {
		err := r.attempt()
		if err == nil {
			return nil
		}
		if err := r.request.again(r.ctx, err); err != nil {
			return err
		}
	}
}

// attempt asks for what has not been read.
func (r *reader) attempt() error {
	x, err := r.request.attempt(r.ctx, r.lane)
	if err != nil {
		return err
	}
	r.request.store.counters.get.Add(1)
	body, err := r.request.store.inner.Get(x.ctx, r.request.key, r.rest())
	if err := x.outcome(err); err != nil {
		x.end()
		return err
	}
	x.hold()
	x.place.rest()
	r.exchange, r.body = x, body
	return nil
}

// rest is the part of the range that has not been read.
func (r *reader) rest() objectstore.Range {
	rest := objectstore.Range{Offset: r.wanted.Offset + r.got}
	if r.wanted.Length != 0 {
		rest.Length = r.wanted.Length - r.got
	}
	return rest
}

// complete says that the whole range was read, as far as can be told before
// the end of the object.
func (r *reader) complete() bool { return r.wanted.Length != 0 && r.got == r.wanted.Length }
