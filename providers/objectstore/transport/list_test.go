package transport_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

// hundred is a store with a hundred objects, and their keys.
func hundred(t *testing.T) (s *mem.Store, keys []string) {
	t.Helper()
	s = mem.New()
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("a/%02d", i))
		if err := put(t.Context(), s, keys[i], "x"); err != nil {
			t.Fatal(err)
		}
	}
	return s, keys
}

// TestBrokenListingsGoOn breaks listings after every n keys, which takes many
// more attempts than one request may have.
func TestBrokenListingsGoOn(t *testing.T) {
	for n := range 12 {
		bubble(t, func(t *testing.T) {
			inner, keys := hundred(t)
			faults := fault.New(inner, func(op fault.Op) fault.Fault {
				if n == 0 && op.N < 10 {
					return fault.CutShort(0, objectstore.ErrThrottled)
				}
				return fault.CutShort(max(1, int64(n)), objectstore.ErrUnavailable)
			})
			s := transport.New(faults, transport.Options{})
			got, err := list(t.Context(), s, "a/")
			if !slices.Equal(got, keys) || err != nil {
				t.Errorf("cut after %d: %d keys, %v", n, len(got), err)
			}
			if n > 0 && s.Counts().List != int64((100+n-1)/n) {
				t.Errorf("cut after %d: %d listings", n, s.Counts().List)
			}
		})
	}
}

// TestKeysEndTrouble breaks a listing ten times, for half of the time each that
// is allowed between a failure and the next key.
func TestKeysEndTrouble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner, keys := hundred(t)
		wait := &objectstore.Wait{For: 30 * time.Second, Err: objectstore.ErrThrottled}
		s := transport.New(fault.New(inner, always(fault.CutShort(10, wait))), transport.Options{MaxElapsed: time.Minute})
		got, err := list(t.Context(), s, "a/")
		if !slices.Equal(got, keys) || err != nil {
			t.Errorf("%d keys, %v", len(got), err)
		}
	})
}

func TestListingWithoutProgressIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner, _ := hundred(t)
		faults := fault.New(inner, func(op fault.Op) fault.Fault {
			if op.N == 1 {
				return fault.CutShort(7, objectstore.ErrUnavailable)
			}
			return fault.CutShort(0, objectstore.ErrUnavailable)
		})
		keys, err := list(t.Context(), transport.New(faults, transport.Options{}), "a")
		wantError(t, err, fault.List, objectstore.ErrUnavailable)
		if len(keys) != 7 || faults.Calls() != 10 {
			t.Errorf("%d keys, %d requests", len(keys), faults.Calls())
		}
	})
}

func TestStalledListingGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner, keys := hundred(t)
		s := transport.New(fault.New(inner, first(1, fault.List, fault.Stall(40))), transport.Options{StallTimeout: time.Minute})
		got, err := list(t.Context(), s, "a/")
		if !slices.Equal(got, keys) || err != nil {
			t.Errorf("%d keys, %v", len(got), err)
		}
	})
}

// TestSlowLoopIsNotStalled stays in the body of the loop for long.
func TestSlowLoopIsNotStalled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner, _ := hundred(t)
		s := transport.New(inner, transport.Options{StallTimeout: time.Minute})
		n := 0
		for _, err := range s.List(t.Context(), "a/", "") {
			if err != nil {
				t.Fatal(err)
			}
			n++
			time.Sleep(time.Hour)
		}
		if n != 100 || s.Counts().List != 1 {
			t.Errorf("%d keys in %d listings", n, s.Counts().List)
		}
	})
}

func TestStoppedListingIsNotResumed(t *testing.T) {
	inner, _ := hundred(t)
	faults := fault.New(inner, always(fault.CutShort(1, objectstore.ErrUnavailable)))
	for _, err := range transport.New(faults, transport.Options{}).List(t.Context(), "a/", "") {
		if errors.Is(err, objectstore.ErrUnavailable) {
			t.Error(err)
		}
		break
	}
	if faults.Calls() != 1 {
		t.Errorf("%d requests", faults.Calls())
	}
}
