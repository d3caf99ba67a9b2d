package transport

import (
	"context"
	"iter"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// List implements objectstore.Store. A listing that breaks goes on behind the
// last key that it yielded. It occupies its lane only until the first answer,
// so that the loop over it may make requests of its own.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		l := &listing{request: s.request("list", prefix), after: after, yield: yield}
		for {
			err := l.goOn(ctx)
			if err == nil {
				return
			}
			if err := l.request.again(ctx, err); err != nil {
				yield(objectstore.Info{}, err)
				return
			}
		}
	}
}

// listing is one iteration over a listing.
type listing struct {
	request *request
	after   string // the last key that was yielded
	yield   func(objectstore.Info, error) bool
}

// goOn makes one attempt. It returns nil when the listing is complete or its
// consumer has seen enough.
func (l *listing) goOn(ctx context.Context) error {
	s := l.request.store
	x, err := l.request.attempt(ctx, s.control)
	if err != nil {
		return err
	}
	defer x.end()
	s.counters.list.Add(1)
	for info, err := range s.inner.List(x.ctx, l.request.key, l.after) {
		if err != nil {
			return x.outcome(err)
		}
		x.hold()
		x.place.leave()
		l.advance(info.Key)
		if !l.yield(info, nil) {
			break
		}
		x.moved()
	}
	return x.outcome(nil)
}

// advance notes a key. Behind it begins, as for bounds and waits, another
// request: a long listing is as many requests as it has pages.
func (l *listing) advance(key string) {
	l.after = key
	l.request.attempts, l.request.started = 1, time.Now()
	l.request.progress()
}
