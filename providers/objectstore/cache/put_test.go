package cache

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// TestOnlyChosenKeys: the rest goes straight through, also the wrong.
func TestOnlyChosenKeys(t *testing.T) {
	inner := mem.New()
	dir := newDir(t)
	s := open(t, inner, dir, Options{Prefixes: []string{"packs/", "trees/"}, KeepPut: func(string, int64) bool { return true }})
	for _, key := range []string{"other", "packs", "snapshots/packs/a"} {
		put(t, s, key, []byte(key))
		put(t, s, key, []byte("changed"))
		wantRead(t, s, key, 0, 0, []byte("changed"))
	}
	for _, key := range []string{"packs/../a", "packs//", strings.Repeat("packs/", 200)} {
		if _, err := read(t.Context(), s, key, 0, 0); !errors.Is(err, objectstore.ErrInvalidKey) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if found := files(t, dir); len(found) != 0 {
		t.Errorf("kept %q", found)
	}
	put(t, s, "trees/a", nil)
	if found := files(t, dir); len(found) != 1 {
		t.Errorf("kept %q, want the one of trees/a", found)
	}
}

// TestPutsAreKept: an object that was put is read without a request, if the
// options say so and the put did it.
func TestPutsAreKept(t *testing.T) {
	for _, size := range []int{0, 1, 2*small - 1, 2 * small, 2*small + 1} {
		inner := fault.New(mem.New())
		s := open(t, inner, newDir(t), Options{KeepPut: func(key string, n int64) bool {
			return n == int64(size) && key != "packs/unwanted"
		}})
		want := content(1, size)
		put(t, s, "packs/wanted", want)
		put(t, s, "packs/unwanted", want)
		before := inner.Calls()
		wantRead(t, s, "packs/wanted", 0, 0, want)
		if n := inner.Calls() - before; n != 0 {
			t.Errorf("%d bytes: %d requests after the put", size, n)
		}
		wantRead(t, s, "packs/unwanted", 0, 0, want)
		if n := inner.Calls() - before; n != 1 {
			t.Errorf("%d bytes: %d requests, want one for what was not kept", size, n)
		}
	}
}

func TestFailedPutIsNotKept(t *testing.T) {
	dir := newDir(t)
	s := open(t, holding(t, key, []byte("first")), dir, Options{KeepPut: func(string, int64) bool { return true }})
	for _, opts := range []objectstore.PutOptions{{IfAbsent: true}, {IfMatch: "another"}} {
		if _, err := s.Put(t.Context(), key, strings.NewReader("second"), opts); err == nil {
			t.Errorf("put with %+v succeeded", opts)
		}
	}
	if found := files(t, dir); len(found) != 0 {
		t.Errorf("kept %q", found)
	}
	wantRead(t, s, key, 0, 0, []byte("first"))
}

// TestDelete drops the blocks, also when the answer is lost.
func TestDelete(t *testing.T) {
	inner := fault.New(holding(t, key, content(1, 200*small)), fault.On(fault.Delete, key, fault.LoseAck(fault.ErrInjected)))
	dir := newDir(t)
	s := open(t, inner, dir, Options{})
	_, err := read(t.Context(), s, key, 3*small, 0)
	must(t, err)
	if err := s.Delete(t.Context(), key); !errors.Is(err, fault.ErrInjected) {
		t.Errorf("got %v", err)
	}
	if found := files(t, dir); len(found) != 0 {
		t.Errorf("%d blocks are left", len(found))
	}
	if _, err := read(t.Context(), s, key, 0, 0); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestForget: what arrived damaged was kept so, until somebody who can tell
// says it.
func TestForget(t *testing.T) {
	want := content(1, 100)
	damaged := bytes.Clone(want)
	damaged[0] ^= 1
	s := open(t, fault.New(holding(t, key, want), fault.Nth(1, fault.FlipBit(0))), newDir(t), Options{})
	wantRead(t, s, key, 0, 0, damaged)
	wantRead(t, s, key, 0, 0, damaged)
	s.Forget(key)
	wantRead(t, s, key, 0, 0, want)
}
