package packfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"pgregory.net/rapid"
)

var (
	testSealer = seal.New(seal.Key{Secret: [32]byte{1}, Family: [16]byte{2}}, seal.Default)
	testNamer  = blob.NewNamer([32]byte{3})
)

// content is what a pack was made from: the plaintexts of each frame.
type content struct {
	kind  blob.Kind
	blobs [][]byte
}

func buildPack(b *Builder, frames []content) (Pack, []byte) {
	for _, c := range frames {
		builder := NewFrameBuilder(c.kind)
		for _, plaintext := range c.blobs {
			builder.Add(testNamer.ID(c.kind, plaintext), plaintext)
		}
		b.Add(builder.Seal(nil, testSealer))
	}
	return b.Finish(testSealer)
}

func readAt(object []byte) func(offset, length int64) ([]byte, error) {
	return func(offset, length int64) ([]byte, error) {
		return bytes.Clone(object[offset : offset+length]), nil
	}
}

// readBack opens every blob of a pack by way of its footer alone.
func readBack(name Name, object []byte) ([]content, error) {
	pack, err := ReadFooter(testSealer, name, int64(len(object)), readAt(object))
	if err != nil {
		return nil, err
	}
	var frames []content
	for _, f := range pack.Frames {
		plain, err := f.Open(nil, testSealer, bytes.Clone(object[f.Offset:f.Offset+f.Length]))
		if err != nil {
			return nil, err
		}
		if err := f.Verify(testNamer, plain); err != nil {
			return nil, err
		}
		c := content{kind: f.Kind}
		for _, b := range f.Blobs {
			c.blobs = append(c.blobs, plain[:b.Length:b.Length])
			plain = plain[b.Length:]
		}
		frames = append(frames, c)
	}
	return frames, nil
}

func drawContent(t *rapid.T) []content {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) content {
		return content{
			kind:  rapid.SampledFrom([]blob.Kind{blob.Data, blob.Tree}).Draw(t, "kind"),
			blobs: rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, 20).Draw(t, "blobs"),
		}
	}), 0, 6).Draw(t, "frames")
}

func TestPackRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawContent(t)
		b := NewBuilder(nil)
		if !b.Empty() {
			t.Fatal("a new builder is not empty")
		}
		pack, object := buildPack(b, want)
		if pack.Size != int64(len(object)) || pack.Name != NameOf(object) {
			t.Fatalf("pack is %v of %d bytes, object %v of %d", pack.Name, pack.Size, NameOf(object), len(object))
		}
		if err := Verify(pack.Name, object); err != nil {
			t.Fatal(err)
		}
		read, err := ReadFooter(testSealer, pack.Name, pack.Size, readAt(object))
		if err != nil {
			t.Fatal(err)
		}
		if len(pack.Frames) > 0 && !reflect.DeepEqual(read, pack) {
			t.Fatalf("footer describes\n%v, want\n%v", read, pack)
		}
		got, err := readBack(pack.Name, object)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("read %v, %v; want %v", got, err, want)
		}
	})
}

var smallContent = []content{
	{blob.Data, [][]byte{[]byte("hello"), []byte("world"), bytes.Repeat([]byte("zz"), 200)}},
	{blob.Tree, [][]byte{[]byte("node")}},
	{blob.Data, [][]byte{{}}},
}

// A changed bit or a missing byte anywhere is noticed by Verify, without a key.
// A reader that does not verify gets an error or the right content, since the
// header and the unused part of the trailer do not matter to it.
func TestPackTampering(t *testing.T) {
	pack, object := buildPack(NewBuilder(nil), smallContent)
	check := func(altered []byte, what string, at int) {
		t.Helper()
		if err := Verify(pack.Name, altered); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s %d: Verify = %v, want ErrDamaged", what, at, err)
		}
		got, err := readBack(pack.Name, altered)
		if err == nil && at < headerSize {
			return
		}
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s %d: read %v, %v; want ErrDamaged", what, at, got, err)
		}
	}
	for bit := range 8 * len(object) {
		altered := bytes.Clone(object)
		altered[bit/8] ^= 1 << (bit % 8)
		check(altered, "bit", bit/8)
	}
	for n := range len(object) {
		check(object[:n], "cut at", headerSize)
		check(append(bytes.Clone(object[:n]), object[n+1:]...), "without byte", headerSize)
	}
}

