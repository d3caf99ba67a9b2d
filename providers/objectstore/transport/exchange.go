package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// errStalled is the reason for which an attempt that stalls is cancelled.
var errStalled = errors.New("stalled")

// exchange is one attempt: from its admission to a lane until its answer is
// complete.
type exchange struct {
	ctx     context.Context // for the inner store; ends when nothing moves for too long
	cancel  context.CancelCauseFunc
	request *request
	place   *place
	ticket  int
	stall   *time.Timer // cancels ctx
}

// attempt begins an attempt as soon as the lane admits it.
func (r *request) attempt(ctx context.Context, in *lane) (*exchange, error) {
	ticket, err := in.enter(ctx)
	if err != nil {
		return nil, failed(r.op, r.key, err)
	}
	r.attempts++
	x := &exchange{request: r, place: newPlace(in), ticket: ticket}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.stall = time.AfterFunc(r.store.opts.StallTimeout, func() { x.cancel(errStalled) })
	return x, nil
}

// outcome notes how the attempt went and returns its error, which is
// objectstore.ErrUnavailable if it stalled.
func (x *exchange) outcome(err error) error {
	r := x.request
	if err != nil && context.Cause(x.ctx) == errStalled {
		err = failed(r.op, r.key, fmt.Errorf("%w: nothing came for %v", objectstore.ErrUnavailable, r.store.opts.StallTimeout))
	}
	x.place.lane.observe(x.ticket, err)
	if answered(err) {
		r.store.budget.deposit()
	}
	return err
}

// moved is a sign of life.
func (x *exchange) moved() { x.stall.Reset(x.request.store.opts.StallTimeout) }

// hold stops the watch for stalls until something moves.
func (x *exchange) hold() { x.stall.Stop() }

// end frees what the attempt holds. It may be called more than once.
func (x *exchange) end() {
	x.stall.Stop()
	x.place.leave()
	x.cancel(nil)
}
