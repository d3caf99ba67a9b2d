package fault_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformanceWithoutFaults(t *testing.T) {
	none := func(fault.Op) fault.Fault { return fault.Fault{} }
	objectstoretest.Run(t, func(*testing.T) objectstore.Store { return fault.New(mem.New(), none) })
}

func put(ctx context.Context, s objectstore.Store, key, content string) error {
	_, err := s.Put(ctx, key, strings.NewReader(content), objectstore.PutOptions{})
	return err
}

func get(ctx context.Context, s objectstore.Store, key string) (string, error) {
	content, err := objectstore.ReadAll(ctx, s, key, 1<<20)
	return string(content), err
}

// list returns the keys and the error of a listing.
func list(ctx context.Context, s objectstore.Store, prefix string) (keys []string, last error) {
	for info, err := range s.List(ctx, prefix, "") {
		if err != nil {
			return keys, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// filled is a store in memory with two objects.
func filled(t *testing.T) *mem.Store {
	t.Helper()
	s := mem.New()
	for _, key := range []string{"a", "b"} {
		if err := put(t.Context(), s, key, "old "+key); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// always applies a fault to every call.
func always(f fault.Fault) fault.Injector { return func(fault.Op) fault.Fault { return f } }

// calls has one call of each kind, on object a.
var calls = map[fault.Kind]func(context.Context, objectstore.Store) error{
	fault.Put: func(ctx context.Context, s objectstore.Store) error { return put(ctx, s, "a", "new") },
	fault.Get: func(ctx context.Context, s objectstore.Store) error { _, err := get(ctx, s, "a"); return err },
	fault.Stat: func(ctx context.Context, s objectstore.Store) error {
		_, err := s.Stat(ctx, "a")
		return err
	},
	fault.List:   func(ctx context.Context, s objectstore.Store) error { _, err := list(ctx, s, "a"); return err },
	fault.Delete: func(ctx context.Context, s objectstore.Store) error { return s.Delete(ctx, "a") },
}

func wantError(t *testing.T, err error, kind fault.Kind, cause error) {
	t.Helper()
	var e *objectstore.Error
	if !errors.As(err, &e) || e.Op != string(kind) || e.Key != "a" || !errors.Is(err, cause) {
		t.Errorf("%s: error %v, want %v about object a", kind, err, cause)
	}
}

func TestFailDoesNothing(t *testing.T) {
	for kind, call := range calls {
		inner := filled(t)
		s := fault.New(inner, always(fault.Fail(objectstore.ErrThrottled)))
		wantError(t, call(t.Context(), s), kind, objectstore.ErrThrottled)
		if got, err := get(t.Context(), inner, "a"); got != "old a" || err != nil {
			t.Errorf("after %s the object is %q, %v", kind, got, err)
		}
	}
}

func TestLoseAckDoesTheWork(t *testing.T) {
	for kind, call := range calls {
		inner := filled(t)
		s := fault.New(inner, fault.LoseAckNth(1))
		wantError(t, call(t.Context(), s), kind, fault.ErrInjected)
		got, err := get(t.Context(), inner, "a")
		switch kind {
		case fault.Put:
			if got != "new" {
				t.Errorf("after put the object is %q, %v", got, err)
			}
		case fault.Delete:
			if !errors.Is(err, objectstore.ErrNotExist) {
				t.Errorf("after delete the object is %q, %v", got, err)
			}
		}
		if kind != fault.Delete {
			if err := call(t.Context(), s); err != nil {
				t.Errorf("second %s: %v", kind, err)
			}
		}
	}
}

func TestAwait(t *testing.T) {
	for kind, call := range calls {
		decision := make(chan fault.Fault)
		s := fault.New(filled(t), fault.Nth(1, fault.Await(decision)))
		done := make(chan error)
		go func() { done <- call(t.Context(), s) }()
		decision <- fault.Fail(fault.ErrInjected)
		wantError(t, <-done, kind, fault.ErrInjected)

		decision = make(chan fault.Fault)
		s = fault.New(filled(t), fault.Nth(1, fault.Await(decision)))
		go func() { done <- call(t.Context(), s) }()
		select {
		case err := <-done:
			t.Fatalf("%s did not wait: %v", kind, err)
		case decision <- fault.Await(decision): // once more
		}
		close(decision)
		if err := <-done; err != nil {
			t.Errorf("%s after its delay: %v", kind, err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		s = fault.New(filled(t), fault.Nth(1, fault.Await(make(chan fault.Fault))))
		go func() { done <- call(ctx, s) }()
		cancel()
		wantError(t, <-done, kind, context.Canceled)
	}
}

func TestNthCountsAllKinds(t *testing.T) {
	ctx := t.Context()
	s := fault.New(filled(t), fault.FailNth(3, fault.ErrInjected))
	if err := put(ctx, s, "a", "x"); err != nil {
		t.Error(err)
	}
	if _, err := s.Stat(ctx, "a"); err != nil {
		t.Error(err)
	}
	_, err := list(ctx, s, "a")
	wantError(t, err, fault.List, fault.ErrInjected)
	if _, err := list(ctx, s, "a"); err != nil {
		t.Error(err)
	}
	if s.Calls() != 4 {
		t.Errorf("%d calls, want 4", s.Calls())
	}
}

func TestFailFrom(t *testing.T) {
	s := fault.New(filled(t), fault.FailFrom(2, fault.ErrInjected))
	for i := range 4 {
		if _, err := s.Stat(t.Context(), "a"); (i >= 1) != errors.Is(err, fault.ErrInjected) {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
}

func TestInjectorSeesEveryCallOnce(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]fault.Op{}
	note := func(op fault.Op) fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		if _, found := seen[op.N]; found {
			t.Errorf("number %d twice", op.N)
		}
		seen[op.N] = op
		return fault.Fault{}
	}
	s := fault.New(filled(t), fault.On(fault.Get, "b", fault.Fail(fault.ErrInjected)), note)
	var wg sync.WaitGroup
	for range 10 {
		for _, call := range calls {
			wg.Go(func() { _ = call(t.Context(), s) })
		}
	}
	wg.Wait()
	if _, err := get(t.Context(), s, "b"); !errors.Is(err, fault.ErrInjected) {
		t.Errorf("get b: %v", err)
	}
	if seen[51] != (fault.Op{Kind: fault.Get, Key: "b", N: 51}) || len(seen) != 51 {
		t.Errorf("saw %d calls, the last %+v", len(seen), seen[51])
	}
	want := map[fault.Kind]int{fault.Put: 10, fault.Get: 10, fault.Stat: 10, fault.List: 10, fault.Delete: 10}
	if got := s.Counts("a"); !maps.Equal(got, want) {
		t.Errorf("counts below a: %v", got)
	}
	if got := s.Counts("b"); !maps.Equal(got, map[fault.Kind]int{fault.Get: 1}) {
		t.Errorf("counts below b: %v", got)
	}
}

func TestSweepReachesEveryCall(t *testing.T) {
	scenario := func(ctx context.Context, s objectstore.Store) error {
		return errors.Join(put(ctx, s, "one", "1"), put(ctx, s, "two", "2"), s.Delete(ctx, "one"))
	}
	failures := 0
	for n := 1; ; n++ {
		s := fault.New(mem.New(), fault.FailNth(n, fault.ErrInjected))
		err := scenario(t.Context(), s)
		if s.Calls() < n {
			if err != nil {
				t.Errorf("the last run failed: %v", err)
			}
			break
		}
		if !errors.Is(err, fault.ErrInjected) {
			t.Errorf("run %d: %v", n, err)
		}
		failures++
	}
	if failures != 3 {
		t.Errorf("%d failures, want 3", failures)
	}
}

func TestShortReads(t *testing.T) {
	inner := filled(t)
	for n := range int64(8) {
		s := fault.New(inner, always(fault.CutShort(n, fault.ErrInjected)))
		reader, err := s.Get(t.Context(), "a", objectstore.Range{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(reader)
		if want := "old a"[:min(n, 5)]; string(got) != want {
			t.Errorf("%d bytes: %q", n, got)
		}
		if n < 5 {
			wantError(t, err, fault.Get, fault.ErrInjected)
			_, again := reader.Read(make([]byte, 10))
			wantError(t, again, fault.Get, fault.ErrInjected)
		} else if err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
		keys, err := list(t.Context(), s, "")
		if len(keys) != int(min(n, 2)) || (n < 2) != errors.Is(err, fault.ErrInjected) {
			t.Errorf("listing cut at %d: %q, %v", n, keys, err)
		}
	}
}
