// Package cache keeps objects that never change on the local disk. [New] wraps
// any store: a Get of a key with one of the chosen prefixes is answered from
// the disk where it can be, everything else goes straight through. Reads are
// ranged, so the cache keeps aligned blocks of objects, not objects.
//
// A cached key must name the same bytes for ever, in every store that shares
// the directory: names that are hashes of the content do. A Get of such a key
// may still be answered after another process deleted the object. Stat and
// List are never answered from the cache, and neither should a check be that
// wants to know what the store itself holds: give it the inner store.
//
// The directory can be shared by any number of processes, and be deleted at
// any time. Every block carries a checksum and its own name; one that is
// damaged or in the wrong place is dropped and fetched again. The checksum is
// there for disks and power failures. It does not authenticate: what is kept
// must be sealed or verified by the reader. A disk that is full or broken fails
// no read; Options.Warn hears of it once.
package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// blockSize is what is fetched and kept as one piece, in bytes.
//
// A read of r bytes at a random offset touches (r-1)/blockSize + 1 blocks on
// average, so it fetches blockSize-1 bytes more than it was asked for. At 100
// MB/s these 256 KiB cost 2.6 ms, a tenth of the 10 to 30 ms that a store takes
// to its first byte; 1 MiB would cost 10 ms, and a read of 20 KiB, the smallest
// usual one, would have to check 1 MiB whenever it is answered from the disk.
// Smaller blocks save little more and cost files: these make 64 of a pack of 16
// MiB and 40,960 of a cache of 10 GiB, of which one shard holds 160. A reader
// has one block in memory.
const blockSize = 256 << 10

const (
	defaultMaxBytes = 10 << 30
	minMaxBytes     = 256 << 20 // 1 MiB a shard: three blocks
)

// Options choose what is kept. The zero value keeps nothing.
type Options struct {
	// Prefixes are the starts of the keys whose objects never change and are
	// kept, such as "packs/".
	Prefixes []string

	// MaxBytes limits the disk space of the blocks: at least 256 MiB, 0 means
	// 10 GiB. The blocks not read for the longest time make room. A process
	// alone keeps the limit. Each other one that fills the cache at the same
	// time can exceed it by an eighth, at least 65 MiB, before it sees what the
	// rest wrote.
	MaxBytes int64

	// KeepPut says whether an object of size bytes that this store itself puts
	// is kept at once, as one that will soon be read again should be. It is
	// asked for cached keys only. Nil means that none is: each is kept when it
	// is first read.
	KeepPut func(key string, size int64) bool

	// Warn, if not nil, is told once why the cache cannot be used: the disk is
	// full, or somebody took the directory away. It may be called from any
	// goroutine that uses the store.
	Warn func(error)
}

// Store is an objectstore.Store with a cache. It is safe for concurrent use;
// make one with New.
type Store struct {
	inner   objectstore.Store
	opts    Options
	size    int64 // of a block
	disk    *disk
	flights flights
	blocks  sync.Pool // of *block
	count   counters
}

// New returns a store that keeps blocks of inner's objects in dir, which is
// made if it is missing. It must be a directory that only this user can enter:
// what lies in it is trusted to be the user's own. Close releases it.
func New(inner objectstore.Store, dir string, opts Options) (*Store, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	if opts.MaxBytes < minMaxBytes {
		return nil, fmt.Errorf("open cache: a limit of %d bytes is less than the minimum of %d", opts.MaxBytes, minMaxBytes)
	}
	root, err := openPrivate(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	return newStore(inner, root, opts, blockSize), nil
}

func newStore(inner objectstore.Store, root *os.Root, opts Options, size int) *Store {
	return &Store{
		inner:   inner,
		opts:    opts,
		size:    int64(size),
		disk:    newDisk(root, opts, size),
		flights: flights{byKey: make(map[string][]*flight)},
		blocks:  sync.Pool{New: func() any { return newBlock(size) }},
	}
}

// Close releases the descriptor of the directory. It does not close the inner
// store. No method may be called afterwards, and all readers must be closed.
func (s *Store) Close() error { return s.disk.root.Close() }

// caches says whether the objects under a key are kept. An invalid key is left
// to the inner store to refuse.
func (s *Store) caches(key string) bool {
	for _, prefix := range s.opts.Prefixes {
		if strings.HasPrefix(key, prefix) {
			return objectstore.ValidKey(key) == nil
		}
	}
	return false
}

// Put implements objectstore.Store.
func (s *Store) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	info, err := s.inner.Put(ctx, key, body, opts)
	if err == nil && s.caches(key) && s.opts.KeepPut != nil && s.opts.KeepPut(key, body.Size()) {
		s.keepBody(ctx, key, body)
	}
	return info, err
}

// keepBody cuts a body into blocks. It was put already: what goes wrong here is
// a block that is fetched later.
func (s *Store) keepBody(ctx context.Context, key string, body objectstore.Body) {
	b := s.blocks.Get().(*block)
	defer s.blocks.Put(b)
	rest := io.NewSectionReader(body, 0, body.Size())
	for n := int64(0); ctx.Err() == nil; n++ {
		b.aim(place{key, n})
		length := min(s.size, body.Size()-n*s.size)
		if _, err := io.ReadFull(rest, b.space()[:length]); err != nil && length > 0 {
			return
		}
		b.length = int(length)
		s.disk.keep(b)
		if length < s.size {
			return
		}
	}
}

// Get implements objectstore.Store. The reader holds one block of 256 KiB in
// memory, and a reader of the inner store while it has one. Bytes are handed
// out as they arrive, a block at a time.
func (s *Store) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	if !s.caches(key) || r.Offset < 0 || r.Length < 0 {
		return s.inner.Get(ctx, key, r)
	}
	reader := s.newReader(ctx, key, r)
	if err := reader.start(); err != nil {
		reader.Close()
		return nil, failed(key, err)
	}
	return reader, nil
}

// Stat implements objectstore.Store. It always asks the inner store.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	return s.inner.Stat(ctx, key)
}

// List implements objectstore.Store. It always asks the inner store.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return s.inner.List(ctx, prefix, after)
}

// Delete implements objectstore.Store. The blocks are dropped too, those that a
// Get under way stores at the same time excepted.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.inner.Delete(ctx, key)
	s.Forget(key) // also after an error: the object may be gone
	return err
}

// Forget drops the blocks of an object, so that it is fetched again. Who finds
// that an object is not what it should be calls it, since what arrived damaged
// was kept as it arrived.
func (s *Store) Forget(key string) {
	if s.caches(key) {
		s.disk.drop(key)
	}
}

// failed wraps the error of a Get that is not one of a store already.
func failed(key string, err error) error {
	var own *objectstore.Error
	if errors.As(err, &own) {
		return err
	}
	return &objectstore.Error{Op: "get", Key: key, Err: err}
}
