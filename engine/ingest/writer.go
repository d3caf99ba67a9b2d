package ingest

import (
	"context"
	"sync"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Writer stores the blobs of one worker. It belongs to one goroutine at a time.
type Writer struct {
	session *Session
	lookup  *index.Reader
	frames  [blob.Tree + 1]*packfile.FrameBuilder
	counts  [blob.Tree + 1]int
	sealed  []byte // memory of the frame that was sealed last
	found   index.PackSet
	last    packfile.Name // the pack found last: most hits are in a row
}

// Writer returns a new writer of the session.
func (s *Session) Writer() *Writer {
	w := &Writer{session: s, lookup: s.opts.Index.NewReader(s.opts.Avoid), found: index.PackSet{}}
	w.frames[blob.Data] = packfile.NewFrameBuilder(blob.Data)
	w.frames[blob.Tree] = packfile.NewFrameBuilder(blob.Tree)
	s.mu.Lock()
	s.writers = append(s.writers, w)
	s.mu.Unlock()
	return w
}

// Put names plaintext and stores it unless the repository, or this session, has
// it. It does not keep plaintext.
func (w *Writer) Put(ctx context.Context, kind blob.Kind, plaintext []byte) (blob.ID, error) {
	id := w.session.opts.Namer.ID(kind, plaintext)
	claimed, err := w.Claim(ctx, id)
	if err != nil || !claimed {
		return id, err
	}
	return id, w.Store(kind, id, plaintext)
}

// Claim reports whether the blob has to be stored: neither the repository nor
// this session has it. Who is told so must store it in this session, by Store or
// as part of a frame by StoreFrame.
func (w *Writer) Claim(ctx context.Context, id blob.ID) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if !w.session.pending.claim(id) {
		return false, nil
	}
	known, err := w.inIndex(id)
	if err != nil || known {
		w.session.pending.unclaim(id)
	}
	return err == nil && !known, err
}

// Store stores a blob that was claimed. It does not keep plaintext.
func (w *Writer) Store(kind blob.Kind, id blob.ID, plaintext []byte) error {
	w.session.stats.newBlobs.Add(1)
	w.session.stats.newBytes.Add(uint64(len(plaintext)))
	return w.store(kind, id, plaintext)
}

// StoreFrame stores a frame, sealed for this repository, whose blobs were all
// claimed. It does not keep the bytes.
func (w *Writer) StoreFrame(f packfile.SealedFrame) error {
	for _, b := range f.Blobs {
		w.session.stats.newBlobs.Add(1)
		w.session.stats.newBytes.Add(uint64(b.Length))
	}
	return w.session.add(f)
}

// Has reports whether the repository, or this session, has the blob. A blob that
// was found is taken as used by the snapshot.
func (w *Writer) Has(ctx context.Context, id blob.ID) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if w.session.pending.has(id) {
		return true, nil
	}
	return w.inIndex(id)
}

func (w *Writer) inIndex(id blob.ID) (bool, error) {
	pack, ok, err := w.lookup.Has(id)
	if ok && pack != w.last {
		w.found[pack] = struct{}{}
		w.last = pack
	}
	return ok, err
}

// store adds a new blob to the open frame of its kind.
func (w *Writer) store(kind blob.Kind, id blob.ID, plaintext []byte) error {
	frame := w.frames[kind]
	if !frame.Empty() && frame.Size()+len(plaintext) > w.session.opts.FrameSize {
		if err := w.flush(kind); err != nil {
			return err
		}
	}
	frame.Add(id, plaintext)
	w.counts[kind]++
	if frame.Size() >= w.session.opts.FrameSize || w.counts[kind] >= maxFrameBlobs {
		return w.flush(kind)
	}
	return nil
}

// Flush hands the open frames to the session.
func (w *Writer) Flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.flush(blob.Data); err != nil {
		return err
	}
	return w.flush(blob.Tree)
}

func (w *Writer) flush(kind blob.Kind) error {
	frame := w.frames[kind]
	if frame.Empty() {
		return nil
	}
	w.counts[kind] = 0
	sealed := frame.Seal(w.sealed[:0], w.session.opts.Sealer)
	w.sealed = sealed.Bytes
	return w.session.add(sealed)
}

// pendingSet holds the ids of the blobs that this session stores and that no
// acknowledged pack holds yet. It is bounded by what is in open frames and in
// uploads, about 100 MiB of plaintext, and by what callers of Claim still owe. Sixteen shards keep workers apart.
type pendingSet struct{ shards [16]pendingShard }

type pendingShard struct {
	mu  sync.Mutex // guards ids
	ids map[blob.ID]struct{}
}

func (p *pendingSet) shard(id blob.ID) *pendingShard { return &p.shards[id[0]%16] }

// claim adds id and reports whether it was absent: then the caller has to store
// the blob, or to unclaim it.
func (p *pendingSet) claim(id blob.ID) bool {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ids[id]; ok {
		return false
	}
	if s.ids == nil {
		s.ids = map[blob.ID]struct{}{}
	}
	s.ids[id] = struct{}{}
	return true
}

func (p *pendingSet) has(id blob.ID) bool {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ids[id]
	return ok
}

func (p *pendingSet) unclaim(id blob.ID) {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, id)
}

func (p *pendingSet) remove(pack packfile.Pack) {
	for _, f := range pack.Frames {
		for _, b := range f.Blobs {
			p.unclaim(b.ID)
		}
	}
}
