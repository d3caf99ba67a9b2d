package fault_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestStale(t *testing.T) {
	ctx := t.Context()
	inner := filled(t)
	s := fault.New(inner, always(fault.Stale(inner.Clone())))
	if err := put(ctx, s, "a", "new"); err != nil {
		t.Fatal(err)
	}
	if err := put(ctx, s, "c", "new"); err != nil {
		t.Fatal(err)
	}
	if got, err := get(ctx, s, "a"); got != "old a" || err != nil {
		t.Errorf("stale get: %q, %v", got, err)
	}
	if _, err := s.Stat(ctx, "c"); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("stale stat: %v", err)
	}
	if keys, err := list(ctx, s, ""); !slices.Equal(keys, []string{"a", "b"}) || err != nil {
		t.Errorf("stale list: %q, %v", keys, err)
	}
	if got, err := get(ctx, inner, "c"); got != "new" || err != nil {
		t.Errorf("the put went nowhere: %q, %v", got, err)
	}
}

func TestDrop(t *testing.T) {
	ctx := t.Context()
	inner := filled(t)
	s := fault.New(inner, always(fault.Drop()))
	info, err := s.Put(ctx, "c", strings.NewReader("12345"), objectstore.PutOptions{})
	if err != nil || info.Key != "c" || info.Size != 5 {
		t.Errorf("dropped put: %+v, %v", info, err)
	}
	if err := s.Delete(ctx, "a"); err != nil {
		t.Errorf("dropped delete: %v", err)
	}
	if keys, err := list(ctx, s, ""); !slices.Equal(keys, []string{"a", "b"}) || err != nil {
		t.Errorf("after dropped calls: %q, %v", keys, err)
	}
}

func TestTruncate(t *testing.T) {
	for n, want := range map[int64]string{0: "", 3: "123", 5: "12345", 9: "12345"} {
		s := fault.New(mem.New(), fault.On(fault.Put, "cut/", fault.Truncate(n)))
		info, err := s.Put(t.Context(), "cut/x", strings.NewReader("12345"), objectstore.PutOptions{})
		if err != nil || info.Size != 5 {
			t.Errorf("truncated put: %+v, %v", info, err)
		}
		if got, err := get(t.Context(), s, "cut/x"); got != want || err != nil {
			t.Errorf("truncated at %d: %q, %v", n, got, err)
		}
		if err := put(t.Context(), s, "whole/x", "12345"); err != nil {
			t.Error(err)
		}
		if got, err := get(t.Context(), s, "whole/x"); got != "12345" || err != nil {
			t.Errorf("other object: %q, %v", got, err)
		}
	}
}

func TestFlipBit(t *testing.T) {
	inner := mem.New()
	content := strings.Repeat("\x00", 10)
	if err := put(t.Context(), inner, "a", content); err != nil {
		t.Fatal(err)
	}
	for bit := range int64(90) {
		want := []byte(content)
		if bit < 80 {
			want[bit/8] = 1 << (bit % 8)
		}
		s := fault.New(inner, always(fault.FlipBit(bit)))
		if got, err := get(t.Context(), s, "a"); got != string(want) || err != nil {
			t.Errorf("bit %d: %q, %v", bit, got, err)
		}
	}
	s := fault.New(inner, always(fault.FlipBit(9)))
	got, err := objectstore.ReadRange(t.Context(), s, "a", 4, 3)
	if string(got) != "\x00\x02\x00" || err != nil {
		t.Errorf("in a range: %q, %v", got, err)
	}
}

func TestRepeat(t *testing.T) {
	ctx := t.Context()
	inner := filled(t)
	s := fault.New(inner, always(fault.Repeat()))
	_, err := s.Put(ctx, "c", strings.NewReader("mine"), objectstore.PutOptions{IfAbsent: true})
	if !errors.Is(err, objectstore.ErrExist) {
		t.Errorf("repeated put-if-absent: %v, want ErrExist", err)
	}
	if got, err := get(ctx, inner, "c"); got != "mine" || err != nil {
		t.Errorf("repeated put-if-absent stored %q, %v", got, err)
	}
	if err := s.Delete(ctx, "c"); err != nil {
		t.Errorf("repeated delete: %v", err)
	}
	if keys, err := list(ctx, s, ""); !slices.Equal(keys, []string{"a", "b"}) || err != nil {
		t.Errorf("after repeated calls: %q, %v", keys, err)
	}
}

// TestFaultsKeepRealErrors checks that a fault of the answer does not hide that
// there is none.
func TestFaultsKeepRealErrors(t *testing.T) {
	ctx := t.Context()
	for _, f := range []fault.Fault{fault.CutShort(1, fault.ErrInjected), fault.FlipBit(0), fault.Truncate(1), fault.LoseAck(fault.ErrInjected)} {
		s := fault.New(mem.New(), always(f))
		_, err := s.Get(ctx, "a", objectstore.Range{})
		wantError(t, err, fault.Get, objectstore.ErrNotExist)
		_, err = s.Put(ctx, "a", strings.NewReader("x"), objectstore.PutOptions{IfMatch: "y"})
		wantError(t, err, fault.Put, objectstore.ErrPrecondition)
	}
}
