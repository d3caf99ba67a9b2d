package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile/blob"
)

// rehearsal takes the blobs of a walk and stores none: it answers what a snapshot
// would find, and keeps the tree nodes for a comparison. Memory grows with the
// tree nodes, about 90 bytes a file.
type rehearsal struct {
	namer *blob.Namer
	db    *index.DB

	newBytes, newBlobs atomic.Uint64

	mu      sync.Mutex // guards the following
	nodes   map[blob.ID][]byte
	fresh   map[blob.ID]struct{} // data blobs that the repository lacks
	readers []*index.Reader
}

func (r *Repository) newRehearsal(db *index.DB) *rehearsal {
	return &rehearsal{namer: r.namer, db: db, nodes: map[blob.ID][]byte{}, fresh: map[blob.ID]struct{}{}}
}

func (p *rehearsal) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, reader := range p.readers {
		if err := reader.Close(); err != nil {
			return err
		}
	}
	p.readers = nil
	return nil
}

func (p *rehearsal) writer() workspace.Writer {
	w := &rehearsalWriter{rehearsal: p, lookup: p.db.NewReader(nil)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers = append(p.readers, w.lookup)
	return w
}

// node returns a tree node of the walk, or else one of the repository.
func (p *rehearsal) node(stored manifest.GetNode) manifest.GetNode {
	return func(ctx context.Context, id blob.ID) ([]byte, error) {
		p.mu.Lock()
		node, ok := p.nodes[id]
		p.mu.Unlock()
		if ok {
			return node, nil
		}
		return stored(ctx, id)
	}
}

// rehearsalWriter is the writer of one worker.
type rehearsalWriter struct {
	rehearsal *rehearsal
	lookup    *index.Reader
}

// Put implements workspace.Writer.
func (w *rehearsalWriter) Put(ctx context.Context, kind blob.Kind, plaintext []byte) (blob.ID, error) {
	id := w.rehearsal.namer.ID(kind, plaintext)
	known, err := w.Has(ctx, id)
	if err != nil {
		return id, err
	}
	w.rehearsal.see(kind, id, plaintext, known)
	return id, nil
}

// Has implements workspace.Writer.
func (w *rehearsalWriter) Has(ctx context.Context, id blob.ID) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	_, known, err := w.lookup.Has(id)
	if err != nil {
		err = fmt.Errorf("look up blob: %w", err)
	}
	return known, err
}

// Flush implements workspace.Writer.
func (w *rehearsalWriter) Flush(ctx context.Context) error { return ctx.Err() }

func (p *rehearsal) see(kind blob.Kind, id blob.ID, plaintext []byte, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, seen := p.fresh[id]
	if kind == blob.Tree && p.nodes[id] == nil {
		p.nodes[id] = append([]byte(nil), plaintext...)
	}
	if known || seen {
		return
	}
	p.fresh[id] = struct{}{}
	p.newBlobs.Add(1)
	p.newBytes.Add(uint64(len(plaintext)))
}
