package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// TestRequests counts what a pack costs: the first pass one request for each
// read, the second nothing, in another process either.
func TestRequests(t *testing.T) {
	pack := content(1, 16<<20)
	inner := fault.New(holding(t, key, pack))
	dir := newDir(t)
	opts := Options{Prefixes: []string{"packs/"}}
	s, err := New(inner, dir, opts)
	must(t, err)
	pieces := func(s *Store, want int) {
		t.Helper()
		before := inner.Calls()
		wantRead(t, s, key, 0, 8<<20, pack[:8<<20])
		wantRead(t, s, key, 8<<20, 8<<20, pack[8<<20:])
		if n := inner.Calls() - before; n != want {
			t.Errorf("%d requests, want %d", n, want)
		}
	}
	pieces(s, 2)
	pieces(s, 0)
	wantStats(t, s, Stats{Hits: 64, Misses: 64, BytesFromCache: 16 << 20, BytesFetched: 16 << 20})
	must(t, s.Close())

	other, err := New(inner, dir, opts)
	must(t, err)
	pieces(other, 0)
	wantRead(t, other, key, 5<<20-3, 20<<10, pack[5<<20-3:][:20<<10])
	wantStats(t, other, Stats{Hits: 66, BytesFromCache: 16<<20 + 20<<10})
	must(t, other.Close())
}

// TestEnds reads objects to their end, which is where a block ends or not, and
// learns where that is by one request.
func TestEnds(t *testing.T) {
	for _, size := range []int{0, 1, small - 1, small, small + 1, 3 * small, 300 * small} {
		want := content(1, size)
		inner := fault.New(holding(t, key, want))
		s := open(t, inner, newDir(t), Options{})
		for pass := range 3 {
			wantRead(t, s, key, 0, 0, want)
			wantRead(t, s, key, 0, math.MaxInt64, want)
			wantRead(t, s, key, 0, int64(size)+1, want)
			if size > 0 {
				wantRead(t, s, key, int64(size)-1, 0, want[size-1:])
			}
			wantCalls := 1
			if size == 300*small {
				wantCalls = 2 // of 256 blocks
			}
			if n := inner.Calls(); n != wantCalls {
				t.Errorf("%d bytes, pass %d: %d requests, want %d", size, pass, n, wantCalls)
			}
		}
		for _, offset := range []int64{int64(size), int64(size) + 1, int64(size) + small, math.MaxInt64} {
			_, err := read(t.Context(), s, key, offset, 5)
			if offset > 0 && !errors.Is(err, objectstore.ErrRange) {
				t.Errorf("%d bytes, from %d: %v", size, offset, err)
			}
		}
	}
}

// TestEndLearnedLate: the last block was full, and only the next read shows
// that it was the last.
func TestEndLearnedLate(t *testing.T) {
	want := content(1, 3*small)
	inner := fault.New(holding(t, key, want))
	s := open(t, inner, newDir(t), Options{})
	wantRead(t, s, key, 0, 3*small, want)
	for range 2 {
		wantRead(t, s, key, 0, 0, want)
		if n := inner.Calls(); n != 2 {
			t.Errorf("%d requests, want one for the bytes and one for the end", n)
		}
	}
}

// TestNeighboursAreOneRequest: what is missing between two cached blocks comes
// by one request, and nothing comes twice.
func TestNeighboursAreOneRequest(t *testing.T) {
	want := content(1, 20*small)
	g := newGate(holding(t, key, want))
	g.letThrough(math.MaxInt64)
	s := open(t, g, newDir(t), Options{})
	wantRead(t, s, key, 5*small+1, 1, want[5*small+1:][:1])
	wantRead(t, s, key, 12*small-1, 2, want[12*small-1:][:2])
	wantRead(t, s, key, 3, 16*small, want[3:16*small+3])
	asked := g.asked()
	wantAsked := []objectstore.Range{
		{Offset: 5 * small, Length: small},
		{Offset: 11 * small, Length: 2 * small},
		{Offset: 0, Length: 5 * small},
		{Offset: 6 * small, Length: 5 * small},
		{Offset: 13 * small, Length: 4 * small},
	}
	if !slices.Equal(asked, wantAsked) {
		t.Errorf("asked for %v\nwant %v", asked, wantAsked)
	}
}

// TestCancelledHit: a context counts also where no request is made.
func TestCancelledHit(t *testing.T) {
	want := content(1, 3*small)
	s := open(t, holding(t, key, want), newDir(t), Options{})
	wantRead(t, s, key, 0, 0, want)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Get(ctx, key, objectstore.Range{})
	must(t, err)
	cancel()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	must(t, r.Close())
	if _, err := s.Get(ctx, key, objectstore.Range{}); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
}

// TestStress lets many read the same objects through two caches of one
// directory, leave early, lose their contexts, and have blocks evicted and
// deleted under them.
func TestStress(t *testing.T) {
	inner := mem.New()
	var objects [4][]byte
	for i := range objects {
		objects[i] = content(i, 40*small+i)
		put(t, inner, fmt.Sprintf("packs/%d", i), objects[i])
	}
	dir := newDir(t)
	opts := Options{MaxBytes: shards * 4096} // one block a shard
	stores := []*Store{open(t, inner, dir, opts), open(t, inner, dir, opts)}
	var wg sync.WaitGroup
	for reader := range 16 {
		wg.Go(func() {
			for i := range 40 {
				at := (reader*7 + i*11) % len(objects)
				s, key, want := stores[(reader+i)%2], fmt.Sprintf("packs/%d", at), objects[at]
				offset := int64(i*37) % int64(len(want))
				switch i % 4 {
				case 0:
					wantRead(t, s, key, 0, 0, want)
				case 1:
					wantRead(t, s, key, offset, 0, want[offset:])
				case 2:
					leaveEarly(t, s, key, offset, want)
				case 3:
					s.Forget(key)
				}
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		if n := len(s.flights.byKey); n != 0 {
			t.Errorf("%d flights are left", n)
		}
	}
}

func leaveEarly(t *testing.T, s *Store, key string, offset int64, want []byte) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := s.Get(ctx, key, objectstore.Range{Offset: offset})
	if err != nil {
		t.Error(err)
		return
	}
	b := make([]byte, 100)
	n, err := r.Read(b)
	if err != nil || !bytes.Equal(b[:n], want[offset:][:n]) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if offset%2 == 0 {
		cancel()
	}
	_, _ = r.Read(b)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkGet(b *testing.B) {
	pack := content(1, 16<<20)
	inner := holding(b, key, pack)
	for _, name := range []string{"hit", "miss"} {
		b.Run(name, func(b *testing.B) {
			s, err := New(inner, newDir(b), Options{Prefixes: []string{"packs/"}})
			must(b, err)
			defer s.Close()
			b.SetBytes(8 << 20)
			for b.Loop() {
				if name == "miss" {
					b.StopTimer()
					s.Forget(key)
					b.StartTimer()
				}
				r, err := s.Get(b.Context(), key, objectstore.Range{Length: 8 << 20})
				must(b, err)
				_, err = io.Copy(io.Discard, r)
				must(b, err)
				must(b, r.Close())
			}
		})
	}
}
