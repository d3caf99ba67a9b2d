package fuzz_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// FuzzNode decodes arbitrary tree nodes of every type. What decodes encodes to
// the same bytes, and the collector sees the same as the reader.
func FuzzNode(f *testing.F) {
	addGolden(f, "../engine/manifest/testdata/[cdelr]*.v0")
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{4, 0, 1, 2, 1, 'a', 1, 'b'})
	f.Fuzz(func(t *testing.T, b []byte) {
		mustAllocate(t, 256<<10+128*uint64(len(b)), func() {
			again, err := manifest.Recode(b)
			_, _, refErr := manifest.References(b)
			if (err == nil) != (refErr == nil) {
				t.Errorf("%x: Recode says %v, References %v", b, err, refErr)
			}
			if err != nil {
				mustBeDamaged(t, err)
			} else if !bytes.Equal(again, b) {
				t.Errorf("%x re-encodes to %x", b, again)
			}
		})
	})
}

// FuzzReadDir reads directories whose nodes all have the same arbitrary bytes,
// whatever id they refer to. Reading ends, and yields ascending names only.
func FuzzReadDir(f *testing.F) {
	addGolden(f, "../engine/manifest/testdata/*dir*.v0")
	f.Fuzz(func(t *testing.T, b []byte) {
		gets := 0
		get := func(context.Context, blob.ID) ([]byte, error) {
			if gets++; gets > 1000 {
				t.Fatalf("reading %x does not end", b)
			}
			return b, nil
		}
		previous := ""
		for e, err := range manifest.ReadDir(context.Background(), get, blob.ID{1}) {
			if err != nil {
				mustBeDamaged(t, err)
				return
			}
			if manifest.CheckName(e.Name) != nil || e.Name <= previous {
				t.Fatalf("entry %q follows %q", e.Name, previous)
			}
			previous = e.Name
		}
		_, err := manifest.Lookup(context.Background(), get, manifest.Entry{Kind: manifest.Dir, Node: blob.ID{1}}, previous)
		if err != nil && !errors.Is(err, manifest.ErrNotFound) {
			mustBeDamaged(t, err)
		}
	})
}
