package fuzz_test

import (
	"bytes"
	"testing"

	"github.com/snapctl/snapctl/engine/manifest"
)

// FuzzManifest decodes arbitrary manifests. What decodes encodes to the same
// bytes, and a writer could have written it.
func FuzzManifest(f *testing.F) {
	addGolden(f, "../engine/manifest/testdata/*manifest.v0")
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		mustAllocate(t, 256<<10+64*uint64(len(b)), func() {
			m, err := manifest.Decode(b)
			if err != nil {
				mustBeDamaged(t, err)
				return
			}
			if err := m.Check(); err != nil {
				t.Errorf("%x decodes, but %v", b, err)
			}
			if again := m.Encode(); !bytes.Equal(again, b) {
				t.Errorf("%x re-encodes to %x", b, again)
			}
		})
	})
}
