package fuzz_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// FuzzFooter decodes arbitrary footers. What decodes encodes to the same bytes.
func FuzzFooter(f *testing.F) {
	frames := []packfile.Frame{
		{Kind: blob.Data, Length: 100, Blobs: []packfile.Blob{{ID: blob.ID{1}, Length: 5}, {ID: blob.ID{2}, Length: 300}}},
		{Kind: blob.Tree, Length: 53, Blobs: []packfile.Blob{{ID: blob.ID{3}, Length: 0}}},
	}
	f.Add(packfile.EncodeFooter(frames), int64(153))
	f.Add(packfile.EncodeFooter(nil), int64(0))
	f.Add(packfile.EncodeFooter(frames), int64(-1))
	f.Fuzz(func(t *testing.T, b []byte, frameBytes int64) {
		mustAllocate(t, 64<<10+16*uint64(len(b)), func() {
			frames, err := packfile.DecodeFooter(b, frameBytes)
			if err != nil {
				mustBeDamaged(t, err)
				return
			}
			if again := packfile.EncodeFooter(frames); !bytes.Equal(again, b) {
				t.Errorf("%x re-encodes to %x", b, again)
			}
		})
	})
}

// FuzzPack verifies arbitrary objects and reads their footers, which are not
// authentic unless the object is the seed.
func FuzzPack(f *testing.F) {
	golden, err := os.ReadFile("../packfile/testdata/pack.v0")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:60])
	f.Add(append(bytes.Clone(golden[:len(golden)-8]), 0xff, 0xff, 0xff, 0xff, 'K', 'C', 'A', 'P'))
	f.Fuzz(func(t *testing.T, object []byte) {
		name := packfile.NameOf(object)
		_ = packfile.Verify(name, object) // any error: the header may be of a newer version
		name[0]++
		if err := packfile.Verify(name, object); !errors.Is(err, packfile.ErrDamaged) {
			t.Errorf("an object with another name: %v", err)
		}
		pack, err := packfile.ReadFooter(frameSealer, name, int64(len(object)), func(offset, length int64) ([]byte, error) {
			return bytes.Clone(object[offset : offset+length]), nil
		})
		if err != nil {
			mustBeDamaged(t, err)
			return
		}
		for _, frame := range pack.Frames {
			sealed := bytes.Clone(object[frame.Offset : frame.Offset+frame.Length])
			if _, err := frame.Open(nil, frameSealer, sealed); err != nil {
				mustBeDamaged(t, err)
			}
		}
	})
}
