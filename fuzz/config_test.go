package fuzz_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/packfile/seal"
)

// FuzzConfig opens arbitrary config objects, as somebody who has the key could
// write them: it seals the fuzzed content behind the header that the content
// begins with. A config that opens must encode to the same header and content.
func FuzzConfig(f *testing.F) {
	const headerSize = 56
	sealer := seal.New(seal.Key{Secret: [32]byte{1, 2, 3, 4, 5, 6, 7, 8}}, seal.Default)
	content := func(object []byte) []byte {
		b, err := sealer.Open(nil, seal.Config, bytes.Clone(object[headerSize:]), seal.MaxContent)
		if err != nil {
			panic(err) // it was sealed above
		}
		return b
	}
	c, err := config.New()
	if err != nil {
		f.Fatal(err)
	}
	object, err := c.Encode(sealer)
	if err != nil {
		f.Fatal(err)
	}
	good := content(object)
	f.Add(good)
	f.Add(append(bytes.Clone(good), 0))
	f.Add(good[:headerSize])
	golden, err := os.ReadFile("../engine/config/testdata/v0/config")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Fuzz(func(t *testing.T, b []byte) {
		object := sealer.Seal(bytes.Clone(b[:min(len(b), headerSize)]), seal.Config, b, b)
		c, err := config.Open(object, sealer)
		if err != nil {
			return
		}
		again, err := c.Encode(sealer)
		if err != nil {
			t.Fatalf("%+v opened, but does not encode: %v", c, err)
		}
		if !bytes.Equal(again[:headerSize], b[:headerSize]) || !bytes.Equal(content(again), b) {
			t.Errorf("%+v encodes to another config than it was", c)
		}
	})
}
