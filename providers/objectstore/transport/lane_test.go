package transport_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

var packsAreBulk = []string{"packs/"}

// load keeps a store busy with workers until stop is called.
func load(t *testing.T, s objectstore.Store, workers int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := put(ctx, s, fmt.Sprintf("packs/%d", w), "x"); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// TestConcurrencyFollowsTheStore lets a store lose its capacity for a while.
func TestConcurrencyFollowsTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := &network{Store: mem.New(), latency: 100 * time.Millisecond}
		stop := load(t, transport.New(inner, transport.Options{Bulk: packsAreBulk}), 64)
		defer stop()

		time.Sleep(10 * time.Second)
		peak, served, refused := inner.change(5)
		t.Logf("at first:        at most %d at a time, %d served, %d refused", peak, served, refused)
		if peak != 32 || served < 32*95 || refused != 0 {
			t.Error("want 32 at a time")
		}

		time.Sleep(10 * time.Second) // to settle
		inner.change(5)
		time.Sleep(time.Minute)
		peak, served, refused = inner.change(0)
		t.Logf("with capacity 5: at most %d at a time, %d served, %d refused", peak, served, refused)
		if peak > 8 || served < 3*600 || refused*4 > served {
			t.Error("want few more than 5 at a time, most of the capacity used, few refused")
		}

		time.Sleep(time.Minute)
		peak, served, refused = inner.change(0)
		t.Logf("with all again:  at most %d at a time, %d served, %d refused", peak, served, refused)
		if peak != 32 || served < 32*500 {
			t.Error("want 32 at a time")
		}
	})
}

// TestOneWaveOfThrottlingIsOneSign has all requests under way throttled at once,
// while many more wait.
func TestOneWaveOfThrottlingIsOneSign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		faults := fault.New(mem.New(), first(32, fault.Put, fault.Fail(objectstore.ErrThrottled)))
		inner := &network{Store: faults, latency: time.Second}
		stop := load(t, transport.New(inner, transport.Options{Bulk: packsAreBulk}), 200)
		defer stop()
		synctest.Wait()
		if now := inner.underWay(); now != 32 {
			t.Errorf("%d at a time at first", now)
		}
		time.Sleep(1500 * time.Millisecond)
		if now := inner.underWay(); now != 16 {
			t.Errorf("%d at a time after a wave of throttling, want 16", now)
		}
		// 16 answers are one round at 16: one more at a time.
		time.Sleep(time.Second)
		if now := inner.underWay(); now != 17 && now != 16 {
			t.Errorf("%d at a time after a round of answers, want 17", now)
		}
		time.Sleep(5 * time.Second)
		if now := inner.underWay(); now < 20 || now > 22 {
			t.Errorf("%d at a time after 6 rounds of answers, want 21 or so", now)
		}
	})
}

func TestConcurrencyNeverFallsBelowOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		faults := fault.New(mem.New(), first(50, fault.Put, fault.Fail(objectstore.ErrThrottled)))
		s := transport.New(faults, transport.Options{MaxConcurrent: 2})
		for i := range 10 {
			if err := put(t.Context(), s, fmt.Sprint(i), "x"); err != nil && i >= 5 {
				t.Error(err)
			}
		}
	})
}

// saturated is a store whose bulk lane is full of requests that do not end,
// and the store below it, in which everything else is answered at once.
func saturated(t *testing.T) *transport.Store {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	inner := fault.New(holding(t, "a", "content"), fault.On(fault.Put, "packs/", hanging()), fault.On(fault.Get, "packs/", hanging()))
	s := transport.New(inner, transport.Options{MaxConcurrent: 4, StallTimeout: 1000 * time.Hour, Bulk: packsAreBulk, BulkSize: 1000})
	for i := range 10 {
		wg.Go(func() {
			if i%2 == 0 {
				_ = put(ctx, s, fmt.Sprintf("packs/%d", i), "x")
			} else {
				_, _ = get(ctx, s, fmt.Sprintf("packs/%d", i))
			}
		})
	}
	synctest.Wait()
	return s
}

func TestControlNeverWaitsForBulk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := saturated(t)
		for kind, operation := range operations {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if elapsed := took(func() {
				if err := operation(ctx, s); err != nil && kind != fault.Get {
					t.Errorf("%s: %v", kind, err)
				}
			}); elapsed > 0 {
				t.Errorf("%s took %v", kind, elapsed)
			}
			cancel()
		}
		if _, err := list(t.Context(), s, "packs/"); err != nil {
			t.Error(err)
		}
		if err := s.Delete(t.Context(), "packs/1"); err != nil {
			t.Error(err)
		}
	})
}

func TestLargeTransfersAreBulk(t *testing.T) {
	for name, transfer := range map[string]func(context.Context, objectstore.Store) error{
		"put": func(ctx context.Context, s objectstore.Store) error {
			return put(ctx, s, "b", strings.Repeat("x", 1000))
		},
		"get": func(ctx context.Context, s objectstore.Store) error {
			_, err := readRange(ctx, s, "a", objectstore.Range{Length: 1000})
			return err
		},
	} {
		bubble(t, func(t *testing.T) {
			s := saturated(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if elapsed := took(func() { _ = transfer(ctx, s) }); elapsed != time.Hour {
				t.Errorf("a large %s did not queue behind bulk: %v", name, elapsed)
			}
		})
	}
}

// TestQueueIsFair checks that requests are admitted in the order of their coming.
func TestQueueIsFair(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := &network{Store: mem.New(), latency: time.Second}
		s := transport.New(inner, transport.Options{MaxConcurrent: 1})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if elapsed := took(func() { _ = put(t.Context(), s, fmt.Sprint(i), "x") }); elapsed != time.Duration(i+1)*time.Second {
					t.Errorf("request %d took %v", i, elapsed)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
	})
}
