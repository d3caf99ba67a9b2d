// Package ingest turns blobs into packs: it leaves out what the repository has
// already, groups the rest into frames of neighbours, seals them, and uploads
// packs.
//
// A [Session] belongs to one snapshot attempt and owns its goroutines. Each
// worker puts blobs through a [Writer] of its own. Hashing, compression and
// encryption run in the workers, outside any lock; a short lock guards the list
// of sealed frames that the next pack is made of.
//
// Memory: each writer holds two open frames (about 2 MiB of plaintext each, and
// a chunk of at most 4 MiB on top) and one sealed; the session holds two open
// packs and those that travel, in buffers that are used again. With the
// defaults and two writers that is about 2 x 8 + 4 x 18 = 88 MiB.
package ingest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Options say how a session writes. Every field but TreeStore, which is Store
// then, and the sizes is needed.
type Options struct {
	Store objectstore.Store
	// TreeStore takes the packs with tree blobs: Store, perhaps with a cache.
	TreeStore objectstore.Store

	Sealer *seal.Sealer
	Namer  *blob.Namer
	Index  *index.DB
	// Avoid holds the packs whose copies must not be reused: dead or damaged
	// ones.
	Avoid index.PackSet
	// FrameSize is the plaintext of a frame in bytes, about; 0 is 2 MiB.
	FrameSize int
	// PackSize is the size of a pack in bytes, about; 0 is 16 MiB.
	PackSize int
	// Uploads is how many packs travel at once; 0 is 2.
	Uploads int
}

func (o Options) withDefaults() Options {
	if o.FrameSize == 0 {
		o.FrameSize = 2 << 20
	}
	if o.PackSize == 0 {
		o.PackSize = 16 << 20
	}
	if o.Uploads == 0 {
		o.Uploads = 2
	}
	if o.TreeStore == nil {
		o.TreeStore = o.Store
	}
	return o
}

// Bounds on the number of blobs keep footers small when blobs are tiny: a
// footer takes about 35 bytes a blob, so 2.3 MiB at most.
const (
	maxFrameBlobs = 8 << 10
	maxPackBlobs  = 64 << 10
)

// Session is one attempt to store blobs. Its methods are safe for concurrent
// use.
type Session struct {
	opts    Options
	group   *errgroup.Group
	ctx     context.Context // of the uploads; done when one of them failed
	cancel  context.CancelFunc
	pending pendingSet
	stats   counters
	spare   chan []byte // memory of packs that were sent

	mu      sync.Mutex // guards the following
	open    [blob.Tree + 1]openPack
	writers []*Writer
	packs   []packfile.Pack // uploaded
	sent    bool            // some pack was handed to an upload
}

// openPack is the next pack of one kind; the builder is nil while it is empty.
type openPack struct {
	builder *packfile.Builder
	blobs   int
}

type counters struct{ newBlobs, newBytes, stored atomic.Uint64 }

// Stats says what a session stored so far.
type Stats struct {
	NewBlobs    uint64
	NewBytes    uint64 // plaintext of the new blobs
	StoredBytes uint64 // of the packs that were sent
}

// New starts a session. Close must be called in the end.
func New(ctx context.Context, opts Options) *Session {
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	s := &Session{opts: opts.withDefaults(), group: group, ctx: ctx, cancel: cancel}
	s.group.SetLimit(s.opts.Uploads)
	s.spare = make(chan []byte, s.opts.Uploads+int(blob.Tree))
	return s
}

// Close ends the session and waits for its goroutines. What was uploaded stays.
func (s *Session) Close() error {
	s.cancel()
	s.group.Wait() // the error was, or will not be, asked for by Finish
	var errs []error
	for _, w := range s.writers {
		errs = append(errs, w.lookup.Close())
	}
	s.writers = nil
	return errors.Join(errs...)
}

// Stats returns the figures so far.
func (s *Session) Stats() Stats {
	return Stats{NewBlobs: s.stats.newBlobs.Load(), NewBytes: s.stats.newBytes.Load(), StoredBytes: s.stats.stored.Load()}
}

// Result is what a finished session used and wrote.
type Result struct {
	// New are the packs that this session uploaded, with their frames.
	New []packfile.Pack
	// Reused are the packs, older than this session, in which it found blobs.
	Reused index.PackSet
}

