package index

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// tune sets Pebble up for records that are mostly hashes: they do not compress,
// and most look-ups are for blobs that are not there.
func tune(opts Options) *pebble.Options {
	// Pebble takes the memory of memtables, three of 8 MiB at most, out of the
	// cache. What is left must hold the filters: when 32 MiB were all, a first
	// snapshot of a million files read filters again and again, and took 40 s
	// instead of 18.
	if opts.CacheSize == 0 {
		opts.CacheSize = 40 << 20
	}
	o := &pebble.Options{
		CacheSize:          opts.CacheSize,
		Comparer:           comparer,
		FormatMajorVersion: pebble.FormatTableFormatV6,
		MaxOpenFiles:       256,
		// A pack's worth of records, 65,536 of 55 bytes, fits a batch of half
		// a memtable.
		MemTableSize:                8 << 20,
		MemTableStopWritesThreshold: 3,
		DisableTableStats:           true, // reads in the background, for little
	}
	o.Experimental.ReadSamplingMultiplier = -1 // look-ups are random: they say nothing about compaction
	for i := range o.TargetFileSizes {
		// A filter is read as a whole: 0.6 MB for such a table, so that the
		// cache, cut into shards of a few MB, keeps those of all tables.
		o.TargetFileSizes[i] = 24 << 20
	}
	for i := range o.Levels {
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		// One index block for each table, about 0.1 MB: a second level would
		// cost every hit one more block.
		o.Levels[i].IndexBlockSize = 1 << 20
	}
	return o
}

// tunePrivate is tune for a database that ends with its process: nothing needs
// to survive a crash.
func tunePrivate(opts Options) *pebble.Options {
	o := tune(opts)
	o.DisableWAL = true
	return o
}
