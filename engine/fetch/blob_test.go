package fetch

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
)

func TestNode(t *testing.T) {
	r := newRepo()
	a, b := content(1, 1000), content(2, 0)
	r.pack(t, blob.Tree, [][]byte{a, b})
	store := fault.New(r.store)
	f := r.fetcher(store)
	for range 3 {
		for _, want := range [][]byte{a, b} {
			got, err := f.Node(t.Context(), r.namer.ID(blob.Tree, want))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%x, %v", got, err)
			}
			if cap(got) != len(got) {
				t.Error("an append would write into the neighbour")
			}
		}
	}
	if n := store.Calls(); n != 1 {
		t.Errorf("%d requests for one frame", n)
	}
}

// TestErrors tells apart why a blob cannot be had.
func TestErrors(t *testing.T) {
	flip := func(b []byte) []byte { b[100] ^= 1; return b }
	half := func(b []byte) []byte { return b[:len(b)/2] }
	gone := func([]byte) []byte { return nil }
	place := func(change func(*Location)) func(*repo, blob.ID) {
		return func(r *repo, id blob.ID) { change(&r.places[id][0]) }
	}
	for name, c := range map[string]struct {
		object func([]byte) []byte
		index  func(*repo, blob.ID)
		want   error
		lost   bool
	}{
		"not indexed":    {nil, func(r *repo, id blob.ID) { r.places[id] = nil }, ErrNotIndexed, true},
		"pack gone":      {gone, nil, objectstore.ErrNotExist, true},
		"bit flipped":    {flip, nil, seal.ErrDamaged, true},
		"cut short":      {half, nil, seal.ErrDamaged, true},
		"offset":         {nil, place(func(l *Location) { l.Offset++ }), seal.ErrDamaged, true},
		"length":         {nil, place(func(l *Location) { l.Length++ }), seal.ErrDamaged, true},
		"frame offset":   {nil, place(func(l *Location) { l.FrameOffset++ }), seal.ErrDamaged, true},
		"past the end":   {nil, place(func(l *Location) { l.FrameOffset = 1 << 29 }), seal.ErrDamaged, true},
		"frame length":   {nil, place(func(l *Location) { l.FrameLength = 1 << 30 }), seal.ErrDamaged, true},
		"no frame":       {nil, place(func(l *Location) { l.FrameLength = 0 }), seal.ErrDamaged, true},
		"content length": {nil, place(func(l *Location) { l.FrameContent = 1<<32 - 1 }), seal.ErrDamaged, true},
		"other blob": {nil, func(r *repo, id blob.ID) {
			other := r.namer.ID(blob.Data, content(2, 3000))
			r.places[id] = r.places[other]
		}, seal.ErrDamaged, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo()
			plain := content(1, 3000)
			pack := r.pack(t, blob.Data, [][]byte{plain, content(2, 3000)})
			id := r.namer.ID(blob.Data, plain)
			if c.object != nil {
				r.change(t, pack, c.object)
			}
			if c.index != nil {
				c.index(r, id)
			}
			_, err := r.fetcher(r.store).Blob(t.Context(), blob.Data, id)
			_, errs := collect(t, r.fetcher(r.store), blob.Data, []blob.ID{id})
			for _, err := range []error{err, errs[0]} {
				var own *Error
				if !errors.Is(err, c.want) || !errors.As(err, &own) || own.ID != id || own.Kind != blob.Data {
					t.Errorf("got %v", err)
				} else if own.Pack != pack && c.want != ErrNotIndexed {
					t.Errorf("names pack %v", own.Pack)
				}
				if Lost(err) != c.lost {
					t.Errorf("lost: %v", Lost(err))
				}
			}
		})
	}
}

