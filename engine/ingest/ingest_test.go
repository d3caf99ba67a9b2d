package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newOptions(t *testing.T, store objectstore.Store) Options {
	t.Helper()
	db, err := index.Open(filepath.Join(t.TempDir(), "index"), "test", index.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return Options{
		Store: store, Sealer: seal.New(seal.Key{Secret: [32]byte{1}}, seal.Fastest), Namer: blob.NewNamer([32]byte{2}), Index: db,
		FrameSize: 8 << 10, PackSize: 64 << 10,
	}
}

// noise returns n bytes that do not compress, the same for one seed.
func noise(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func put(t *testing.T, w *Writer, kind blob.Kind, content []byte) blob.ID {
	t.Helper()
	id, err := w.Put(t.Context(), kind, content)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func finish(t *testing.T, s *Session) Result {
	t.Helper()
	result, err := s.Finish(t.Context())
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// contents reads every blob back from the packs in the store.
func contents(t *testing.T, opts Options) map[blob.ID][]byte {
	t.Helper()
	all := map[blob.ID][]byte{}
	for info, err := range opts.Store.List(t.Context(), PackPrefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		name, err := packfile.ParseName(info.Key[len(PackPrefix):])
		if err != nil {
			t.Fatal(err)
		}
		read := func(offset, length int64) ([]byte, error) {
			return objectstore.ReadRange(t.Context(), opts.Store, info.Key, offset, length)
		}
		pack, err := packfile.ReadFooter(opts.Sealer, name, info.Size, read)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range pack.Frames {
			sealed, err := read(int64(f.Offset), int64(f.Length))
			if err != nil {
				t.Fatal(err)
			}
			content, err := f.Open(nil, opts.Sealer, sealed)
			if err == nil {
				err = f.Verify(opts.Namer, content)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range f.Blobs {
				if all[b.ID] != nil {
					t.Errorf("blob %v is stored twice", b.ID)
				}
				all[b.ID], content = content[:b.Length:b.Length], content[b.Length:]
			}
		}
	}
	return all
}

func TestLittleMakesOneMixedPack(t *testing.T) {
	opts := newOptions(t, mem.New())
	s := New(t.Context(), opts)
	w := s.Writer()
	data, tree := put(t, w, blob.Data, []byte("data")), put(t, w, blob.Tree, []byte("tree"))
	if again := put(t, w, blob.Data, []byte("data")); again != data {
		t.Errorf("equal content has ids %v and %v", data, again)
	}
	result := finish(t, s)
	if len(result.New) != 1 || len(result.New[0].Frames) != 2 || len(result.Reused) != 0 {
		t.Errorf("result %+v", result)
	}
	if got := s.Stats(); got.NewBlobs != 2 || got.NewBytes != 8 || got.StoredBytes != uint64(result.New[0].Size) {
		t.Errorf("stats %+v", got)
	}
	all := contents(t, opts)
	if string(all[data]) != "data" || string(all[tree]) != "tree" {
		t.Errorf("stored %q", all)
	}
}

func TestMuchIsSplitByKindAndSize(t *testing.T) {
	opts := newOptions(t, mem.New())
	s := New(t.Context(), opts)
	w := s.Writer()
	want := map[blob.ID]bool{}
	for i := range uint64(100) {
		want[put(t, w, blob.Data, noise(i, 5000))] = true
		want[put(t, w, blob.Tree, noise(1000+i, 100))] = true
	}
	result := finish(t, s)
	if len(result.New) < 500_000/(64<<10) {
		t.Errorf("only %d packs", len(result.New))
	}
	for _, pack := range result.New {
		if pack.Size > 64<<10+12<<10 {
			t.Errorf("pack of %d bytes", pack.Size)
		}
		for _, f := range pack.Frames {
			if f.Kind != pack.Frames[0].Kind {
				t.Errorf("pack %v holds two kinds", pack.Name)
			}
			if f.ContentSize() > 8<<10+5000 {
				t.Errorf("frame of %d bytes", f.ContentSize())
			}
		}
	}
	all := contents(t, opts)
	if len(all) != len(want) {
		t.Errorf("%d blobs stored, %d put", len(all), len(want))
	}
}

func TestTinyBlobsCloseFramesByNumber(t *testing.T) {
	opts := newOptions(t, mem.New())
	opts.FrameSize, opts.PackSize = 1<<20, 16<<20
	s := New(t.Context(), opts)
	w := s.Writer()
	for i := range maxFrameBlobs + 1 {
		put(t, w, blob.Data, fmt.Appendf(nil, "%d", i))
	}
	for _, pack := range finish(t, s).New {
		for _, f := range pack.Frames {
			if len(f.Blobs) > maxFrameBlobs {
				t.Errorf("frame of %d blobs", len(f.Blobs))
			}
		}
	}
}

func TestKnownBlobsAreReusedUnlessAvoided(t *testing.T) {
	opts := newOptions(t, mem.New())
	s := New(t.Context(), opts)
	id := put(t, s.Writer(), blob.Data, []byte("shared"))
	first := finish(t, s)

	s = New(t.Context(), opts)
	w := s.Writer()
	if ok, err := w.Has(t.Context(), id); err != nil || !ok {
		t.Errorf("Has = %v, %v", ok, err)
	}
	put(t, w, blob.Data, []byte("shared"))
	second := finish(t, s)
	if len(second.New) != 0 || !second.Reused.Has(first.New[0].Name) || len(second.Reused) != 1 {
		t.Errorf("second session %+v", second)
	}

	opts.Avoid = index.PackSet{first.New[0].Name: {}}
	s = New(t.Context(), opts)
	w = s.Writer()
	if ok, err := w.Has(t.Context(), id); err != nil || ok {
		t.Errorf("Has of an avoided copy = %v, %v", ok, err)
	}
	put(t, w, blob.Data, []byte("shared"))
	third := finish(t, s)
	if len(third.New) != 1 || third.Reused.Has(first.New[0].Name) {
		t.Errorf("third session %+v", third)
	}
}

// Eight workers put the same blobs in different orders while packs are uploaded:
// each is stored exactly once.
func TestConcurrentWritersStoreOnce(t *testing.T) {
	opts := newOptions(t, mem.New())
	s := New(t.Context(), opts)
	var wg sync.WaitGroup
	for worker := range uint64(8) {
		w := s.Writer()
		wg.Go(func() {
			order := rand.New(rand.NewPCG(worker, 1)).Perm(400)
			for _, i := range order {
				if _, err := w.Put(t.Context(), blob.Data, noise(uint64(i), 1000)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	finish(t, s)
	if all := contents(t, opts); len(all) != 400 {
		t.Errorf("%d blobs stored of 400", len(all))
	}
}

// Whatever an interrupted session uploaded is found by the next.
func TestInterruptedSessionLeavesItsPacks(t *testing.T) {
	store := fault.New(mem.New())
	opts := newOptions(t, store)
	s := New(t.Context(), opts)
	w := s.Writer()
	for i := range uint64(100) {
		put(t, w, blob.Data, noise(i, 5000))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stored := uint64(len(contents(t, opts)))
	if stored == 0 {
		t.Fatal("nothing was uploaded before the end")
	}
	s = New(t.Context(), opts)
	w = s.Writer()
	for i := range uint64(100) {
		put(t, w, blob.Data, noise(i, 5000))
	}
	finish(t, s)
	if got := s.Stats().NewBlobs; got != 100-stored {
		t.Errorf("%d blobs stored again, %d were there", got, stored)
	}
}

func TestFailedUploadFailsTheSession(t *testing.T) {
	broken := errors.New("broken")
	opts := newOptions(t, fault.New(mem.New(), fault.On(fault.Put, PackPrefix, fault.Fail(broken))))
	s := New(t.Context(), opts)
	w := s.Writer()
	var err error
	for i := uint64(0); err == nil && i < 10_000; i++ {
		_, err = w.Put(t.Context(), blob.Data, noise(i, 5000))
	}
	if !errors.Is(err, broken) {
		t.Errorf("put after a failed upload: %v", err)
	}
	if _, err := s.Finish(t.Context()); !errors.Is(err, broken) {
		t.Errorf("finish: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestCancelledContext(t *testing.T) {
	opts := newOptions(t, mem.New())
	ctx, cancel := context.WithCancel(t.Context())
	s := New(ctx, opts)
	w := s.Writer()
	put(t, w, blob.Data, []byte("x"))
	cancel()
	if _, err := w.Put(ctx, blob.Data, []byte("y")); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if _, err := s.Finish(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("finish: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
