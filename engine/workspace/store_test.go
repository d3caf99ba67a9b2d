package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/snapctl/snapctl/engine/chunk"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

var testParams = chunk.Params{Polynomial: 0x3DA3358B4DC173, Min: chunk.DefaultMin, Max: chunk.DefaultMax, AvgBits: chunk.DefaultAvgBits}

// store keeps blobs in memory, in the place of a repository.
type store struct {
	namer *blob.Namer
	mu    sync.Mutex
	blobs map[blob.ID][]byte
	limit int // puts of new data blobs until errStoreFull; 0 is none
	puts  int
	added map[blob.Kind]int64 // bytes of new blobs
	asked int                 // calls of Has
	light bool                // keep ids only
}

func newStore() *store {
	return &store{namer: blob.NewNamer([32]byte{1}), blobs: map[blob.ID][]byte{}, added: map[blob.Kind]int64{}}
}

var errStoreFull = errors.New("store is full")

func (s *store) writer() Writer { return &storeWriter{store: s} }

// storeWriter belongs to one goroutine, which the race detector checks.
type storeWriter struct {
	store   *store
	used    int
	flushed bool
}

func (w *storeWriter) Put(ctx context.Context, kind blob.Kind, plaintext []byte) (blob.ID, error) {
	w.used++
	if err := ctx.Err(); err != nil {
		return blob.ID{}, err
	}
	if w.flushed {
		return blob.ID{}, errors.New("put behind flush")
	}
	id := w.store.namer.ID(kind, plaintext)
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if _, ok := w.store.blobs[id]; ok {
		return id, nil
	}
	if kind == blob.Data {
		if w.store.puts++; w.store.limit > 0 && w.store.puts > w.store.limit {
			return blob.ID{}, errStoreFull
		}
	}
	w.store.added[kind] += int64(len(plaintext))
	if w.store.light {
		plaintext = nil
	}
	w.store.blobs[id] = bytes.Clone(plaintext)
	return id, nil
}

func (w *storeWriter) Has(_ context.Context, id blob.ID) (bool, error) {
	w.used++
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.asked++
	_, ok := w.store.blobs[id]
	return ok, nil
}

func (w *storeWriter) Flush(context.Context) error {
	w.used++
	w.flushed = true
	return nil
}

func (s *store) getNode(_ context.Context, id blob.ID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.blobs[id]
	if !ok {
		return nil, fmt.Errorf("no blob %v", id)
	}
	return b, nil
}

// reset forgets what was counted.
func (s *store) reset() {
	s.added = map[blob.Kind]int64{}
	s.puts, s.asked = 0, 0
}

// tree reads everything a walk stored: entries by path, the root as "".
func (s *store) tree(root blob.ID) (map[string]manifest.Entry, error) {
	ctx := context.Background()
	b, err := s.getNode(ctx, root)
	if err != nil {
		return nil, err
	}
	e, err := manifest.DecodeRoot(b)
	if err != nil {
		return nil, err
	}
	tree := map[string]manifest.Entry{"": e}
	return tree, s.addTree(ctx, tree, "", e)
}

func (s *store) addTree(ctx context.Context, tree map[string]manifest.Entry, path string, dir manifest.Entry) error {
	for e, err := range manifest.ReadDir(ctx, s.getNode, dir.Node) {
		if err != nil {
			return err
		}
		p := joinPath(path, e.Name)
		tree[p] = *e
		if e.Kind == manifest.Dir {
			if err := s.addTree(ctx, tree, p, *e); err != nil {
				return err
			}
		}
	}
	return nil
}

// content puts a file together again.
func (s *store) content(e manifest.Entry) ([]byte, error) {
	ctx := context.Background()
	var out []byte
	for x, err := range manifest.ReadContent(ctx, s.getNode, &e) {
		if err != nil {
			return nil, err
		}
		b := make([]byte, x.Length)
		if !x.Hole() {
			if b, err = s.getNode(ctx, x.ID); err != nil {
				return nil, err
			}
		}
		out = append(out, b...)
	}
	return out, nil
}
