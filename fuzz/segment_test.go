package fuzz_test

import (
	"bytes"
	"runtime/metrics"
	"testing"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
)

// segmentSeeds are encodings of real packs.
func segmentSeeds() [][]byte {
	sealer := seal.New(seal.Key{Secret: [32]byte{1}}, seal.Fastest)
	var packs []packfile.Pack
	seeds := [][]byte{index.EncodeSegment(nil)}
	for kind := blob.Data; kind <= blob.Tree; kind++ {
		b := packfile.NewBuilder(nil)
		for frame := range byte(3) {
			f := packfile.NewFrameBuilder(kind)
			for i := range frame + 1 {
				f.Add(blob.ID{byte(kind), frame, i}, bytes.Repeat([]byte{i}, 200*int(i)))
			}
			b.Add(f.Seal(nil, sealer))
		}
		p, _ := b.Finish(sealer)
		packs = append(packs, p)
		seeds = append(seeds, index.EncodeSegment(packs))
	}
	return seeds
}

// allocated is the number of bytes allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Whatever decodes encodes to the same bytes; nothing panics, and nothing makes
// the decoder allocate more than a small multiple of its input.
func FuzzSegment(f *testing.F) {
	for _, seed := range segmentSeeds() {
		f.Add(seed)
		f.Add(append(seed, 0))
		f.Add(seed[:len(seed)-1])
		for i := range min(len(seed), 80) {
			mutant := bytes.Clone(seed)
			mutant[i] ^= 0x80
			f.Add(mutant)
		}
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := allocated()
		packs, err := index.DecodeSegment(b)
		// The slack is for other goroutines.
		if n := allocated() - before; n > 32*uint64(len(b))+1<<20 {
			t.Errorf("%d bytes allocated for an input of %d", n, len(b))
		}
		if err != nil {
			return
		}
		if got := index.EncodeSegment(packs); !bytes.Equal(got, b) {
			t.Errorf("%x decodes, but encodes to %x", b, got)
		}
	})
}
