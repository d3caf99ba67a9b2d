package fetch

import (
	"context"
	"runtime"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Cache is a store that keeps copies of objects of another one.
type Cache interface {
	// Forget drops what is kept of an object.
	Forget(key string)
}

// Config is what a Fetcher is made of. Store, Sealer, Namer and Locator are
// needed.
type Config struct {
	// Store holds the packs. If it keeps copies of them (see Cache), a frame that
	// turns out to be damaged is forgotten there, and read once more.
	Store objectstore.Store
	// TreeStore is Store as it is used for tree blobs, for a cache of their own;
	// nil is Store.
	TreeStore objectstore.Store

	Sealer  *seal.Sealer
	Namer   *blob.Namer
	Locator Locator

	// CacheBytes bounds the decoded frames that Node and Blob keep; 0 means
	// 32 MiB, the tree nodes of about 300,000 files.
	CacheBytes int
	// Workers is how many frames a call of Blobs reads and decodes at a time;
	// 0 means as many as processors, at least 4 so that requests overlap, at
	// most 16.
	Workers int
}

// Fetcher reads blobs. It is safe for concurrent use.
type Fetcher struct {
	cfg   Config
	cache *frameCache
}

// New returns a Fetcher.
func New(cfg Config) *Fetcher {
	if cfg.CacheBytes <= 0 {
		cfg.CacheBytes = 32 << 20
	}
	if cfg.Workers <= 0 {
		cfg.Workers = min(max(runtime.GOMAXPROCS(0), 4), 16)
	}
	if cfg.TreeStore == nil {
		cfg.TreeStore = cfg.Store
	}
	return &Fetcher{cfg: cfg, cache: newFrameCache(cfg.CacheBytes)}
}

func (f *Fetcher) store(kind blob.Kind) objectstore.Store {
	if kind == blob.Tree {
		return f.cfg.TreeStore
	}
	return f.cfg.Store
}

// forget drops copies of a pack that a cache keeps, and reports whether there may
// have been any.
func (f *Fetcher) forget(kind blob.Kind, pack packfile.Name) bool {
	cache, ok := f.store(kind).(Cache)
	if ok {
		cache.Forget(packKey(pack))
	}
	return ok
}

// Name computes the id that plaintext has in this repository.
func (f *Fetcher) Name(kind blob.Kind, plaintext []byte) blob.ID {
	return f.cfg.Namer.ID(kind, plaintext)
}

// Node returns a tree blob, verified. The caller must not change its bytes.
// Errors are *Error, or that of ctx.
func (f *Fetcher) Node(ctx context.Context, id blob.ID) ([]byte, error) {
	return f.Blob(ctx, blob.Tree, id)
}
