package transport_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

// timed notes when requests come and lets all fail.
func timed(times *[]time.Time, err error) *fault.Store {
	var mu sync.Mutex
	return fault.New(mem.New(), func(fault.Op) fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		*times = append(*times, time.Now())
		return fault.Fail(err)
	})
}

// gaps are the times between the attempts of one Stat that fails with err.
func gaps(t *testing.T, opts transport.Options, err error) (gaps []time.Duration) {
	t.Helper()
	var times []time.Time
	if _, err := transport.New(timed(&times, err), opts).Stat(t.Context(), "a"); err == nil {
		t.Fatal("no error")
	}
	for i, at := range times[1:] {
		gaps = append(gaps, at.Sub(times[i]))
	}
	return gaps
}

// TestFullJitter checks that each wait is spread over all of its interval, and
// that the interval doubles up to the cap.
func TestFullJitter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const runs = 400
		var sum, least, most [9]time.Duration
		for i := range runs {
			for n, gap := range gaps(t, transport.Options{MaxWait: 10 * time.Second}, objectstore.ErrThrottled) {
				sum[n] += gap
				most[n] = max(most[n], gap)
				if i == 0 || gap < least[n] {
					least[n] = gap
				}
			}
		}
		for n := range sum {
			bound := min(10*time.Second, 200*time.Millisecond<<n)
			mean := sum[n] / runs
			if most[n] > bound || most[n] < bound*9/10 || least[n] > bound/10 || mean < bound*4/10 || mean > bound*6/10 {
				t.Errorf("wait %d: from %v to %v, mean %v, want all of 0 to %v", n+1, least[n], most[n], mean, bound)
			}
		}
	})
}

func TestHonoursRetryAfter(t *testing.T) {
	for asked, least := range map[time.Duration]time.Duration{
		5 * time.Second: 5 * time.Second,
		time.Hour:       20 * time.Second, // capped
	} {
		bubble(t, func(t *testing.T) {
			opts := transport.Options{MaxWait: 20 * time.Second, MaxAttempts: 5}
			wait := &objectstore.Wait{For: asked, Err: objectstore.ErrThrottled}
			gaps := gaps(t, opts, wait)
			if len(gaps) != 4 {
				t.Errorf("asked for %v: %d retries", asked, len(gaps))
			}
			for n, gap := range gaps {
				if jitter := gap - least; jitter < 0 || jitter > 200*time.Millisecond<<n {
					t.Errorf("asked for %v, waited %v before attempt %d", asked, gap, n+2)
				}
			}
		})
	}
}

func TestTotalTimeIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		wait := &objectstore.Wait{For: 20 * time.Second, Err: objectstore.ErrUnavailable}
		faults := fault.New(mem.New(), always(fault.Fail(wait)))
		s := transport.New(faults, transport.Options{MaxElapsed: 50 * time.Second})
		var err error
		elapsed := took(func() { _, err = s.Stat(t.Context(), "a") })
		wantError(t, err, fault.Stat, objectstore.ErrUnavailable)
		if elapsed > 50*time.Second || faults.Calls() != 3 {
			t.Errorf("%d requests in %v, want 3 in at most 50s", faults.Calls(), elapsed)
		}
	})
}

// TestTimeCountsFromTheFirstFailure lets a put of a large body take longer than
// the time for retries before it fails: it is made again all the same.
func TestTimeCountsFromTheFirstFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := mem.New()
		faults := fault.New(inner, first(1, fault.Put, fault.LoseAck(objectstore.ErrUnavailable)))
		s := transport.New(faults, transport.Options{MaxElapsed: time.Minute, UploadLimit: 1000})
		if err := put(t.Context(), s, "a", strings.Repeat("x", 100_000)); err != nil {
			t.Error(err)
		}
	})
}
