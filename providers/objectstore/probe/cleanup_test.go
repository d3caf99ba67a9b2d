package probe_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/probe"
)

// TestMayNotDelete: that is an answer, and what is left is named.
func TestMayNotDelete(t *testing.T) {
	good := mem.New()
	report := run(t, mayNotDelete{good})
	wantLacks(t, report, probe.DeleteThenList)
	var left []string
	for info := range good.List(t.Context(), "", "") {
		left = append(left, info.Key)
	}
	if !slices.Equal(report.LeftBehind, left) || len(left) == 0 {
		t.Errorf("left behind %d, named %d", len(left), len(report.LeftBehind))
	}
}

// TestFailsAnywhere: whichever request fails, what was made is deleted.
func TestFailsAnywhere(t *testing.T) {
	for n := 1; n < 800; n += 37 {
		good := mem.New()
		s := fault.New(good, fault.LoseAckNth(n))
		report, err := probe.Run(t.Context(), s)
		if err != nil {
			t.Errorf("call %d: %v", n, err)
		}
		if len(report.LeftBehind) == 0 {
			wantEmpty(t, good)
		}
	}
}

// TestCancelled: the probe ends, and cleans up.
func TestCancelled(t *testing.T) {
	for _, n := range []int{1, 30, 300} {
		good := mem.New()
		ctx, cancel := context.WithCancel(t.Context())
		s := fault.New(good, func(op fault.Op) fault.Fault {
			if op.N == n {
				cancel()
			}
			return fault.Fault{}
		})
		report, err := probe.Run(ctx, s)
		if !errors.Is(err, context.Canceled) || len(report.LeftBehind) != 0 {
			t.Errorf("%v, left %q", err, report.LeftBehind)
		}
		wantEmpty(t, good)
		cancel()
	}
}

// hangs answers no delete.
type hangs struct{ objectstore.Store }

func (s hangs) Delete(ctx context.Context, key string) error {
	<-ctx.Done()
	return &objectstore.Error{Op: "delete", Key: key, Err: ctx.Err()}
}

// TestCleanUpIsBounded: a store that hangs does not hold the probe for ever.
func TestCleanUpIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := mem.New()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		report, err := probe.Run(ctx, hangs{good})
		if !errors.Is(err, context.DeadlineExceeded) || len(report.LeftBehind) == 0 {
			t.Errorf("%v, left %d", err, len(report.LeftBehind))
		}
		if took := time.Since(start); took != time.Hour+30*time.Second {
			t.Errorf("it took %v", took)
		}
		if len(report.Guarantees) != len(all)-2 {
			t.Errorf("%d guarantees were tried, want all but the two that delete", len(report.Guarantees))
		}
	})
}

// counted notes the keys that are used.
type counted struct {
	objectstore.Store
	mu   sync.Mutex // guards the following
	keys map[string]bool
	n    int
	sent int64
}

func (s *counted) note(key string, sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key] = true
	s.n++
	s.sent += sent
}

func (s *counted) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	s.note(key, body.Size())
	return s.Store.Put(ctx, key, body, opts)
}

func (s *counted) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	s.note(key, 0)
	return s.Store.Get(ctx, key, r)
}

func (s *counted) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	s.note(key, 0)
	return s.Store.Stat(ctx, key)
}

func (s *counted) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	s.note(prefix, 0)
	return s.Store.List(ctx, prefix, after)
}

func (s *counted) Delete(ctx context.Context, key string) error {
	s.note(key, 0)
	return s.Store.Delete(ctx, key)
}

// TestOwnKeysOnly: a probe touches nothing but its own, other than which two
// probes at once have, and costs what is said.
func TestOwnKeysOnly(t *testing.T) {
	good := mem.New()
	if _, err := good.Put(t.Context(), "config", bytes.NewReader([]byte("x")), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	bases := make([]string, 2)
	for i := range bases {
		wg.Go(func() {
			s := &counted{Store: good, keys: map[string]bool{}}
			wantLacks(t, run(t, s))
			for key := range s.keys {
				base := strings.Join(strings.Split(key, "/")[:2], "/")
				if bases[i] == "" {
					bases[i] = base
				}
				if base != bases[i] || !strings.HasPrefix(base, "probe/") {
					t.Errorf("it used %s, and %s", key, bases[i])
				}
			}
			if s.n > 1200 || s.sent > 6<<20 {
				t.Errorf("%d requests, %d bytes put", s.n, s.sent)
			}
		})
	}
	wg.Wait()
	if bases[0] == bases[1] {
		t.Errorf("both used %s", bases[0])
	}
	if _, err := good.Stat(t.Context(), "config"); err != nil {
		t.Error(err)
	}
}
