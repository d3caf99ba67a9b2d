package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// waits has a request that waits for more than a minute in each of the places
// where one can.
var waits = map[string]func(t *testing.T) (request func(context.Context) error){
	"lane": func(t *testing.T) func(context.Context) error {
		s := saturated(t)
		return func(ctx context.Context) error { return put(ctx, s, "packs/late", "x") }
	},
	"lane again": func(t *testing.T) func(context.Context) error {
		inner := fault.New(holding(t, "packs/1", "content"), fault.On(fault.Put, "", hanging()))
		s := transport.New(inner, transport.Options{MaxConcurrent: 1, StallTimeout: 1000 * time.Hour, Bulk: packsAreBulk})
		reader, err := s.Get(t.Context(), "packs/1", objectstore.Range{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { reader.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		t.Cleanup(wg.Wait)
		t.Cleanup(cancel)
		wg.Go(func() { _ = put(ctx, s, "packs/2", "x") })
		time.Sleep(time.Second) // the reader gives way
		return closing(reader)
	},
	"backoff": func(*testing.T) func(context.Context) error {
		wait := &objectstore.Wait{For: 2 * time.Hour, Err: objectstore.ErrThrottled}
		s := transport.New(fault.New(mem.New(), always(fault.Fail(wait))), transport.Options{MaxWait: 10 * time.Hour, MaxElapsed: 100 * time.Hour})
		return func(ctx context.Context) error { _, err := s.Stat(ctx, "a"); return err }
	},
	"budget": func(t *testing.T) func(context.Context) error {
		s := transport.New(fault.New(mem.New(), always(fault.Fail(objectstore.ErrUnavailable))),
			transport.Options{MaxAttempts: 1 << 30, MaxElapsed: 100 * time.Hour, MaxWait: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		t.Cleanup(wg.Wait)
		t.Cleanup(cancel)
		for range 2000 {
			wg.Go(func() { _, _ = s.Stat(ctx, "a") })
		}
		synctest.Wait()
		return func(ctx context.Context) error { _, err := s.Stat(ctx, "a"); return err }
	},
	"upload": func(*testing.T) func(context.Context) error {
		s := transport.New(mem.New(), transport.Options{UploadLimit: 1})
		return func(ctx context.Context) error { return put(ctx, s, "a", strings.Repeat("x", 10_000)) }
	},
	"download": func(t *testing.T) func(context.Context) error {
		s := transport.New(holding(t, "a", strings.Repeat("x", 10_000)), transport.Options{DownloadLimit: 1})
		return func(ctx context.Context) error { _, err := get(ctx, s, "a"); return err }
	},
	"upload behind others": func(t *testing.T) func(context.Context) error {
		s := transport.New(mem.New(), transport.Options{UploadLimit: 1, Bulk: packsAreBulk})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		t.Cleanup(wg.Wait)
		t.Cleanup(cancel)
		for i := range 20 {
			wg.Go(func() { _ = put(ctx, s, fmt.Sprintf("packs/%d", i), strings.Repeat("x", 10_000)) })
		}
		return func(ctx context.Context) error { return put(ctx, s, "packs/late", strings.Repeat("x", 10_000)) }
	},
	"answer": func(*testing.T) func(context.Context) error {
		s := transport.New(fault.New(mem.New(), always(hanging())), transport.Options{StallTimeout: 1000 * time.Hour})
		return func(ctx context.Context) error { _, err := get(ctx, s, "a"); return err }
	},
	"body": func(t *testing.T) func(context.Context) error {
		s := transport.New(fault.New(holding(t, "packs/1", "content"), always(fault.Stall(3))),
			transport.Options{StallTimeout: 1000 * time.Hour, Immutable: []string{"packs/"}})
		return func(ctx context.Context) error { _, err := get(ctx, s, "packs/1"); return err }
	},
	"resume": func(t *testing.T) func(context.Context) error {
		wait := &objectstore.Wait{For: 2 * time.Hour, Err: objectstore.ErrUnavailable}
		s := transport.New(fault.New(holding(t, "packs/1", "content"), always(fault.CutShort(3, wait))),
			transport.Options{MaxWait: 10 * time.Hour, MaxElapsed: 100 * time.Hour, Immutable: []string{"packs/"}})
		return func(ctx context.Context) error { _, err := get(ctx, s, "packs/1"); return err }
	},
	"listing": func(t *testing.T) func(context.Context) error {
		inner, _ := hundred(t)
		s := transport.New(fault.New(inner, always(fault.Stall(3))), transport.Options{StallTimeout: 1000 * time.Hour})
		return func(ctx context.Context) error { _, err := list(ctx, s, "a/"); return err }
	},
}

// closing is a request that reads a reader of another one, and closes it when
// the context ends.
func closing(reader io.ReadCloser) func(context.Context) error {
	return func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { reader.Close() })()
		_, err := io.ReadAll(reader)
		return err
	}
}

func TestCancellationIsHeardEverywhere(t *testing.T) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				request := wait(t)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, cancel)
				var err error
				elapsed := took(func() { err = request(ctx) })
				if elapsed != time.Minute {
					t.Errorf("%v after %v", err, elapsed)
				}
				wantCancelled(t, err, context.Canceled)
			})
		})
	}
}