// Finish seals and uploads what is open and waits until every pack is stored.
// No writer may be in use.
func (s *Session) Finish(ctx context.Context) (Result, error) {
	reused := index.PackSet{}
	for _, w := range s.writers {
		if err := w.Flush(ctx); err != nil {
			return Result{}, err
		}
		for name := range w.found {
			reused[name] = struct{}{}
		}
	}
	s.uploadRest()
	if err := s.group.Wait(); err != nil {
		return Result{}, err
	}
	for _, pack := range s.packs {
		delete(reused, pack.Name)
	}
	return Result{New: s.packs, Reused: reused}, ctx.Err()
}

// add copies a sealed frame into the open pack of its kind, and uploads the pack
// when it is full. It blocks while all uploads are busy: that is what bounds
// the memory of a session when the store is slower than the workspace.
func (s *Session) add(f packfile.SealedFrame) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	s.mu.Lock()
	pack := &s.open[f.Kind]
	if pack.builder == nil {
		pack.builder = packfile.NewBuilder(s.buffer(f.Kind))
	}
	pack.builder.Add(f)
	pack.blobs += len(f.Blobs)
	var full *packfile.Builder
	if pack.builder.Size() >= s.opts.PackSize || pack.blobs >= maxPackBlobs {
		full, *pack = pack.builder, openPack{}
		s.sent = true
	}
	s.mu.Unlock()
	s.upload(full)
	return nil
}

// uploadRest uploads the open packs: together as one mixed pack if nothing was
// uploaded before and they are small, since then one object is one request less.
func (s *Session) uploadRest() {
	s.mu.Lock()
	data, tree := s.open[blob.Data], s.open[blob.Tree]
	s.open = [blob.Tree + 1]openPack{}
	sent := s.sent
	s.mu.Unlock()
	if data.builder != nil && tree.builder != nil && !sent &&
		data.builder.Size()+tree.builder.Size() <= s.opts.PackSize/2 && data.blobs+tree.blobs <= maxPackBlobs {
		tree.builder.Append(data.builder)
		data.builder = nil
	}
	s.upload(data.builder)
	s.upload(tree.builder)
}

func (s *Session) upload(pack *packfile.Builder) {
	if pack != nil {
		s.group.Go(func() error { return s.uploadPack(pack) })
	}
}

// uploadPack finishes and stores one pack. Only when the store has acknowledged
// it do readers of the index see its blobs, and only then are they no longer
// pending: at every moment a blob of this session is in one of the two.
func (s *Session) uploadPack(builder *packfile.Builder) error {
	pack, object := builder.Finish(s.opts.Sealer)
	store := s.opts.Store
	if hasTrees(pack) {
		store = s.opts.TreeStore
	}
	if _, err := store.Put(s.ctx, PackKey(pack.Name), bytes.NewReader(object), objectstore.PutOptions{}); err != nil {
		return err
	}
	s.stats.stored.Add(uint64(len(object)))
	s.recycle(object)
	// The pack is there: that the session ends now must not make the next one store it again.
	if err := s.opts.Index.AddPacks(context.WithoutCancel(s.ctx), pack); err != nil {
		return err
	}
	s.pending.remove(pack)
	s.mu.Lock()
	s.packs = append(s.packs, pack)
	s.mu.Unlock()
	return nil
}

func hasTrees(pack packfile.Pack) bool {
	return slices.ContainsFunc(pack.Frames, func(f packfile.Frame) bool { return f.Kind == blob.Tree })
}

// PackKey is the key of a pack in the object store.
func PackKey(name packfile.Name) string { return PackPrefix + name.String() }

// PackPrefix starts the keys of all packs.
const PackPrefix = "packs/"

// buffer returns memory for a pack. Only data packs regularly fill up; others
// grow as needed.
func (s *Session) buffer(kind blob.Kind) []byte {
	select {
	case b := <-s.spare:
		return b
	default:
	}
	if kind != blob.Data {
		return nil
	}
	return make([]byte, 0, s.opts.PackSize+s.opts.PackSize/8)
}

// recycle keeps the memory of a pack for the next one.
func (s *Session) recycle(b []byte) {
	select {
	case s.spare <- b[:0]:
	default:
	}
}
