package cache

import (
	"context"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// lead gets block n by the request of a flight that the reader opened for it,
// and of which it has the turn.
func (r *reader) lead(n int64) error {
	s, f := r.store, r.flight
	defer func() { <-f.turn }()
	defer context.AfterFunc(r.ctx, f.cancel)()
	if r.cached(n) { // somebody brought it while this flight was opened
		s.flights.land(f, nil)
		return nil
	}
	err := r.takeOff(n)
	if err == nil {
		err = r.pull(n)
	}
	switch {
	case err == nil:
		return nil
	case r.ctx.Err() != nil: // which is nobody else's failure
		s.flights.land(f, nil)
	default:
		s.flights.land(f, err)
	}
	return err
}

// join waits for the turn of a flight that another reader opened, or that this
// one opened earlier, and gets block n out of it.
func (r *reader) join(n int64) error {
	s, f := r.store, r.flight
	select {
	case f.turn <- struct{}{}:
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
	defer func() { <-f.turn }()
	defer context.AfterFunc(r.ctx, f.cancel)()
	if err := s.flights.awaited(f, n); err != nil {
		return err
	}
	if err := r.pull(n); err != nil {
		s.flights.land(f, nil)
		return errMissed
	}
	return nil
}

// takeOff makes the request: for block n and those behind it up to the first
// one that is on the disk.
func (r *reader) takeOff(n int64) error {
	s, f := r.store, r.flight
	end := n + 1
	for end < f.end && !s.disk.has(place{r.key, end}) {
		end++
	}
	s.flights.shorten(f, end)
	blocks := objectstore.Range{Offset: n * s.size, Length: (end - n) * s.size}
	stream, err := s.inner.Get(f.ctx, r.key, blocks)
	if err != nil {
		return err
	}
	f.stream = stream
	return nil
}

// pull takes blocks out of the stream up to block n, which stays in the
// reader's own buffer, and stores them. After an error the flight has to land.
func (r *reader) pull(n int64) error {
	s, f := r.store, r.flight
	for at := f.next; at <= n; at++ {
		r.block.aim(place{r.key, at})
		err := r.block.fill(f.stream)
		s.count.fetched.Add(int64(r.block.length))
		if err != nil {
			return err
		}
		s.count.misses.Add(1)
		s.disk.keep(r.block)
		s.flights.brought(f)
		if r.block.isLast() || at+1 == f.end {
			s.flights.land(f, nil)
			break
		}
	}
	if r.block.at.number < n {
		return errMissed // the object ends before
	}
	return nil
}