// TestDeadlineEndsNoEarlier checks that a wait which would last longer than the
// context does not end before it.
func TestDeadlineEndsNoEarlier(t *testing.T) {
	for name, wait := range waits {
		if name == "lane again" {
			continue // has a context of its own
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				request := wait(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var err error
				if elapsed := took(func() { err = request(ctx) }); elapsed != time.Minute {
					t.Errorf("%v after %v", err, elapsed)
				}
				wantCancelled(t, err, context.DeadlineExceeded)
			})
		})
	}
}

func wantCancelled(t *testing.T, err, cause error) {
	t.Helper()
	var e *objectstore.Error
	if !errors.Is(err, cause) || !errors.As(err, &e) {
		t.Errorf("error %v, want %v", err, cause)
	}
	if errors.Is(err, objectstore.ErrThrottled) || errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("error %v can be taken for one to retry", err)
	}
}

// TestCancelledRequestIsNotMade also checks that no mistaken error of the inner
// store hides a cancellation.
func TestCancelledRequestIsNotMade(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := transport.New(holding(t, "a", "content"), transport.Options{})
	for kind, operation := range operations {
		wantError(t, operation(ctx, s), kind, context.Canceled)
	}
	if s.Counts() != (transport.Counts{}) {
		t.Errorf("%+v", s.Counts())
	}
}

// mistaken takes a cancelled request for a broken connection.
type mistaken struct{ objectstore.Store }

func (s mistaken) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	_, err := s.Store.Stat(ctx, key)
	return objectstore.Info{}, &objectstore.Error{Op: "stat", Key: key, Err: errors.Join(objectstore.ErrUnavailable, err)}
}

func TestCancellationIsNoFailure(t *testing.T) {
	for _, attempts := range []int{1, 10} {
		bubble(t, func(t *testing.T) {
			s := transport.New(mistaken{fault.New(mem.New(), always(hanging()))}, transport.Options{MaxAttempts: attempts})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Stat(ctx, "a")
			wantCancelled(t, err, context.DeadlineExceeded)
		})
	}
}

// TestReadHearsCancellation reads from a store in memory, which would always
// answer.
func TestReadHearsCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := transport.New(holding(t, "a", "content"), transport.Options{})
	reader, err := s.Get(ctx, "a", objectstore.Range{})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := io.ReadFull(reader, make([]byte, 3)); err != nil {
		t.Error(err)
	}
	cancel()
	n, err := reader.Read(make([]byte, 3))
	if n != 0 {
		t.Errorf("%d bytes after the end of the context", n)
	}
	wantError(t, err, fault.Get, context.Canceled)
}

// TestCancelledPlacesAreFree cancels requests that wait for a lane: nobody is
// admitted in their place, and nobody is left out.
func TestCancelledPlacesAreFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := &network{Store: mem.New(), latency: time.Second}
		s := transport.New(inner, transport.Options{MaxConcurrent: 2})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // with the first answers
		defer cancel()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if i < 2 {
					_ = put(t.Context(), s, fmt.Sprint(i), "x")
				} else {
					_ = put(ctx, s, fmt.Sprint(i), "x")
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		for i := range 4 {
			wg.Go(func() { _ = put(t.Context(), s, fmt.Sprint(i), "x") })
		}
		if elapsed := took(wg.Wait); elapsed != 2*time.Second || inner.peak != 2 {
			t.Errorf("4 puts, 2 at a time, took %v, at most %d at a time", elapsed, inner.peak)
		}
	})
}
