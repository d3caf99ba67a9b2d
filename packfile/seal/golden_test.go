package seal

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files again; only for a new format version")

// The files in testdata are units of format version 0. They open for ever.
func TestGolden(t *testing.T) {
	s := constantly(New(testKey, Default))
	for _, tc := range []struct {
		file    string
		name    string
		unit    Unit
		content []byte
		exact   bool // the encoding does not depend on the version of the compressor
	}{
		{"stored.v0", "", DataFrame, noise(64), true},
		{"compressed.v0", "", Segment, text(1000), false},
		{"empty.v0", "", Label, nil, true},
		{"named.v0", "a name", Tombstone, []byte{1}, true},
	} {
		t.Run(tc.file, func(t *testing.T) {
			s := s.At(tc.name)
			sealed := s.Seal(nil, tc.unit, tc.content, tc.content)
			golden := goldenFile(t, tc.file, sealed)
			if tc.exact && !bytes.Equal(sealed, golden) {
				t.Errorf("content seals to\n%x, golden file\n%x", sealed, golden)
			}
			got, err := s.Open(nil, tc.unit, golden, len(tc.content))
			if err != nil || !bytes.Equal(got, tc.content) {
				t.Errorf("golden file opens to %q, %v", got, err)
			}
		})
	}
}

func goldenFile(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return golden
}
