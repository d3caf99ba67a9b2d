package cache

import (
	"context"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest"
)

func TestConformanceOfWhatIsNotCached(t *testing.T) {
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		s, err := New(mem.New(), newDir(t), Options{Prefixes: []string{"nothing-starts-like-this/"}})
		must(t, err)
		t.Cleanup(func() {
			must(t, s.Close())
			if stats := s.Stats(); stats != (Stats{}) {
				t.Errorf("the cache was used: %+v", stats)
			}
		})
		return s
	})
}

// TestConformanceOfWhatIsCached caches every key of the suite, half of the
// objects when they are put and half when they are read. Since the suite changes
// objects, which nobody may do to a cached one, each put makes the cache forget
// what was there.
func TestConformanceOfWhatIsCached(t *testing.T) {
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		keep := func(_ string, size int64) bool { return size%2 == 0 }
		s, err := New(mem.New(), newDir(t), Options{Prefixes: []string{""}, KeepPut: keep})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		return changeable{s, new(sync.Map)}
	})
}

type changeable struct {
	*Store
	known *sync.Map // keys that were put
}

func (s changeable) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	info, err := s.inner.Put(ctx, key, body, opts)
	if _, changed := s.known.Swap(key, true); changed {
		for n := range int64(3<<20/blockSize + 2) { // faster than Forget: the suite changes nothing larger
			_ = s.disk.root.Remove(place{key, n}.file())
		}
	}
	if err == nil && s.opts.KeepPut(key, body.Size()) {
		s.keepBody(ctx, key, body)
	}
	return info, err
}
