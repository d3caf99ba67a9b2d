package transport_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

func TestRetriesWhatMaySucceedLater(t *testing.T) {
	for kind, operation := range operations {
		for _, cause := range []error{objectstore.ErrThrottled, objectstore.ErrUnavailable} {
			bubble(t, func(t *testing.T) {
				faults := fault.New(holding(t, "a", "old"), first(9, kind, fault.Fail(cause)))
				s := transport.New(faults, transport.Options{})
				if err := operation(t.Context(), s); err != nil {
					t.Errorf("%s after 9 failures with %v: %v", kind, cause, err)
				}
				if got := s.Counts().Retries; faults.Calls() != 10 || got != 9 {
					t.Errorf("%s: %d requests, %d of them retries", kind, faults.Calls(), got)
				}
			})
		}
	}
}

func TestTellsOfRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told []transport.Retry
		started := time.Now()
		s := transport.New(fault.New(mem.New(), first(3, fault.Put, fault.Fail(objectstore.ErrUnavailable))), transport.Options{
			Waiting: func(r transport.Retry) { told = append(told, r) },
		})
		if err := put(t.Context(), s, "a", "content"); err != nil {
			t.Fatal(err)
		}
		if len(told) != 3 {
			t.Fatalf("told of %d retries, want 3", len(told))
		}
		waited := time.Duration(0)
		for i, r := range told {
			if r.Op != "put" || r.Key != "a" || r.Attempt != i+1 || !errors.Is(r.Err, objectstore.ErrUnavailable) {
				t.Errorf("retry %d: %+v", i, r)
			}
			waited += r.Wait
		}
		if took := time.Since(started); waited != took {
			t.Errorf("told of waits of %v, it took %v", waited, took)
		}
	})
}

func TestRetriesNothingElse(t *testing.T) {
	causes := []error{fault.ErrInjected, objectstore.ErrDenied, objectstore.ErrNoSpace, objectstore.ErrNotExist, objectstore.ErrExist}
	for kind, operation := range operations {
		for _, cause := range causes {
			faults := fault.New(mem.New(), always(fault.Fail(cause)))
			err := operation(t.Context(), transport.New(faults, transport.Options{}))
			wantError(t, err, kind, cause)
			if faults.Calls() != 1 {
				t.Errorf("%s after %v: %d requests", kind, cause, faults.Calls())
			}
		}
	}
}

func wantError(t *testing.T, err error, kind fault.Kind, cause error) {
	t.Helper()
	var e *objectstore.Error
	if !errors.As(err, &e) || e.Op != string(kind) || e.Key != "a" || !errors.Is(err, cause) {
		t.Errorf("%s: error %v, want %v about object a", kind, err, cause)
	}
	if err != nil && strings.Count(err.Error(), string(kind)+" a:") != 1 {
		t.Errorf("%s: error names the operation more or less than once: %v", kind, err)
	}
}

func TestErrorSaysWhatWasTried(t *testing.T) {
	for kind, operation := range operations {
		bubble(t, func(t *testing.T) {
			faults := fault.New(mem.New(), always(fault.Fail(objectstore.ErrUnavailable)))
			s := transport.New(faults, transport.Options{MaxAttempts: 4})
			var err error
			elapsed := took(func() { err = operation(t.Context(), s) })
			wantError(t, err, kind, objectstore.ErrUnavailable)
			want := fmt.Sprintf("given up at attempt 4, after %v", elapsed.Round(time.Millisecond))
			if err == nil || !strings.Contains(err.Error(), want) || faults.Calls() != 4 {
				t.Errorf("%s: %v, want %q after 4 requests, not %d", kind, err, want, faults.Calls())
			}
		})
	}
}

func TestFinalAnswerAfterRetriesSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		faults := fault.New(mem.New(), first(2, fault.Stat, fault.Fail(objectstore.ErrUnavailable)))
		_, err := transport.New(faults, transport.Options{}).Stat(t.Context(), "a")
		wantError(t, err, fault.Stat, objectstore.ErrNotExist)
		if err == nil || !strings.Contains(err.Error(), "attempt 3") {
			t.Errorf("error %v does not name attempt 3", err)
		}
	})
}