func TestVerifyRefusesOtherObjects(t *testing.T) {
	_, object := buildPack(NewBuilder(nil), smallContent)
	alter := func(at int, b ...byte) []byte {
		altered := bytes.Clone(object)
		copy(altered[at:], b)
		return altered
	}
	trailer := len(object) - trailerSize
	tests := []struct {
		name   string
		object []byte
		want   error
		text   string
	}{
		{"empty", nil, ErrNotPack, "only 0 bytes"},
		{"short", object[:headerSize+trailerSize-1], ErrNotPack, "55 bytes"},
		{"other magic", alter(0, 'X'), ErrNotPack, "does not start"},
		{"newer version", alter(8, 1), nil, "update snapctl"},
		{"reserved bytes", alter(15, 1), ErrDamaged, "reserved"},
		{"other end", alter(trailer+4, 'X'), ErrDamaged, "does not end"},
		{"footer of 2^32-1 bytes", alter(trailer, 255, 255, 255, 255), ErrDamaged, "footer of 4294967295 bytes"},
		{"footer of 0 bytes", alter(trailer, 0, 0, 0, 0), ErrDamaged, "footer of 0 bytes"},
		{"footer longer than the rest", alter(trailer, binary.LittleEndian.AppendUint32(nil, uint32(len(object)-headerSize-trailerSize+1))...), ErrDamaged, "footer of"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := Verify(NameOf(tc.object), tc.object)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Verify = %v, want %v with %q", err, tc.want, tc.text)
			}
		})
	}
}

func TestNamesAreNeverReused(t *testing.T) {
	seen := map[Name]bool{}
	for range 50 {
		pack, _ := buildPack(NewBuilder(nil), nil)
		seen[pack.Name] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d names for 50 packs of equal content", len(seen))
	}
}

func TestFramesOfAnotherKindDoNotOpen(t *testing.T) {
	pack, object := buildPack(NewBuilder(nil), smallContent)
	for _, f := range pack.Frames {
		f.Kind = blob.Data + blob.Tree - f.Kind
		if got, err := f.Open([]byte("kept"), testSealer, bytes.Clone(object[f.Offset:f.Offset+f.Length])); !errors.Is(err, ErrDamaged) || string(got) != "kept" {
			t.Errorf("a frame opens as %v: %q, %v", f.Kind, got, err)
		}
	}
}

