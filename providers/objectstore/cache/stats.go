package cache

import "sync/atomic"

// Stats counts what became of the Gets of cached keys since New, in this
// process.
type Stats struct {
	Hits           int64 // blocks that a reader found on the disk
	Misses         int64 // blocks fetched from the inner store
	BytesFromCache int64 // bytes asked for that were found on the disk
	BytesFetched   int64 // bytes read from the inner store, in whole blocks
	Dropped        int64 // blocks that were damaged, cut short or in the wrong place
	Evicted        int64 // blocks that made room for others
}

type counters struct {
	hits, misses, fromCache, fetched atomic.Int64
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	return Stats{
		Hits:           s.count.hits.Load(),
		Misses:         s.count.misses.Load(),
		BytesFromCache: s.count.fromCache.Load(),
		BytesFetched:   s.count.fetched.Load(),
		Dropped:        s.disk.dropped.Load(),
		Evicted:        s.disk.evicted.Load(),
	}
}