// TestWrongKind: a data frame never passes for a tree frame.
func TestWrongKind(t *testing.T) {
	r := newRepo()
	plain := content(1, 100)
	r.pack(t, blob.Data, [][]byte{plain})
	r.places[r.namer.ID(blob.Tree, plain)] = r.places[r.namer.ID(blob.Data, plain)]
	if _, err := r.fetcher(r.store).Node(t.Context(), r.namer.ID(blob.Tree, plain)); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

// TestCopies: any good copy will do.
func TestCopies(t *testing.T) {
	r := newRepo()
	plain := content(1, 3000)
	id := r.namer.ID(blob.Data, plain)
	var packs []packfile.Name
	for range 3 {
		packs = append(packs, r.pack(t, blob.Data, [][]byte{content(9, 10), plain}))
	}
	r.change(t, packs[0], func([]byte) []byte { return nil })
	r.change(t, packs[1], func(b []byte) []byte { b[100] ^= 1; return b })
	f := r.fetcher(r.store)
	if got, err := f.Blob(t.Context(), blob.Data, id); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("%v", err)
	}
	if got, errs := collect(t, f, blob.Data, []blob.ID{id}); errs[0] != nil || !bytes.Equal(got[0], plain) {
		t.Errorf("%v", errs[0])
	}
	r.change(t, packs[2], func(b []byte) []byte { return b[:60] })
	f = r.fetcher(r.store)
	_, err := f.Blob(t.Context(), blob.Data, id)
	_, errs := collect(t, f, blob.Data, []blob.ID{id})
	for _, err := range []error{err, errs[0]} {
		if !errors.Is(err, seal.ErrDamaged) || !errors.Is(err, objectstore.ErrNotExist) || !Lost(err) || !strings.Contains(err.Error(), "3 copies") {
			t.Errorf("got %v", err)
		}
	}
	// While one copy is only out of reach, the blob is not lost.
	store := fault.New(r.store, fault.On(fault.Get, packKey(packs[2]), fault.Fail(objectstore.ErrDenied)))
	if _, err := r.fetcher(store).Blob(t.Context(), blob.Data, id); !errors.Is(err, objectstore.ErrDenied) || Lost(err) {
		t.Errorf("got %v, lost %v", err, Lost(err))
	}
}

// TestOneRequest: many who want the same frame wait for one request, and one
// whose context ends does not take the others with it.
func TestOneRequest(t *testing.T) {
	r := newRepo()
	plain := content(1, 3000)
	r.pack(t, blob.Tree, [][]byte{plain})
	id := r.namer.ID(blob.Tree, plain)
	hold := make(chan fault.Fault)
	asked := make(chan struct{}, 100)
	store := fault.New(r.store, func(op fault.Op) fault.Fault {
		asked <- struct{}{}
		if op.N == 1 {
			return fault.Await(hold)
		}
		return fault.Fault{}
	})
	f := r.fetcher(store)
	ctx, cancel := context.WithCancel(t.Context())
	var first error
	var wg sync.WaitGroup
	wg.Go(func() { _, first = f.Node(ctx, id) })
	<-asked // it is the one that asks
	for range 20 {
		wg.Go(func() {
			if got, err := f.Node(t.Context(), id); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%v", err)
			}
		})
	}
	cancel()
	wg.Wait()
	if !errors.Is(first, context.Canceled) {
		t.Errorf("got %v", first)
	}
	if n := store.Calls(); n != 2 {
		t.Errorf("%d requests, want the one that was cancelled and one more", n)
	}
}

// TestCacheIsBounded: frames used longest ago are dropped.
func TestCacheIsBounded(t *testing.T) {
	r := newRepo()
	var frames [][][]byte
	var ids []blob.ID
	for i := range 10 {
		b := content(i, 1000)
		frames, ids = append(frames, [][]byte{b}), append(ids, r.namer.ID(blob.Tree, b))
	}
	r.pack(t, blob.Tree, frames...)
	store := fault.New(r.store)
	f := New(Config{Store: store, Sealer: r.sealer, Namer: r.namer, Locator: r, CacheBytes: 3500})
	get := func(i, want int) {
		t.Helper()
		before := store.Calls()
		_, err := f.Node(t.Context(), ids[i])
		must(t, err)
		if n := store.Calls() - before; n != want {
			t.Errorf("frame %d: %d requests, want %d", i, n, want)
		}
	}
	for i := range 3 {
		get(i, 1)
	}
	get(0, 0)
	get(3, 1) // drops 1
	get(0, 0)
	get(2, 0)
	get(1, 1)
	if f.cache.used > 3500 || len(f.cache.entries) != f.cache.recent.Len() {
		t.Errorf("%d bytes, %d entries", f.cache.used, len(f.cache.entries))
	}
	small := New(Config{Store: store, Sealer: r.sealer, Namer: r.namer, Locator: r, CacheBytes: 1})
	_, err := small.Node(t.Context(), ids[0])
	must(t, err)
	if len(small.cache.entries) != 0 {
		t.Error("a frame larger than the cache was kept")
	}
}
