package restore

import (
	"bytes"
	"context"
	"testing"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// packed is a repository of real packs.
type packed struct {
	store   *mem.Store
	sealer  *seal.Sealer
	places  map[stored]fetch.Location
	fetcher *fetch.Fetcher
}

func (p *packed) Copies(_ context.Context, kind blob.Kind, id blob.ID, dst []fetch.Location) ([]fetch.Location, error) {
	if l, ok := p.places[stored{kind, id}]; ok {
		dst = append(dst, l)
	}
	return dst, nil
}

// pack puts the blobs of src into packs, in the order in which they came.
func pack(t testing.TB, src *memSource, frameSize, packSize int) *packed {
	t.Helper()
	p := &packed{store: mem.New(), sealer: seal.New(seal.Key{Secret: [32]byte{1}}, seal.Fastest), places: make(map[stored]fetch.Location)}
	for _, kind := range []blob.Kind{blob.Data, blob.Tree} {
		builder, frame := packfile.NewBuilder(nil), packfile.NewFrameBuilder(kind)
		for _, s := range src.order {
			if s.kind != kind {
				continue
			}
			frame.Add(s.id, src.blobs[kind][s.id])
			if frame.Size() >= frameSize {
				builder.Add(frame.Seal(nil, p.sealer))
			}
			if builder.Size() >= packSize {
				p.put(t, builder)
				builder = packfile.NewBuilder(nil)
			}
		}
		if !frame.Empty() {
			builder.Add(frame.Seal(nil, p.sealer))
		}
		if !builder.Empty() {
			p.put(t, builder)
		}
	}
	p.fetcher = fetch.New(fetch.Config{Store: p.store, Sealer: p.sealer, Namer: src.namer, Locator: p})
	return p
}

func (p *packed) put(t testing.TB, b *packfile.Builder) {
	t.Helper()
	pack, object := b.Finish(p.sealer)
	_, err := p.store.Put(t.Context(), "packs/"+pack.Name.String(), bytes.NewReader(object), objectstore.PutOptions{})
	must(t, err)
	for _, f := range pack.Frames {
		offset := uint32(0)
		for _, bl := range f.Blobs {
			p.places[stored{f.Kind, bl.ID}] = fetch.Location{Pack: pack.Name, FrameOffset: f.Offset, FrameLength: f.Length,
				FrameContent: uint32(f.ContentSize()), Offset: offset, Length: bl.Length}
			offset += bl.Length
		}
	}
}

func TestFromPacks(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	p := pack(t, src, 64<<10, 1<<20)
	mustRun(t, p.fetcher, snap, Options{Target: dir + "/dst"})
	wantEqual(t, src, dir+"/dst", snap)
}
