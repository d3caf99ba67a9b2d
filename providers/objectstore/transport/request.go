package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// firstBackoff bounds the random wait before the second attempt. It doubles
// from attempt to attempt.
const firstBackoff = 200 * time.Millisecond

// request is one request of the caller, made in one or more attempts.
type request struct {
	store    *Store
	op, key  string
	attempts int       // begun
	started  time.Time // the first attempt
	trouble  time.Time // the first failure since progress was made; zero if none
}

func (s *Store) request(op, key string) *request {
	return &request{store: s, op: op, key: key, started: time.Now()}
}

// untilDone makes a control request until it succeeds or may not be made again.
func (r *request) untilDone(ctx context.Context, call func(context.Context) error) error {
	for {
		err := r.once(ctx, call)
		if err == nil {
			return nil
		}
		if err := r.again(ctx, err); err != nil {
			return err
		}
	}
}

// once makes one attempt.
func (r *request) once(ctx context.Context, call func(context.Context) error) error {
	x, err := r.attempt(ctx, r.store.control)
	if err != nil {
		return err
	}
	defer x.end()
	return x.outcome(call(x.ctx))
}

// progress says that something arrived: trouble is over for now.
func (r *request) progress() { r.trouble = time.Time{} }

// again decides what follows a failed attempt. It returns nil, when its wait is
// over, if the request is to be made again, or else the error for the caller.
func (r *request) again(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return r.cancelled(ctx, err)
	case !retryable(err):
		return r.final(err)
	case r.attempts >= r.store.opts.MaxAttempts:
		return r.givenUp("no more attempts are allowed", err)
	}
	if r.trouble.IsZero() {
		r.trouble = time.Now()
	}
	left := r.store.opts.MaxElapsed - time.Since(r.trouble)
	wait := r.store.backoff(r.attempts, err)
	if wait > left {
		return r.givenUp("no more time is allowed", err)
	}
	turn, ok := r.store.budget.withdraw(left)
	if !ok {
		return r.givenUp("too many requests are waiting to be made again", err)
	}
	wait = max(wait, turn)
	if tell := r.store.opts.Waiting; tell != nil {
		tell(Retry{Op: r.op, Key: r.key, Attempt: r.attempts, Wait: wait, Err: err})
	}
	if sleep(ctx, wait) != nil {
		return r.cancelled(ctx, err)
	}
	r.store.counters.retries.Add(1)
	return nil
}

// backoff is how long to wait after an attempt failed, the first being number
// 1: what the store asked for, and a random time on top of it up to a bound that
// grows exponentially ("full jitter"; Brooker, AWS Architecture Blog, 2015).
func (s *Store) backoff(attempt int, err error) time.Duration {
	bound := s.opts.MaxWait
	if doublings := attempt - 1; doublings < 30 {
		bound = min(bound, firstBackoff<<doublings)
	}
	return min(objectstore.RetryAfter(err), s.opts.MaxWait) + rand.N(bound+1)
}

// cancelled is the error of a request whose context ended. The last failure is
// in its text only: errors.Is must not take it for one that may be retried.
func (r *request) cancelled(ctx context.Context, last error) error {
	if errors.Is(last, ctx.Err()) && !retryable(last) {
		return r.final(last)
	}
	return failed(r.op, r.key, fmt.Errorf("%w, after attempt %d: %v", ctx.Err(), r.attempts, cause(last)))
}

// final is err with the attempts before it, if there were any.
func (r *request) final(err error) error {
	if r.attempts <= 1 {
		return failed(r.op, r.key, cause(err))
	}
	return failed(r.op, r.key, fmt.Errorf("at attempt %d, after %v: %w", r.attempts, r.age(), cause(err)))
}

func (r *request) givenUp(why string, err error) error {
	return failed(r.op, r.key, fmt.Errorf("given up at attempt %d, after %v, as %s: %w", r.attempts, r.age(), why, cause(err)))
}

func (r *request) age() time.Duration { return time.Since(r.started).Round(time.Millisecond) }
