package transport_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

// storm has many goroutines ask a store that is down.
func storm(t *testing.T, goroutines int, opts transport.Options) (requests int, elapsed time.Duration) {
	t.Helper()
	faults := fault.New(mem.New(), always(fault.Fail(objectstore.ErrUnavailable)))
	s := transport.New(faults, opts)
	time.Sleep(time.Hour) // saves no more than the budget holds
	elapsed = took(func() {
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				if _, err := s.Stat(t.Context(), "a"); !errors.Is(err, objectstore.ErrUnavailable) {
					t.Errorf("error %v", err)
				}
			})
		}
		wg.Wait()
	})
	return faults.Calls(), elapsed
}

// TestRetriesAreNoStorm checks that a dead store sees each request once, and
// retries only from the budget: 100 at once and 10 a second.
func TestRetriesAreNoStorm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const goroutines = 1000
		requests, elapsed := storm(t, goroutines, transport.Options{})
		bound := goroutines + 100 + int(10*elapsed.Seconds()) + 1
		t.Logf("%d goroutines made %d requests in %v; bound %d; without a budget 10000", goroutines, requests, elapsed, bound)
		if requests > bound || elapsed > 5*time.Minute {
			t.Errorf("%d requests in %v", requests, elapsed)
		}
		if requests < goroutines+2000 {
			t.Errorf("%d requests in %v: hardly a retry", requests, elapsed)
		}
	})
}

// TestBudgetGrowsWithAnswers has each request fail once, which needs more
// retries than the budget has: they wait for it instead of failing.
func TestBudgetGrowsWithAnswers(t *testing.T) {
	rounds := func(t *testing.T, answers int) time.Duration {
		retried := fault.New(holding(t, "a", "old"), func(op fault.Op) fault.Fault {
			if op.Kind == fault.Stat && op.N%2 == 1 {
				return fault.Fail(objectstore.ErrThrottled)
			}
			return fault.Fault{}
		})
		s := transport.New(retried, transport.Options{MaxWait: time.Nanosecond})
		return took(func() {
			for range 500 {
				for range answers {
					if err := put(t.Context(), s, "b", "x"); err != nil {
						t.Error(err)
					}
					if err := s.Delete(t.Context(), "b"); err != nil {
						t.Error(err)
					}
				}
				if _, err := s.Stat(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	bubble(t, func(t *testing.T) {
		// 500 retries: 100 saved, 0.2 for each of 500 answers, the rest by time.
		if elapsed := rounds(t, 0); elapsed < 28*time.Second || elapsed > 32*time.Second {
			t.Errorf("500 retries took %v, want 30s", elapsed)
		}
		if elapsed := rounds(t, 2); elapsed > time.Second {
			t.Errorf("500 retries among 2500 answers took %v, want none", elapsed)
		}
	})
}

// TestBurstsOfThrottling has a third of the requests of many goroutines
// throttled, up to seven times each.
func TestBurstsOfThrottling(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const goroutines, each = 100, 20
		var mu sync.Mutex
		attempts := map[string]uint64{}
		wait := &objectstore.Wait{For: time.Second, Err: objectstore.ErrThrottled}
		inner := &network{latency: 50 * time.Millisecond, Store: fault.New(mem.New(), func(op fault.Op) fault.Fault {
			mu.Lock()
			defer mu.Unlock()
			attempts[op.Key]++
			if n := attempts[op.Key]; n < 8 && hash(op.Key, n)%10 < 3 {
				return fault.Fail(wait)
			}
			return fault.Fault{}
		})}
		s := transport.New(inner, transport.Options{Bulk: []string{"packs/"}})
		elapsed := took(func() {
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					for i := range each {
						if err := put(t.Context(), s, fmt.Sprintf("packs/%d.%d", g, i), "x"); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
		counts := s.Counts()
		bound := 100 + 0.2*goroutines*each + 10*elapsed.Seconds() + 1
		t.Logf("%d puts of %d objects in %v, %d retries, budget %.0f", counts.Put, goroutines*each, elapsed, counts.Retries, bound)
		if float64(counts.Retries) > bound || counts.Put != goroutines*each+counts.Retries {
			t.Errorf("%+v", counts)
		}
		if counts.Retries < 600 {
			t.Errorf("%d retries, want 30 percent of failures", counts.Retries)
		}
	})
}

// hash is FNV-1a.
func hash(key string, n uint64) uint64 {
	h := uint64(14695981039346656037) ^ n
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return h >> 7
}
