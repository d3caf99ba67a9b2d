// Package transfer copies what a snapshot needs from one repository into another
// of the same family, whose ids agree.
//
// It walks the tree breadth first, many nodes at a time, so that a source at the
// end of a long link costs a few round trips for each level of the tree and not
// one for each directory. A blob that the target has is not read. What it lacks
// travels in whole frames where it can: a frame of which every blob is missing is
// sealed again for the target without being decompressed.
//
// Memory: about 160 bytes for each missing data blob that is collected before they
// are copied, maxOwed and those of the last round of maxNodes tree nodes; 40 bytes
// for each tree node; and what the ingest session and the fetcher hold.
package transfer

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
)

// Config says from where to where. Every field but Progress is needed.
type Config struct {
	From *fetch.Fetcher
	// Known reads tree nodes that the target has: the target's own fetcher if
	// that one is nearer, otherwise From.
	Known      *fetch.Fetcher
	FromSealer *seal.Sealer
	Namer      *blob.Namer // of both
	To         Target
	ToSealer   *seal.Sealer
	Progress   *Progress
}

// Target takes blobs: an ingest session does, through its writers.
type Target interface{ Writer() *ingest.Writer }

// Progress counts while a copy goes on.
type Progress struct {
	Blobs atomic.Uint64 // copied
	Bytes atomic.Uint64 // of their plaintext
	Total atomic.Uint64 // bytes of plaintext known to be missing so far
}

const (
	maxNodes = 1 << 10   // tree nodes read in one round
	maxOwed  = 512 << 10 // missing data blobs that are collected before they are copied
)

// Copy stores every blob that can be reached from the roots and that the target
// lacks. Blobs that it has are looked up, so that the session knows their packs.
// Errors about the source are *fetch.Error.
func Copy(ctx context.Context, cfg Config, roots ...blob.ID) error {
	c := newCopier(cfg)
	for _, root := range roots {
		if !root.IsZero() {
			c.meet(root)
		}
	}
	for len(c.frontier) > 0 {
		if err := c.readNodes(ctx, c.nextRound()); err != nil {
			return err
		}
		if len(c.owed) >= maxOwed {
			if err := c.settle(ctx); err != nil {
				return err
			}
		}
	}
	return c.settle(ctx)
}

// copier is one Copy.
type copier struct {
	cfg     Config
	writers chan *ingest.Writer

	mu       sync.Mutex // guards the following
	seen     map[blob.ID]struct{}
	frontier []blob.ID // tree nodes to be read
	owed     []blob.ID // data blobs that were claimed and are to be copied
}

func newCopier(cfg Config) *copier {
	if cfg.Progress == nil {
		cfg.Progress = new(Progress)
	}
	c := &copier{cfg: cfg, seen: map[blob.ID]struct{}{}}
	c.writers = make(chan *ingest.Writer, max(2, runtime.GOMAXPROCS(0)))
	for range cap(c.writers) {
		c.writers <- cfg.To.Writer()
	}
	return c
}

// with lends a writer to do: each belongs to one goroutine at a time.
func (c *copier) with(do func(*ingest.Writer) error) error {
	w := <-c.writers
	defer func() { c.writers <- w }()
	return do(w)
}

// meet enters a tree node if it is new.
func (c *copier) meet(id blob.ID) {
	if _, ok := c.seen[id]; !ok {
		c.seen[id] = struct{}{}
		c.frontier = append(c.frontier, id)
	}
}

func (c *copier) nextRound() []blob.ID {
	n := max(0, len(c.frontier)-maxNodes)
	round := slices.Clone(c.frontier[n:])
	c.frontier = c.frontier[:n]
	return round
}

// readNodes reads tree nodes, stores those that are missing, and enters what they
// name.
func (c *copier) readNodes(ctx context.Context, ids []blob.ID) error {
	var known, missing []blob.ID
	err := c.with(func(w *ingest.Writer) error {
		for _, id := range ids {
			claimed, err := w.Claim(ctx, id)
			if err != nil {
				return err
			}
			if claimed {
				missing = append(missing, id)
			} else {
				known = append(known, id)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.readKnown(ctx, known); err != nil {
		return err
	}
	return c.cfg.From.Blobs(ctx, blob.Tree, missing, func(i int, node []byte, err error) error {
		if err != nil {
			return err
		}
		c.count(1, len(node))
		c.cfg.Progress.Total.Add(uint64(len(node)))
		if err := c.with(func(w *ingest.Writer) error { return w.Store(blob.Tree, missing[i], node) }); err != nil {
			return err
		}
		return c.enter(ctx, missing[i], node)
	})
}

// readKnown reads nodes that the target has. A copy there that cannot be read is
// no obstacle: the source has another.
func (c *copier) readKnown(ctx context.Context, ids []blob.ID) error {
	return c.cfg.Known.Blobs(ctx, blob.Tree, ids, func(i int, node []byte, err error) error {
		if err != nil && c.cfg.Known != c.cfg.From {
			node, err = c.cfg.From.Node(ctx, ids[i])
		}
		if err != nil {
			return err
		}
		return c.enter(ctx, ids[i], node)
	})
}

// enter takes up what a tree node names.
func (c *copier) enter(ctx context.Context, id blob.ID, node []byte) error {
	trees, data, err := manifest.References(node)
	if err != nil {
		return &fetch.Error{Kind: blob.Tree, ID: id, Err: err}
	}
	var owed []blob.ID
	err = c.with(func(w *ingest.Writer) error {
		for _, id := range data {
			claimed, err := w.Claim(ctx, id)
			if err != nil {
				return err
			}
			if claimed {
				owed = append(owed, id)
			}
		}
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = append(c.owed, owed...)
	for _, id := range trees {
		c.meet(id)
	}
	return err
}

// settle copies the data blobs that are owed.
func (c *copier) settle(ctx context.Context) error {
	ids := c.owed
	c.owed = nil
	missing, err := c.cfg.From.Bytes(ctx, blob.Data, ids)
	if err != nil {
		return err
	}
	c.cfg.Progress.Total.Add(missing)
	whole := func(frame packfile.SealedFrame) error { return c.storeFrame(frame) }
	return c.cfg.From.Frames(ctx, blob.Data, ids, whole, func(i int, plaintext []byte, err error) error {
		if err != nil {
			return err
		}
		c.count(1, len(plaintext))
		return c.with(func(w *ingest.Writer) error { return w.Store(blob.Data, ids[i], plaintext) })
	})
}

// storeFrame hashes a frame before it goes on: a target that has a blob under a
// wrong id would never store the right one.
func (c *copier) storeFrame(frame packfile.SealedFrame) error {
	if _, err := frame.Verify(nil, c.cfg.FromSealer, c.cfg.Namer); err != nil {
		return err
	}
	resealed, err := frame.Reseal(nil, c.cfg.FromSealer, c.cfg.ToSealer)
	if err != nil {
		return err
	}
	bytes := 0
	for _, b := range frame.Blobs {
		bytes += int(b.Length)
	}
	c.count(len(frame.Blobs), bytes)
	return c.with(func(w *ingest.Writer) error { return w.StoreFrame(resealed) })
}

func (c *copier) count(blobs, bytes int) {
	c.cfg.Progress.Blobs.Add(uint64(blobs))
	c.cfg.Progress.Bytes.Add(uint64(bytes))
}
