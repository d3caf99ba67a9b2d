package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestSegmentIsGolden(t *testing.T) {
	const path = "testdata/segment-v0"
	packs := []packfile.Pack{testPack(1, 1, 2, 3, 4, 5), testPack(2, 6, 7), testPack(3, 1)}
	got := EncodeSegment(packs)
	if *update {
		check(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	check(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("encoding changed:\n%x\nwant\n%x", got, want)
	}
	decoded, err := DecodeSegment(want)
	check(t, err)
	if !reflect.DeepEqual(decoded, sortedPacks(packs)) {
		t.Errorf("decoded %+v", decoded)
	}
}

func drawPacks(t *rapid.T) []packfile.Pack {
	frame := rapid.Custom(func(t *rapid.T) packfile.Frame {
		f := packfile.Frame{Kind: rapid.SampledFrom([]blob.Kind{blob.Data, blob.Tree}).Draw(t, "kind"),
			Length: rapid.Uint32Range(seal.Overhead, 1<<20).Draw(t, "length")}
		for _, n := range rapid.SliceOfN(rapid.Uint32Max(1<<20), 1, 5).Draw(t, "blobs") {
			f.Blobs = append(f.Blobs, packfile.Blob{ID: testID(int(n % 100)), Length: n})
		}
		return f
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) packfile.Pack {
		p := packfile.Pack{Name: testName(rapid.IntRange(0, 20).Draw(t, "name")),
			Frames: rapid.SliceOfN(frame, 0, 4).Draw(t, "frames")}
		if len(p.Frames) == 0 {
			p.Frames = []packfile.Frame{} // as DecodeFooter gives it
		}
		offset := uint32(48)
		for i := range p.Frames {
			p.Frames[i].Offset = offset
			offset += p.Frames[i].Length
		}
		p.Size = int64(offset) + int64(rapid.IntRange(60, 1000).Draw(t, "rest"))
		return p
	}), 0, 10).Draw(t, "packs")
}

func TestSegmentRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packs := drawPacks(t)
		b := EncodeSegment(packs)
		got, err := DecodeSegment(b)
		if err != nil {
			t.Fatal(err)
		}
		if want := sortedPacks(packs); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded %+v, want %+v", got, want)
		}
		slices.Reverse(packs)
		if unique := sortedPacks(packs); len(unique) == len(packs) && !bytes.Equal(EncodeSegment(packs), b) {
			t.Fatal("the order of packs matters")
		}
	})
}

func TestDecodeSegmentRejects(t *testing.T) {
	one, two := appendPack(nil, testPack(1, 1)), appendPack(nil, testPack(2, 2))
	if testName(1).Compare(testName(2)) > 0 {
		one, two = two, one
	}
	segment := func(n uint64, packs ...[]byte) []byte {
		return append(binary.AppendUvarint(nil, n), bytes.Join(packs, nil)...)
	}
	if _, err := DecodeSegment(segment(2, one, two)); err != nil {
		t.Fatalf("the template of this test: %v", err)
	}
	huge := slices.Clone(one)
	copy(huge[32:], []byte{0xff, 0xff, 0xff, 0xff, 0x7f})
	for name, b := range map[string][]byte{
		"nothing":              {},
		"no packs but bytes":   {0, 0},
		"too few packs":        segment(3, one, two),
		"too many packs":       segment(1, one, two),
		"announced, not there": segment(1 << 60),
		"descending":           segment(2, two, one),
		"twice":                segment(2, one, one),
		"padded number":        append([]byte{0x81, 0x00}, one...),
		"cut":                  segment(1, one[:len(one)-1]),
		"size out of range":    segment(1, huge),
		"too long":             make([]byte, maxSegment+1),
	} {
		if _, err := DecodeSegment(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", name, err)
		}
	}
}

func TestWriteSegmentsSplits(t *testing.T) {
	store := mem.New()
	var packs []packfile.Pack
	for i := range 9 { // of 65,536 blobs, 2.2 MiB each: seven fit
		packs = append(packs, testPack(i, span(i<<16, (i+1)<<16)...))
	}
	infos := writeSegments(t, store, packs...)
	if len(infos) != 2 {
		t.Errorf("%d segments, want 2", len(infos))
	}
	var got []packfile.Pack
	for _, info := range infos {
		stat, err := store.Stat(t.Context(), info.Name.Key())
		check(t, err)
		part, err := ReadSegment(t.Context(), store, testSealer, info.Name)
		check(t, err)
		got = append(got, part...)
		if info.Size != stat.Size || info.Size > maxSegment+seal.Overhead || len(info.Packs) != len(part) {
			t.Errorf("segment of %d bytes and %d packs, described as %d and %d", stat.Size, len(part), info.Size, len(info.Packs))
		}
	}
	if !reflect.DeepEqual(got, sortedPacks(packs)) {
		t.Error("the packs in the segments are not those that were written")
	}
}

func TestWriteSegmentsRefusesWhatDoesNotFit(t *testing.T) {
	store := mem.New()
	_, err := WriteSegments(t.Context(), store, testSealer, []packfile.Pack{testPack(1, span(0, 520_000)...)})
	if e := new(Error); !errors.As(err, &e) || e.Object != "packs/"+testName(1).String() {
		t.Errorf("error %v does not name the pack", err)
	}
	if infos, err := WriteSegments(t.Context(), store, testSealer, nil); len(infos) != 0 || err != nil {
		t.Errorf("no packs: %v, %v", infos, err)
	}
	if keys := keysOf(t, store, ""); len(keys) != 0 {
		t.Errorf("left %v", keys)
	}
}

func TestReadSegmentVerifies(t *testing.T) {
	store := mem.New()
	name := writeSegments(t, store, testPack(1, 1, 2))[0].Name
	sealed, err := objectstore.ReadAll(t.Context(), store, name.Key(), 1<<20)
	check(t, err)
	damage := func(what string, object []byte, sealer *seal.Sealer) {
		_, err := store.Put(t.Context(), name.Key(), bytes.NewReader(object), objectstore.PutOptions{})
		check(t, err)
		_, err = ReadSegment(t.Context(), store, sealer, name)
		if e := new(Error); !errors.As(err, &e) || !errors.Is(err, ErrDamaged) || e.Object != name.Key() {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range sealed {
		flipped := slices.Clone(sealed)
		flipped[i] ^= 1
		damage("flipped", flipped, testSealer)
	}
	damage("cut", sealed[:len(sealed)-1], testSealer)
	damage("wrong key", sealed, seal.New(seal.Key{}, seal.Fastest))
	check(t, store.Delete(t.Context(), name.Key()))
	if _, err := ReadSegment(t.Context(), store, testSealer, name); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func TestParseSegmentName(t *testing.T) {
	name := SegmentName(testID(1))
	if got, err := ParseSegmentName(name.String()); got != name || err != nil {
		t.Errorf("ParseSegmentName(String) = %v, %v", got, err)
	}
	if _, err := ParseSegmentName(name.String()[1:]); err == nil {
		t.Error("63 digits are accepted")
	}
}
