package packfile

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
)

var update = flag.Bool("update", false, "write the golden files again; only for a new format version")

var goldenUnique = [32]byte{0: 0xaa, 31: 0xbb}

// testdata/pack.v0 is a pack of format version 0. It opens for ever, and its
// frames laid out again give the same bytes up to the sealed footer, whose salt
// is random.
func TestGoldenPack(t *testing.T) {
	want := []content{
		{blob.Data, [][]byte{[]byte("hello"), []byte("world"), bytes.Repeat([]byte("zz"), 200)}},
		{blob.Tree, [][]byte{[]byte("node")}},
		{blob.Data, [][]byte{{}}},
	}
	if *update {
		_, object := buildPack(newBuilder(nil, goldenUnique), want)
		if err := os.WriteFile("testdata/pack.v0", object, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	object, err := os.ReadFile("testdata/pack.v0")
	if err != nil {
		t.Fatal(err)
	}
	name := NameOf(object)
	if err := Verify(name, object); err != nil {
		t.Error(err)
	}
	if got, err := readBack(name, object); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("golden pack holds %v, %v; want %v", got, err, want)
	}

	pack, err := ReadFooter(testSealer, name, int64(len(object)), readAt(object))
	if err != nil {
		t.Fatal(err)
	}
	again := newBuilder(nil, goldenUnique)
	end := headerSize
	for _, f := range pack.Frames {
		end = int(f.Offset + f.Length)
		again.Add(SealedFrame{Kind: f.Kind, Blobs: f.Blobs, Bytes: object[f.Offset:end]})
	}
	if _, got := again.Finish(testSealer); !bytes.Equal(got[:end], object[:end]) {
		t.Errorf("laid out again:\n%x\ngolden pack:\n%x", got[:end], object[:end])
	}
	footer, err := testSealer.Open(nil, seal.Footer, bytes.Clone(object[end:len(object)-trailerSize]), 1000)
	if err != nil || !bytes.Equal(EncodeFooter(pack.Frames), footer) {
		t.Errorf("footer encodes to\n%x\ngolden footer, %v:\n%x", EncodeFooter(pack.Frames), err, footer)
	}
}
