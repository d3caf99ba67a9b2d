package engine

import (
	"errors"
	"path/filepath"

	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/cache"
)

// packStores is the store as it is used for packs, with a cache for each kind of
// blob if there is one: tree blobs are read by every diff, fork and push, so data
// must not displace them.
type packStores struct {
	data, trees objectstore.Store
	caches      []*cache.Store
}

func (p packStores) close() error {
	var errs []error
	for _, c := range p.caches {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// openPackStores opens the caches. Without them everything works, slower.
func (r *Repository) openPackStores() packStores {
	p := packStores{data: r.store, trees: r.store}
	if r.opts.CacheBytes <= 0 || r.state == "" {
		return p
	}
	for _, c := range []struct {
		kind  string
		store *objectstore.Store
		keep  func(string, int64) bool
	}{
		{"data", &p.data, nil},
		{"trees", &p.trees, func(string, int64) bool { return true }},
	} {
		dir := filepath.Join(r.state, "cache", c.kind)
		warn := func(err error) { r.opts.Events.warn("use cache", dir, err) }
		opened, err := cache.New(r.store, dir, cache.Options{Prefixes: []string{ingest.PackPrefix}, MaxBytes: r.opts.CacheBytes, KeepPut: c.keep, Warn: warn})
		if err != nil {
			warn(err)
			continue
		}
		*c.store = opened
		p.caches = append(p.caches, opened)
	}
	return p
}
