package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
)

func TestBlobs(t *testing.T) {
	r, ids, plain := many(t, 3, 5, 7, 300)
	ids, plain = shuffled(ids, plain)
	ids, plain = append(ids, ids[0], blob.ID{1}), append(plain, plain[0], nil)
	got, errs := collect(t, r.fetcher(r.store), blob.Data, ids)
	for i := range ids[:len(ids)-1] {
		if errs[i] != nil || !bytes.Equal(got[i], plain[i]) {
			t.Errorf("blob %d: %v", i, errs[i])
		}
	}
	if err := errs[len(ids)-1]; !errors.Is(err, ErrNotIndexed) {
		t.Errorf("got %v", err)
	}
	must(t, r.fetcher(r.store).Blobs(t.Context(), blob.Data, nil, nil))
}

// TestRequestsAreFewerThanFiles: 20,000 files of 1 KiB take about as many
// requests as there are packs.
func TestRequestsAreFewerThanFiles(t *testing.T) {
	r, ids, plain := many(t, 4, 5, 1000, 1024)
	ids, _ = shuffled(ids, plain)
	store := fault.New(r.store)
	_, errs := collect(t, r.fetcher(store), blob.Data, ids)
	if text := describe(errs); text != "" {
		t.Fatal(text)
	}
	// 4 packs of 5 MB in ranges of at least 1 MiB, which is one frame.
	if n := store.Calls(); n > 20 {
		t.Errorf("%d requests for %d files in 20 frames", n, len(ids))
	}
}

// TestPlan checks which frames go into one request.
func TestPlan(t *testing.T) {
	frame := func(pack byte, offset, length uint32) want {
		return want{at: Location{Pack: packfile.Name{pack}, FrameOffset: offset, FrameLength: length}}
	}
	const mb = 1 << 20
	for name, c := range map[string]struct {
		wants  []want
		ranges []int // frames in each
	}{
		"nothing":      {nil, nil},
		"neighbours":   {[]want{frame(1, 48, 1000), frame(1, 1048, 1000)}, []int{2}},
		"one frame":    {[]want{frame(1, 48, 1000), frame(1, 48, 1000)}, []int{1}},
		"small gap":    {[]want{frame(1, 48, 1000), frame(1, 1048+maxGap, 1000)}, []int{2}},
		"large gap":    {[]want{frame(1, 48, 1000), frame(1, 1049+maxGap, 1000)}, []int{1, 1}},
		"two packs":    {[]want{frame(1, 48, 1000), frame(2, 1048, 1000)}, []int{1, 1}},
		"overlap":      {[]want{frame(1, 48, 1000), frame(1, 50, 1000)}, []int{1, 1}},
		"fine for few": {[]want{frame(1, 0, mb/2), frame(1, mb/2, mb/2), frame(1, mb, 1)}, []int{2, 1}},
	} {
		b := &bulk{Fetcher: New(Config{}), wants: c.wants}
		var got []int
		for _, r := range b.plan() {
			got = append(got, len(r.frames))
		}
		if len(got) != len(c.ranges) {
			t.Errorf("%s: got %v, want %v", name, got, c.ranges)
			continue
		}
		for i := range got {
			if got[i] != c.ranges[i] {
				t.Errorf("%s: got %v, want %v", name, got, c.ranges)
			}
		}
	}
	// A long run of frames is cut at maxRange.
	var wants []want
	for i := range uint32(512) {
		wants = append(wants, frame(1, i*mb, mb))
	}
	b := &bulk{Fetcher: New(Config{Workers: 4}), wants: wants}
	for i, r := range b.plan() {
		if len(r.frames) != maxRange/mb {
			t.Errorf("range %d has %d frames", i, len(r.frames))
		}
	}
}

// TestDamageStaysLocal damages one frame after the other: only its own blobs
// are lost.
func TestDamageStaysLocal(t *testing.T) {
	const blobs = 3
	for damaged := range 4 {
		r, ids, plain := many(t, 1, 4, blobs, 500)
		l := r.places[ids[damaged*blobs]][0]
		r.change(t, l.Pack, func(b []byte) []byte { b[l.FrameOffset+l.FrameLength/2] ^= 4; return b })
		got, errs := collect(t, r.fetcher(r.store), blob.Data, ids)
		for i := range ids {
			if lost := i/blobs == damaged; lost != errors.Is(errs[i], packfile.ErrDamaged) || !lost && !bytes.Equal(got[i], plain[i]) {
				t.Errorf("frame %d damaged, blob %d: %v", damaged, i, errs[i])
			}
		}
	}
}

