package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// errBody says that a put failed on the caller's side.
var errBody = errors.New("the body cannot be read")

// Put implements objectstore.Store. Every attempt reads the body from its
// start. A conditional put whose earlier answer was lost, and which then finds
// its condition broken, succeeds if the object has the caller's content: if two
// callers race with equal contents, and answers are lost, both may be told so.
func (s *Store) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	r := s.request("put", key)
	lost := false
	for {
		info, err := r.put(ctx, body, opts)
		if err == nil {
			return info, nil
		}
		if lost && refused(err) {
			return r.settle(ctx, body, err)
		}
		lost = lost || errors.Is(err, objectstore.ErrUnavailable)
		if err := r.again(ctx, err); err != nil {
			return objectstore.Info{}, err
		}
	}
}

// refused says that the condition of a put was not met.
func refused(err error) bool {
	return errors.Is(err, objectstore.ErrExist) || errors.Is(err, objectstore.ErrPrecondition)
}

// put makes one attempt.
func (r *request) put(ctx context.Context, body objectstore.Body, opts objectstore.PutOptions) (info objectstore.Info, err error) {
	in := r.store.route(r.key, body.Size())
	u := &upload{body: body, pay: r.store.up.payControl}
	if in == r.store.bulk {
		u.pay = r.store.up.payBulk
	}
	x, err := r.attempt(ctx, in)
	if err != nil {
		return objectstore.Info{}, err
	}
	defer x.end()
	u.exchange = x
	r.store.counters.put.Add(1)
	info, err = r.store.inner.Put(x.ctx, r.key, u, opts)
	if err = x.outcome(err); err != nil {
		return objectstore.Info{}, u.blame(err)
	}
	return info, nil
}

// upload is a body on its way: paced, counted and watched.
type upload struct {
	body     objectstore.Body
	exchange *exchange
	pay      func(ctx context.Context, n int) error

	mu     sync.Mutex // guards broken
	broken error      // why body could not be read
}

func (u *upload) Size() int64 { return u.body.Size() }

// ReadAt implements io.ReaderAt.
func (u *upload) ReadAt(p []byte, offset int64) (n int, err error) {
	s := u.exchange.request.store
	for err == nil && n < len(p) {
		at := offset + int64(n)
		slice := s.up.cut(p[n:])
		if rest := max(0, u.Size()-at); int64(len(slice)) > rest {
			slice = slice[:max(rest, 1)] // of 1 to see the end of the body
		}
		u.exchange.hold()
		if err := u.pay(u.exchange.ctx, len(slice)); err != nil {
			return n, err
		}
		u.exchange.moved()
		var m int
		m, err = u.body.ReadAt(slice, at)
		n += m
		s.counters.up.Add(int64(m))
		u.note(err, at+int64(m))
	}
	return n, err
}

// Unsent returns the body as it is, for objectstore.Unsent.
func (u *upload) Unsent() objectstore.Body { return unsent{u} }

// unsent is a body that is read for another purpose than to be sent.
type unsent struct{ *upload }

// ReadAt implements io.ReaderAt.
func (u unsent) ReadAt(p []byte, offset int64) (int, error) {
	n, err := objectstore.Unsent(u.body).ReadAt(p, offset)
	u.note(err, offset+int64(n))
	return n, err
}

// note remembers that the body failed, or ended at a place that is not its end.
func (u *upload) note(err error, end int64) {
	if err == io.EOF && end < u.Size() {
		err = io.ErrUnexpectedEOF
	}
	if err == nil || err == io.EOF {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.broken = err
}

// blame returns the error of an attempt, or that of the body if it is to blame:
// to the store it may have looked like a broken connection.
func (u *upload) blame(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.broken == nil || !retryable(err) {
		return err
	}
	return failed("put", u.exchange.request.key, fmt.Errorf("%w: %w", errBody, u.broken))
}
