package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// noBody stands for a body that was closed.
var noBody = io.NopCloser(strings.NewReader(""))

// reader reads the range of one Get from the body of one attempt after the
// other.
type reader struct {
	ctx       context.Context // of the whole Get
	cancel    context.CancelFunc
	request   *request
	lane      *lane
	pay       func(ctx context.Context, n int) error
	resumable bool
	wanted    objectstore.Range

	mu       sync.Mutex // guards the fields below; held by Read
	exchange *exchange  // the latest attempt
	body     io.ReadCloser
	got      int64 // bytes read
	broken   error // why body must be replaced before the next read
	err      error // what all further reads return
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.err == nil {
		if r.broken != nil {
			r.err = r.reopen()
			continue
		}
		n, err := r.receive(p)
		if err != nil {
			r.broken, r.err = r.judge(err)
		}
		if n > 0 || err == nil {
			return n, r.err
		}
	}
	return 0, r.err
}

// receive reads once from the body, and pays for it.
func (r *reader) receive(p []byte) (n int, err error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	x := r.exchange
	if err := x.place.use(r.ctx); err != nil {
		return 0, err
	}
	defer x.place.rest()
	x.moved()
	n, err = r.body.Read(r.request.store.down.cut(p))
	x.hold()
	if n == 0 {
		return 0, err
	}
	r.got += int64(n)
	r.request.progress()
	r.request.store.counters.down.Add(int64(n))
	if payErr := r.pay(r.ctx, n); payErr != nil {
		return n, payErr
	}
	return n, err
}

// judge ends the attempt, and says whether the body has to be replaced or its
// error is final.
func (r *reader) judge(err error) (broken, final error) {
	defer r.exchange.end()
	if err == io.EOF {
		return nil, io.EOF
	}
	if r.resumable && errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", objectstore.ErrUnavailable, cause(err))
	}
	err = r.exchange.outcome(err)
	switch {
	case r.ctx.Err() != nil:
		return nil, r.request.cancelled(r.ctx, err)
	case !r.resumable:
		return nil, r.request.final(err)
	case r.complete():
		return nil, io.EOF
	}
	return err, nil
}

// reopen replaces the broken body by one that starts at the first byte that was
// not read. The object is the same: it cannot change.
func (r *reader) reopen() error {
	broken := r.broken
	r.broken = nil
	_ = r.body.Close() // it failed already
	r.body = noBody
	if err := r.request.again(r.ctx, broken); err != nil {
		return err
	}
	err := r.open()
	if r.got > 0 && errors.Is(err, objectstore.ErrRange) {
		return io.EOF // it broke behind the last byte of the object
	}
	return err
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if !r.mu.TryLock() { // a Read is under way, and may take long
		r.cancel()
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	err := r.body.Close()
	r.exchange.end()
	r.cancel()
	r.body, r.err = noBody, failed("get", r.request.key, fs.ErrClosed)
	if err != nil {
		return failed("get", r.request.key, cause(err))
	}
	return nil
}
