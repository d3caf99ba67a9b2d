package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// TestPullerIsCancelled: who pulls returns at once when its context ends. Who
// waits for it asks again.
func TestPullerIsCancelled(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": context.WithCancel,
		"too late": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s shared) {
				ctx, cancel := end(t.Context())
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() {
					_, err := read(ctx, s.store, key, 0, 10*small)
					var own *objectstore.Error
					if !errors.Is(err, ctx.Err()) || ctx.Err() == nil || !errors.As(err, &own) || own.Key != key {
						t.Errorf("got %v", err)
					}
				})
				synctest.Wait()
				for range 5 {
					wg.Go(func() { wantRead(t, s.store, key, 0, 10*small, s.want) })
				}
				synctest.Wait()
				if name == "cancelled" {
					cancel()
				} else {
					time.Sleep(time.Hour)
				}
				synctest.Wait()
				s.gate.letThrough(math.MaxInt64)
				wg.Wait()
				s.wantRequests(t, 2)
			})
		})
	}
}

// TestGuestIsCancelled: so does one who pulls at the request of another, which
// then has to ask again.
func TestGuestIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		host := s.get(t, t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := read(ctx, s.store, key, 0, 10*small); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		s.gate.letThrough(math.MaxInt64)
		s.wantRest(t, host, 0)
		s.wantRequests(t, 2)
	})
}

// TestWaiterIsCancelled: the request goes on without it.
func TestWaiterIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		ctx, cancel := context.WithCancel(t.Context())
		var puller, waiter sync.WaitGroup
		puller.Go(func() { wantRead(t, s.store, key, 0, 10*small, s.want) })
		synctest.Wait()
		waiter.Go(func() {
			if _, err := read(ctx, s.store, key, 0, 10*small); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		cancel()
		waiter.Wait()
		s.gate.letThrough(math.MaxInt64)
		puller.Wait()
		s.wantRequests(t, 1)
	})
}

// TestStreamDiesOfOldAge: a connection that was left idle and fails is no error
// of the reads that find it so, but the reason for one more request.
func TestStreamDiesOfOldAge(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		idle := s.get(t, t.Context())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { wantRead(t, s.store, key, 0, 10*small, s.want) })
		}
		synctest.Wait()
		s.gate.kill()
		synctest.Wait()
		s.gate.letThrough(math.MaxInt64)
		wg.Wait()
		s.wantRest(t, idle, 0)
		s.wantRequests(t, 2)
	})
}

// TestStoreBreaks: the request that is made for a dead one shows it.
func TestStoreBreaks(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		r := s.get(t, t.Context())
		s.gate.breakAt(small, errDead)
		got, err := io.ReadAll(r)
		if !errors.Is(err, errDead) || err.Error() != "get "+key+": connection reset" || !bytes.Equal(got, s.want[:small]) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, errDead) {
			t.Errorf("read again: %v", err)
		}
		must(t, r.Close())
		s.wantRequests(t, 2)
	})
}

// TestFailureIsShared: who waits for a request that fails does not make it again
// after all the others.
func TestFailureIsShared(t *testing.T) {
	for _, at := range []int64{0, 5} {
		bubble(t, func(t *testing.T, s shared) {
			broken := errors.New("broken")
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if _, err := read(t.Context(), s.store, key, 0, 10*small); !errors.Is(err, broken) {
						t.Errorf("got %v", err)
					}
				})
			}
			synctest.Wait()
			s.gate.breakAt(at, broken)
			wg.Wait()
			s.wantRequests(t, 1)
		})
	}
}

// TestLostConnectionIsNotTheEnd: whatever a stream fails with, the object does
// not end there.
func TestLostConnectionIsNotTheEnd(t *testing.T) {
	for _, lost := range []error{io.ErrUnexpectedEOF, errors.New("reset"), &objectstore.Error{Op: "get", Key: key, Err: io.EOF}} {
		for _, at := range []int64{0, 3, small, small + 3} {
			s := newShared(t)
			s.gate.breakAt(at, lost)
			if _, err := read(t.Context(), s.store, key, 0, 10*small); !errors.Is(err, lost) {
				t.Errorf("lost at %d with %v: got %v", at, lost, err)
			}
			s.gate.letThrough(math.MaxInt64)
			wantRead(t, s.store, key, 0, 0, s.want)
		}
	}
}
