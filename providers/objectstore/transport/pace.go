package transport

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// smooth is how much of a limit may pass at once: the bytes of a twentieth of a
// second.
const smooth = 20

// pace limits the bytes per second in one direction.
type pace struct {
	limiter *rate.Limiter
	slice   int // most bytes to pay for at once

	// bulk and control are held by the one transfer of either kind that waits
	// for the limiter, which serves in the order of asking: a control request
	// waits for one slice of one bulk transfer at most, and who is cancelled
	// leaves no debt.
	bulk, control chan struct{}
}

// newPace returns a pace of so many bytes per second; no limit if that is not
// positive.
func newPace(limit int64) *pace {
	p := &pace{bulk: make(chan struct{}, 1), control: make(chan struct{}, 1)}
	if limit <= 0 {
		p.limiter, p.slice = rate.NewLimiter(rate.Inf, 0), math.MaxInt
		return p
	}
	p.slice = int(max(1, limit/smooth))
	p.limiter = rate.NewLimiter(rate.Limit(limit), p.slice)
	return p
}

// cut shortens b to one slice.
func (p *pace) cut(b []byte) []byte { return b[:min(len(b), p.slice)] }

// payBulk waits until n bytes, at most a slice, may pass in a bulk transfer.
func (p *pace) payBulk(ctx context.Context, n int) error { return p.pay(ctx, p.bulk, n) }

// payControl waits until n bytes, at most a slice, may pass in another transfer.
func (p *pace) payControl(ctx context.Context, n int) error { return p.pay(ctx, p.control, n) }

// pay does not use rate.Limiter.WaitN, which has errors of its own for a context
// that would end first.
func (p *pace) pay(ctx context.Context, turn chan struct{}, n int) error {
	if p.limiter.Limit() == rate.Inf {
		return ctx.Err()
	}
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	paid := p.limiter.ReserveN(time.Now(), n)
	err := sleep(ctx, paid.Delay())
	if err != nil {
		paid.Cancel()
	}
	return err
}

// sleep waits for d, or until the context ends, which is its error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
