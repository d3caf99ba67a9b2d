package objectstore_test

import (
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keyPattern says what ValidKey says, but for the lengths.
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

func TestValidKeyMatchesPattern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.OneOf(rapid.String(), rapid.StringMatching(`[aZ0._/-]{0,12}`)).Draw(t, "key")
		err := objectstore.ValidKey(key)
		if valid := keyPattern.MatchString(key); valid != (err == nil) {
			t.Fatalf("%q: %v, pattern says %v", key, err, valid)
		}
		if err != nil && !errors.Is(err, objectstore.ErrInvalidKey) {
			t.Fatalf("%q: %v is not ErrInvalidKey", key, err)
		}
	})
}

func TestValidKeyLengths(t *testing.T) {
	for key, valid := range map[string]bool{
		strings.Repeat("a", 255):              true,
		strings.Repeat("a", 256):              false,
		"x/" + strings.Repeat("a", 256):       false,
		strings.Repeat("a/", 255) + "aa":      true,
		strings.Repeat("a/", 255) + "aaa":     false,
		strings.Repeat("a", 255) + "/" + "ab": true,
	} {
		if err := objectstore.ValidKey(key); valid != (err == nil) {
			t.Errorf("key of %d bytes: %v", len(key), err)
		}
	}
}

func TestRangeWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Just(int64(math.MaxInt64))).Draw(t, "size")
		number := rapid.OneOf(rapid.Int64Range(-2, 25), rapid.Int64())
		r := objectstore.Range{Offset: number.Draw(t, "offset"), Length: number.Draw(t, "length")}
		got, err := r.Within(size)
		outside := r.Offset < 0 || r.Length < 0 || r.Offset > 0 && r.Offset >= size
		if outside != errors.Is(err, objectstore.ErrRange) {
			t.Fatalf("%+v within %d: %v", r, size, err)
		}
		if err != nil {
			return
		}
		cut := got.Offset+got.Length == size
		exact := r.Length > 0 && got.Length == r.Length
		if got.Offset != r.Offset || got.Length < 0 || got.Length > size-got.Offset || !cut && !exact {
			t.Fatalf("%+v within %d: %+v", r, size, got)
		}
	})
}

func TestReadAll(t *testing.T) {
	store := mem.New()
	content := strings.Repeat("0123456789", 10_000)
	if _, err := store.Put(t.Context(), "key", strings.NewReader(content), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{100_000, 100_001, 1 << 40} {
		got, err := objectstore.ReadAll(t.Context(), store, "key", limit)
		if err != nil || string(got) != content {
			t.Errorf("limit %d: %d bytes, %v", limit, len(got), err)
		}
	}
	for _, limit := range []int64{0, 1, 99_999} {
		got, err := objectstore.ReadAll(t.Context(), store, "key", limit)
		wantGetError(t, err)
		if got != nil {
			t.Errorf("limit %d: %d bytes", limit, len(got))
		}
	}
	_, err := objectstore.ReadAll(t.Context(), store, "absent", 10)
	if !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func TestReadRange(t *testing.T) {
	store := mem.New()
	if _, err := store.Put(t.Context(), "key", strings.NewReader("0123456789"), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		offset, length int64
		want           string
		err            error
	}{
		{0, 10, "0123456789", nil},
		{3, 4, "3456", nil},
		{9, 1, "9", nil},
		{9, 2, "", io.ErrUnexpectedEOF},
		{0, 11, "", io.ErrUnexpectedEOF},
		{10, 1, "", objectstore.ErrRange},
	} {
		got, err := objectstore.ReadRange(t.Context(), store, "key", test.offset, test.length)
		if test.err != nil {
			wantGetError(t, err)
		}
		if !errors.Is(err, test.err) || err == nil && string(got) != test.want {
			t.Errorf("%d bytes at %d: %q, %v, want %q, %v", test.length, test.offset, got, err, test.want, test.err)
		}
	}
}

func TestReadFailsWithItsReader(t *testing.T) {
	inner := mem.New()
	if _, err := inner.Put(t.Context(), "key", strings.NewReader("0123456789"), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	store := fault.New(inner, fault.On(fault.Get, "", fault.CutShort(5, fault.ErrInjected)))
	_, err := objectstore.ReadAll(t.Context(), store, "key", 100)
	wantGetError(t, err)
	if !errors.Is(err, fault.ErrInjected) || strings.Count(err.Error(), "get key") != 1 {
		t.Errorf("ReadAll: %v", err)
	}
	if _, err := objectstore.ReadRange(t.Context(), store, "key", 2, 6); !errors.Is(err, fault.ErrInjected) {
		t.Errorf("ReadRange: %v", err)
	}
	if got, err := objectstore.ReadRange(t.Context(), store, "key", 2, 5); err != nil || string(got) != "23456" {
		t.Errorf("ReadRange of what can be read: %q, %v", got, err)
	}
}

func wantGetError(t *testing.T, err error) {
	t.Helper()
	var e *objectstore.Error
	if !errors.As(err, &e) || e.Op != "get" || e.Key != "key" {
		t.Errorf("error %v, want an *Error about getting the key", err)
	}
}

func TestError(t *testing.T) {
	err := error(&objectstore.Error{Op: "put", Key: "a/b", Err: objectstore.ErrNoSpace})
	if got, want := err.Error(), "put a/b: no space left in the store"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if !errors.Is(err, objectstore.ErrNoSpace) || errors.Is(err, objectstore.ErrDenied) {
		t.Error("the cause is lost")
	}
}
