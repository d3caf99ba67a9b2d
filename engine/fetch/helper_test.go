package fetch

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// repo is a small repository: packs in a store, and where their blobs are.
type repo struct {
	store  objectstore.Store
	sealer *seal.Sealer
	namer  *blob.Namer

	mu     sync.Mutex // guards places
	places map[blob.ID][]Location
}

func newRepo() *repo {
	return &repo{store: mem.New(), sealer: seal.New(seal.Key{Secret: [32]byte{1}}, seal.Fastest),
		namer: blob.NewNamer([32]byte{2}), places: make(map[blob.ID][]Location)}
}

func (r *repo) Copies(_ context.Context, kind blob.Kind, id blob.ID, dst []Location) ([]Location, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(dst, r.places[id]...), nil
}

func (r *repo) fetcher(store objectstore.Store) *Fetcher {
	return New(Config{Store: store, Sealer: r.sealer, Namer: r.namer, Locator: r})
}

// content makes plaintext number i, which compresses badly.
func content(i, size int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	b := make([]byte, size)
	for j := range b {
		b[j] = byte(rng.Uint32())
	}
	return b
}

// pack stores frames of plaintexts in one pack and returns its name.
func (r *repo) pack(t testing.TB, kind blob.Kind, frames ...[][]byte) packfile.Name {
	t.Helper()
	b := packfile.NewBuilder(nil)
	for _, blobs := range frames {
		f := packfile.NewFrameBuilder(kind)
		for _, plaintext := range blobs {
			f.Add(r.namer.ID(kind, plaintext), plaintext)
		}
		b.Add(f.Seal(nil, r.sealer))
	}
	pack, object := b.Finish(r.sealer)
	_, err := r.store.Put(t.Context(), packKey(pack.Name), bytes.NewReader(object), objectstore.PutOptions{})
	must(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range pack.Frames {
		offset := uint32(0)
		for _, bl := range f.Blobs {
			r.places[bl.ID] = append(r.places[bl.ID], Location{Pack: pack.Name, FrameOffset: f.Offset, FrameLength: f.Length,
				FrameContent: uint32(f.ContentSize()), Offset: offset, Length: bl.Length})
			offset += bl.Length
		}
	}
	return pack.Name
}

// change replaces a pack by what fn makes of it; nil deletes it.
func (r *repo) change(t testing.TB, name packfile.Name, fn func([]byte) []byte) {
	t.Helper()
	object, err := objectstore.ReadAll(t.Context(), r.store, packKey(name), 1<<30)
	must(t, err)
	if object = fn(object); object == nil {
		must(t, r.store.Delete(t.Context(), packKey(name)))
		return
	}
	_, err = r.store.Put(t.Context(), packKey(name), bytes.NewReader(object), objectstore.PutOptions{})
	must(t, err)
}

// collect reads ids in bulk and returns, for each, its plaintext or its error.
func collect(t testing.TB, f *Fetcher, kind blob.Kind, ids []blob.ID) ([][]byte, []error) {
	t.Helper()
	var mu sync.Mutex
	got, errs, times := make([][]byte, len(ids)), make([]error, len(ids)), make([]int, len(ids))
	must(t, f.Blobs(t.Context(), kind, ids, func(i int, plaintext []byte, err error) error {
		mu.Lock()
		defer mu.Unlock()
		got[i], errs[i] = bytes.Clone(plaintext), err
		times[i]++
		return nil
	}))
	for i, n := range times {
		if n != 1 {
			t.Fatalf("blob %d was delivered %d times", i, n)
		}
	}
	return got, errs
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// many makes a repository of packs x frames x blobs and lists all ids with
// their plaintexts.
func many(t testing.TB, packs, frames, blobs, size int) (r *repo, ids []blob.ID, plain [][]byte) {
	r = newRepo()
	n := 0
	for range packs {
		var pack [][][]byte
		for range frames {
			var frame [][]byte
			for range blobs {
				b := content(n, size+n%7)
				frame = append(frame, b)
				ids, plain = append(ids, r.namer.ID(blob.Data, b)), append(plain, b)
				n++
			}
			pack = append(pack, frame)
		}
		r.pack(t, blob.Data, pack...)
	}
	return r, ids, plain
}

func shuffled(ids []blob.ID, plain [][]byte) ([]blob.ID, [][]byte) {
	a, b := make([]blob.ID, len(ids)), make([][]byte, len(ids))
	for i, j := range rand.New(rand.NewPCG(1, 2)).Perm(len(ids)) {
		a[i], b[i] = ids[j], plain[j]
	}
	return a, b
}

func describe(errs []error) string {
	out := ""
	for i, err := range errs {
		if err != nil {
			out += fmt.Sprintf("%d: %v\n", i, err)
		}
	}
	return out
}
