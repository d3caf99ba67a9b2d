package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

const key = "packs/object"

// shared is an object of ten blocks behind a gate and a cache.
type shared struct {
	gate  *gate
	store *Store
	want  []byte
}

func newShared(t *testing.T) shared {
	want := content(1, 10*small)
	g := newGate(holding(t, key, want))
	return shared{g, open(t, g, newDir(t), Options{}), want}
}

// get opens a reader of the whole object, of which the first block is let
// through.
func (s shared) get(t *testing.T, ctx context.Context) io.ReadCloser {
	t.Helper()
	if s.gate.limit == 0 {
		s.gate.letThrough(small)
	}
	r, err := s.store.Get(ctx, key, objectstore.Range{Length: 10 * small})
	must(t, err)
	return r
}

// wantRest reads a reader to its end and closes it.
func (s shared) wantRest(t *testing.T, r io.ReadCloser, from int) {
	t.Helper()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, s.want[from:]) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(s.want)-from)
	}
	must(t, r.Close())
}

func (s shared) wantRequests(t *testing.T, want int) {
	t.Helper()
	if asked := s.gate.asked(); len(asked) != want {
		t.Errorf("asked for %v, want %d requests", asked, want)
	}
	if n := s.gate.stillOpen(); n != 0 {
		t.Errorf("%d readers of the inner store are open", n)
	}
}

func bubble(t *testing.T, test func(t *testing.T, s shared)) {
	synctest.Test(t, func(t *testing.T) { test(t, newShared(t)) })
}

// TestBytesAreHandedOutAsTheyArrive: a reader does not wait for the rest of its
// range.
func TestBytesAreHandedOutAsTheyArrive(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		r := s.get(t, t.Context())
		for n := range int64(10) {
			s.gate.letThrough((n + 1) * small)
			block := make([]byte, small)
			_, err := io.ReadFull(r, block)
			if err != nil || !bytes.Equal(block, s.want[n*small:(n+1)*small]) {
				t.Fatalf("block %d: %v", n, err)
			}
		}
		s.wantRest(t, r, len(s.want))
		s.wantRequests(t, 1)
	})
}

// TestManyReadersOneRequest: they all wait for the first.
func TestManyReadersOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { wantRead(t, s.store, key, 0, 10*small, s.want) })
		}
		synctest.Wait()
		s.gate.letThrough(5*small + 7)
		synctest.Wait()
		s.gate.letThrough(math.MaxInt64)
		wg.Wait()
		s.wantRequests(t, 1)
		if fetched := s.store.Stats().BytesFetched; fetched != 10*small {
			t.Errorf("fetched %d bytes", fetched)
		}
	})
}

// TestStalledReader: one who opened the request and does not read holds up
// nobody.
func TestStalledReader(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		stalled := s.get(t, t.Context())
		s.gate.letThrough(math.MaxInt64)
		wantRead(t, s.store, key, 5, 7*small, s.want[5:7*small+5])
		wantRead(t, s.store, key, 0, 10*small, s.want)
		s.wantRest(t, stalled, 0)
		s.wantRequests(t, 1)
	})
}

// TestReaderLeaves: the request lives as long as somebody reads from it.
func TestReaderLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		ctx, cancel := context.WithCancel(t.Context())
		first, second := s.get(t, ctx), s.get(t, t.Context())
		s.gate.letThrough(2 * small)
		must(t, onlyErr(io.ReadFull(second, make([]byte, 2*small))))
		must(t, first.Close())
		cancel() // as callers do when they are done
		s.gate.letThrough(math.MaxInt64)
		s.wantRest(t, second, 2*small)
		s.wantRequests(t, 1)
	})
}

// TestAllReadersLeave: the request ends with its last reader, and what it
// brought is kept.
func TestAllReadersLeave(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		r := s.get(t, t.Context())
		s.gate.letThrough(math.MaxInt64)
		must(t, onlyErr(io.ReadFull(r, make([]byte, 3*small-5))))
		must(t, r.Close())
		must(t, r.Close())
		s.wantRequests(t, 1)
		if _, err := r.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("read after close: %v", err)
		}
		wantRead(t, s.store, key, 0, 3*small, s.want[:3*small])
		s.wantRequests(t, 0)
		wantRead(t, s.store, key, 0, 4*small, s.want[:4*small])
		s.wantRequests(t, 1)
	})
}

// TestNothingIsFetchedTwice, however readers meet.
func TestNothingIsFetchedTwice(t *testing.T) {
	inner := mem.New()
	counting := fault.New(inner)
	s := open(t, counting, newDir(t), Options{})
	const objects = 50
	for i := range objects {
		key, want := fmt.Sprint("packs/", i), content(i, 6*small-1)
		put(t, inner, key, want)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { wantRead(t, s, key, 0, 0, want) })
		}
		wg.Wait()
	}
	if n := counting.Calls(); n != objects {
		t.Errorf("%d requests, want %d", n, objects)
	}
}

// TestBehindAnother: a request ends where another one that is under way starts.
func TestBehindAnother(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		var wg sync.WaitGroup
		wg.Go(func() { wantRead(t, s.store, key, 4*small, 6*small, s.want[4*small:]) })
		synctest.Wait()
		wg.Go(func() { wantRead(t, s.store, key, 0, 10*small, s.want) })
		synctest.Wait()
		asked := s.gate.asked()
		if len(asked) != 2 || asked[1] != (objectstore.Range{Length: 4 * small}) {
			t.Errorf("asked for %v", asked)
		}
		s.gate.letThrough(math.MaxInt64)
		wg.Wait()
		s.wantRequests(t, 0)
	})
}

// TestBehindTheEnd: a reader that waits for a block of another one's request
// learns that the object ends before it.
func TestBehindTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s shared) {
		s.gate.letThrough(small)
		r, err := s.store.Get(t.Context(), key, objectstore.Range{})
		must(t, err)
		s.gate.letThrough(math.MaxInt64)
		if _, err := read(t.Context(), s.store, key, 15*small, 1); !errors.Is(err, objectstore.ErrRange) {
			t.Errorf("got %v", err)
		}
		s.wantRest(t, r, 0)
		s.wantRequests(t, 2)
	})
}

// TestFarAhead: a reader far ahead of a request does not wait for it, and one
// behind another asks only for what that one will not bring.
func TestFarAhead(t *testing.T) {
	want := content(1, 100*small)
	g := newGate(holding(t, key, want))
	g.letThrough(math.MaxInt64)
	s := open(t, g, newDir(t), Options{})
	slow, err := s.Get(t.Context(), key, objectstore.Range{Offset: 10 * small})
	must(t, err)
	wantRead(t, s, key, 90*small, small, want[90*small:91*small])
	wantRead(t, s, key, 0, 12*small, want[:12*small])
	got, err := io.ReadAll(slow)
	if err != nil || !bytes.Equal(got, want[10*small:]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	must(t, slow.Close())
	asked := g.asked()
	if len(asked) != 3 || asked[1] != (objectstore.Range{Offset: 90 * small, Length: small}) || asked[2] != (objectstore.Range{Length: 10 * small}) {
		t.Errorf("asked for %v", asked)
	}
}

func onlyErr(_ int, err error) error { return err }