// The index may describe a frame wrongly. Bytes never count as blobs then.
func TestFrameAndDescriptionDisagree(t *testing.T) {
	pack, object := buildPack(NewBuilder(nil), smallContent[:1])
	sealed := func() []byte { return bytes.Clone(object[pack.Frames[0].Offset:][:pack.Frames[0].Length]) }
	describe := func(lengths ...uint32) Frame {
		f := pack.Frames[0]
		f.Blobs = append([]Blob(nil), f.Blobs...)
		for i, n := range lengths {
			f.Blobs[i].Length = n
		}
		return f
	}
	for name, f := range map[string]Frame{"too long": describe(6, 5, 400), "too short": describe(4, 5, 400)} {
		if got, err := f.Open(nil, testSealer, sealed()); !errors.Is(err, ErrDamaged) || len(got) > 0 {
			t.Errorf("%s: opened %d bytes, %v", name, len(got), err)
		}
	}
	plain, err := pack.Frames[0].Open(nil, testSealer, sealed())
	if err != nil {
		t.Fatal(err)
	}
	if err := describe(4, 6).Verify(testNamer, plain); !errors.Is(err, ErrDamaged) {
		t.Errorf("shifted blobs verify: %v", err)
	}
	for _, n := range []int{0, len(plain) - 1} {
		if err := pack.Frames[0].Verify(testNamer, plain[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of %d verify: %v", n, len(plain), err)
		}
	}
	if err := pack.Frames[0].Verify(testNamer, append(plain, 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte too many verifies: %v", err)
	}
}

func TestFrameBuilderIsUsedAgain(t *testing.T) {
	b := NewFrameBuilder(blob.Data)
	dst := append(make([]byte, 0, 4096), "what dst held is not part of the frame"...)
	var frames []SealedFrame
	for _, text := range []string{"first", "second"} {
		b.Add(testNamer.ID(blob.Data, []byte(text)), []byte(text))
		if b.Size() != len(text) || b.Empty() {
			t.Errorf("size %d, empty %v after %q", b.Size(), b.Empty(), text)
		}
		frames = append(frames, b.Seal(bytes.Clone(dst), testSealer))
		if b.Size() != 0 || !b.Empty() {
			t.Errorf("size %d, empty %v after Seal", b.Size(), b.Empty())
		}
	}
	builder := NewBuilder([]byte("so is what the buffer held"))
	for _, f := range frames {
		builder.Add(f)
	}
	pack, object := builder.Finish(testSealer)
	got, err := readBack(pack.Name, object)
	want := []content{{blob.Data, [][]byte{[]byte("first")}}, {blob.Data, [][]byte{[]byte("second")}}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %v, %v; want %v", got, err, want)
	}
}

func TestAppendedPacks(t *testing.T) {
	one, other := NewBuilder(nil), NewBuilder(nil)
	for i, b := range []*Builder{one, other, one} {
		frame := NewFrameBuilder(blob.Data)
		text := fmt.Append(nil, "frame ", i)
		frame.Add(testNamer.ID(blob.Data, text), text)
		b.Add(frame.Seal(nil, testSealer))
	}
	one.Append(other)
	one.Append(NewBuilder(nil))
	pack, object := one.Finish(testSealer)
	got, err := readBack(pack.Name, object)
	want := []content{{blob.Data, [][]byte{[]byte("frame 0")}}, {blob.Data, [][]byte{[]byte("frame 2")}}, {blob.Data, [][]byte{[]byte("frame 1")}}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %v, %v; want %v", got, err, want)
	}
}

func TestUnreadableFramesPanic(t *testing.T) {
	mustPanic := func(name string, b *FrameBuilder) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s frame: Seal does not panic", name)
			}
		}()
		b.Seal(nil, testSealer)
	}
	long := NewFrameBuilder(blob.Data)
	long.Add(blob.ID{1}, make([]byte, MaxFrameContent+1))
	mustPanic("empty", NewFrameBuilder(blob.Tree))
	mustPanic("long", long)
}

func TestParseName(t *testing.T) {
	name := NameOf([]byte("object"))
	if got, err := ParseName(name.String()); err != nil || got != name {
		t.Errorf("ParseName(%v) = %v, %v", name, got, err)
	}
	for _, bad := range []string{"", strings.ToUpper(name.String()), name.String()[:63], name.String() + "0", "../" + name.String()[3:]} {
		if _, err := ParseName(bad); err == nil {
			t.Errorf("ParseName(%q) succeeds", bad)
		}
	}
	if (Name{1}).Compare(Name{2}) != -1 || (Name{1}).Compare(Name{1}) != 0 {
		t.Error("names do not compare by their bytes")
	}
}

func TestParallelPacks(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				pack, object := buildPack(NewBuilder(nil), smallContent)
				if got, err := readBack(pack.Name, object); err != nil || fmt.Sprint(got) != fmt.Sprint(smallContent) {
					t.Errorf("read %v, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
