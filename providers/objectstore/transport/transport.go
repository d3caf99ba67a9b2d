// Package transport makes a store behind an unreliable network usable. [New]
// wraps any objectstore.Store into one that
//
//   - makes a request again that failed with objectstore.ErrThrottled or
//     objectstore.ErrUnavailable, after a random wait and the one that the store
//     asked for; at most so often and so long, and from a budget that all
//     requests share, so that retries never become a storm;
//   - goes on with a body or a listing where it broke;
//   - finds out whose object it was that a conditional put met, when the answer
//     to an earlier attempt was lost;
//   - halves the number of requests at a time when the store is throttled, and
//     lets it grow again while requests succeed;
//   - keeps bulk transfers in a lane of their own, so that small requests never
//     queue behind them;
//   - limits the bytes per second of uploads and downloads.
//
// The inner store must not retry by itself, and must honour its context also in
// the readers that Get returns. What it reads of a body counts as sent, unless it
// reads it by objectstore.Unsent, say to hash it first.
package transport

import (
	"context"
	"errors"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Store is an objectstore.Store over another. It is safe for concurrent use;
// make one with New.
type Store struct {
	inner    objectstore.Store
	opts     Options
	budget   *budget
	bulk     *lane
	control  *lane
	up, down *pace
	counters counters
}

// New returns a store that makes its requests to inner.
func New(inner objectstore.Store, opts Options) *Store {
	opts = opts.withDefaults()
	return &Store{
		inner:   inner,
		opts:    opts,
		budget:  newBudget(),
		bulk:    newLane(opts.MaxConcurrent),
		control: newLane(opts.MaxConcurrent),
		up:      newPace(opts.UploadLimit),
		down:    newPace(opts.DownloadLimit),
	}
}

// route chooses the lane of a transfer. Requests without a body are control.
func (s *Store) route(key string, size int64) *lane {
	if size >= s.opts.BulkSize || hasPrefix(key, s.opts.Bulk) {
		return s.bulk
	}
	return s.control
}

// Stat implements objectstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (info objectstore.Info, err error) {
	a := s.request("stat", key)
	err = a.untilDone(ctx, func(ctx context.Context) (err error) {
		s.counters.stat.Add(1)
		info, err = s.inner.Stat(ctx, key)
		return err
	})
	return info, err
}

// Delete implements objectstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	a := s.request("delete", key)
	return a.untilDone(ctx, func(ctx context.Context) error {
		s.counters.delete.Add(1)
		return s.inner.Delete(ctx, key)
	})
}

func failed(op, key string, err error) error {
	return &objectstore.Error{Op: op, Key: key, Err: err}
}

// cause strips the operation from an error, to put it into another error about
// the same operation.
func cause(err error) error {
	if e, ok := err.(*objectstore.Error); ok {
		return e.Err
	}
	return err
}

// retryable says that the same request may succeed when it is made again.
func retryable(err error) bool {
	if errors.Is(err, errBody) {
		return false
	}
	return errors.Is(err, objectstore.ErrThrottled) || errors.Is(err, objectstore.ErrUnavailable)
}

// answered says that the store did its part, whether or not the caller likes
// the answer.
func answered(err error) bool {
	if err == nil {
		return true
	}
	for _, answer := range []error{objectstore.ErrNotExist, objectstore.ErrExist, objectstore.ErrPrecondition, objectstore.ErrRange} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}
