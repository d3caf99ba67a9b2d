package cache

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// gate is a store whose readers hand out only the bytes of an object that the
// test let through. It counts requests.
type gate struct {
	objectstore.Store

	mu       sync.Mutex // guards the fields below
	requests []objectstore.Range
	limit    int64         // offset in the object before which bytes go through
	err      error         // what readers answer at the limit, if not nil
	moved    chan struct{} // closed when limit or err changes
	open     int           // readers that are not closed
	dead     int           // the first so many requests, whose readers fail
	made     int           // requests
}

func newGate(inner objectstore.Store) *gate {
	return &gate{Store: inner, moved: make(chan struct{})}
}

// letThrough opens the gate up to an offset.
func (g *gate) letThrough(limit int64) { g.move(limit, nil) }

// breakAt makes readers fail at an offset.
func (g *gate) breakAt(limit int64, err error) { g.move(limit, err) }

func (g *gate) move(limit int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit, g.err = limit, err
	close(g.moved)
	g.moved = make(chan struct{})
}

// kill breaks the readers of all requests so far.
func (g *gate) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead = g.made
	close(g.moved)
	g.moved = make(chan struct{})
}

// asked returns the ranges asked for since the last call.
func (g *gate) asked() []objectstore.Range {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.requests
	g.requests = nil
	return asked
}

func (g *gate) stillOpen() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

func (g *gate) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	g.mu.Lock()
	g.requests = append(g.requests, r)
	g.made++
	number := g.made
	g.mu.Unlock()
	reader, err := g.Store.Get(ctx, key, r)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.open++
	g.mu.Unlock()
	return &gateReader{ReadCloser: reader, ctx: ctx, gate: g, number: number, pos: r.Offset}, nil
}

type gateReader struct {
	io.ReadCloser
	ctx    context.Context
	gate   *gate
	number int
	pos    int64
}

var errDead = errors.New("connection reset")

func (r *gateReader) Read(p []byte) (int, error) {
	for {
		r.gate.mu.Lock()
		free, err, moved, isDead := r.gate.limit-r.pos, r.gate.err, r.gate.moved, r.number <= r.gate.dead
		r.gate.mu.Unlock()
		if isDead {
			return 0, errDead
		}
		if r.ctx.Err() != nil {
			return 0, r.ctx.Err()
		}
		if free > 0 {
			n, err := r.ReadCloser.Read(p[:min(int64(len(p)), free)])
			r.pos += int64(n)
			return n, err
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-moved:
		case <-r.ctx.Done():
		}
	}
}

func (r *gateReader) Close() error {
	r.gate.mu.Lock()
	r.gate.open--
	r.gate.mu.Unlock()
	return r.ReadCloser.Close()
}
