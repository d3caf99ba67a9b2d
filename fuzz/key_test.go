package fuzz_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/snapctl/snapctl/engine/keyring"
)

// FuzzKeyObject decodes arbitrary key objects: one that decodes must encode to
// the same bytes.
func FuzzKeyObject(f *testing.F) {
	for _, kind := range []string{"passphrase", "x25519", "hybrid", "plain"} {
		b, err := os.ReadFile(filepath.Join("../engine/keyring/testdata/v0", kind))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
		f.Add(append(bytes.Clone(b), 0))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := keyring.DecodeObject(b)
		if err != nil {
			return
		}
		if again := o.Encode(); !bytes.Equal(again, b) {
			t.Errorf("%+v encodes to %x", o.Info, again)
		}
	})
}