// TestTruncatedPack: what lies before the cut is still there.
func TestTruncatedPack(t *testing.T) {
	r, ids, plain := many(t, 1, 4, 3, 500)
	l := r.places[ids[6]][0]
	r.change(t, l.Pack, func(b []byte) []byte { return b[:l.FrameOffset+l.FrameLength-1] })
	got, errs := collect(t, r.fetcher(r.store), blob.Data, ids)
	for i := range ids {
		if lost := i >= 6; lost != Lost(errs[i]) || !lost && !bytes.Equal(got[i], plain[i]) {
			t.Errorf("blob %d: %v", i, errs[i])
		}
	}
}

// TestBrokenStream cuts the stream of a range after every number of bytes: the
// frames behind are read again.
func TestBrokenStream(t *testing.T) {
	r, ids, plain := many(t, 1, 3, 2, 40)
	l := r.places[ids[5]][0]
	for n := int64(0); n <= int64(l.FrameOffset+l.FrameLength); n += 13 {
		store := fault.New(r.store, fault.Nth(1, fault.CutShort(n, io.ErrUnexpectedEOF)))
		got, errs := collect(t, r.fetcher(store), blob.Data, ids)
		for i := range ids {
			if errs[i] != nil || !bytes.Equal(got[i], plain[i]) {
				t.Fatalf("cut after %d: blob %d: %v", n, i, errs[i])
			}
		}
	}
}

// TestStoreFails lets each request fail in turn. A range survives that by its
// second attempt; a store that is gone costs everything, and nothing is lost.
func TestStoreFails(t *testing.T) {
	r, ids, plain := many(t, 2, 3, 2, 100)
	for n := 1; ; n++ {
		store := fault.New(r.store, fault.FailNth(n, fault.ErrInjected))
		got, errs := collect(t, r.fetcher(store), blob.Data, ids)
		for i := range ids {
			if errs[i] != nil || !bytes.Equal(got[i], plain[i]) {
				t.Fatalf("request %d failed: blob %d: %v", n, i, errs[i])
			}
		}
		if store.Calls() < n {
			break
		}
	}
	store := fault.New(r.store, fault.FailFrom(1, fault.ErrInjected))
	_, errs := collect(t, r.fetcher(store), blob.Data, ids)
	for i, err := range errs {
		if !errors.Is(err, fault.ErrInjected) || Lost(err) {
			t.Errorf("blob %d: %v", i, err)
		}
	}
}

// locator fails.
type brokenLocator struct{ err error }

func (l brokenLocator) Copies(context.Context, blob.Kind, blob.ID, []Location) ([]Location, error) {
	return nil, l.err
}

func TestLocatorFails(t *testing.T) {
	r, ids, _ := many(t, 1, 1, 2, 10)
	f := New(Config{Store: r.store, Sealer: r.sealer, Namer: r.namer, Locator: brokenLocator{io.ErrNoProgress}})
	_, errs := collect(t, f, blob.Data, ids)
	_, err := f.Blob(t.Context(), blob.Data, ids[0])
	for _, err := range append(errs, err) {
		if !errors.Is(err, io.ErrNoProgress) || Lost(err) {
			t.Errorf("got %v", err)
		}
	}
}

// TestStops: an error of the receiver, or the end of the context, ends a read.
func TestStops(t *testing.T) {
	r, ids, _ := many(t, 4, 8, 10, 200)
	f := r.fetcher(r.store)
	n := atomic.Int64{}
	err := f.Blobs(t.Context(), blob.Data, ids, func(int, []byte, error) error {
		if n.Add(1) == 5 {
			return io.ErrClosedPipe
		}
		return nil
	})
	if err != io.ErrClosedPipe || n.Load() == int64(len(ids)) {
		t.Errorf("got %v after %d of %d", err, n.Load(), len(ids))
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = f.Blobs(ctx, blob.Data, ids, func(int, []byte, error) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := f.Blobs(ctx, blob.Data, ids, func(int, []byte, error) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := f.Blob(ctx, blob.Data, ids[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestClosesReaders: every reader of the store is closed.
func TestClosesReaders(t *testing.T) {
	r, ids, _ := many(t, 2, 3, 2, 100)
	store := &countingStore{Store: r.store}
	_, errs := collect(t, r.fetcher(store), blob.Data, ids)
	if text := describe(errs); text != "" || store.open.Load() != 0 {
		t.Errorf("%d readers open, %s", store.open.Load(), text)
	}
}

type countingStore struct {
	objectstore.Store
	open atomic.Int64
}

type countingReader struct {
	io.ReadCloser
	open *atomic.Int64
}

func (s *countingStore) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	rc, err := s.Store.Get(ctx, key, r)
	if err == nil {
		s.open.Add(1)
		rc = countingReader{rc, &s.open}
	}
	return rc, err
}

func (r countingReader) Close() error {
	r.open.Add(-1)
	return r.ReadCloser.Close()
}
