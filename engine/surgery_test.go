package engine_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// piece is a blob as it lies in a pack.
type piece struct {
	kind    blob.Kind
	content []byte
}

// dissect reads every blob of a repository.
func dissect(t *testing.T, keys commit.Repo) map[blob.ID]piece {
	t.Helper()
	pieces := map[blob.ID]piece{}
	for _, key := range objects(t, keys.Store, "packs/") {
		object := read(t, keys.Store, key)
		name, err := packfile.ParseName(strings.TrimPrefix(key, "packs/"))
		if err != nil {
			t.Fatal(err)
		}
		pack, err := packfile.ReadFooter(keys.Sealer, name, int64(len(object)), func(offset, length int64) ([]byte, error) {
			return bytes.Clone(object[offset : offset+length]), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range pack.Frames {
			content, err := f.Open(nil, keys.Sealer, bytes.Clone(object[f.Offset:f.Offset+f.Length]))
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range f.Blobs {
				pieces[b.ID] = piece{f.Kind, content[:b.Length]}
				content = content[b.Length:]
			}
		}
	}
	return pieces
}

// withPacks returns a copy of a repository whose blobs lie in other packs: one for each
// map of pieces, indexed.
func withPacks(t *testing.T, keys commit.Repo, packs ...map[blob.ID]piece) *mem.Store {
	t.Helper()
	store := keys.Store.(*mem.Store).Clone()
	for _, prefix := range []string{"packs/", "index/"} {
		for _, key := range objects(t, store, prefix) {
			remove(t, store, key)
		}
	}
	var made []packfile.Pack
	for _, pieces := range packs {
		made = append(made, putPack(t, store, keys.Sealer, pieces))
	}
	if _, err := index.WriteSegments(t.Context(), store, keys.Sealer, made); err != nil {
		t.Fatal(err)
	}
	return store
}

// putPack puts a pack in which each blob has a frame of its own.
func putPack(t *testing.T, store *mem.Store, sealer *seal.Sealer, pieces map[blob.ID]piece) packfile.Pack {
	t.Helper()
	builder := packfile.NewBuilder(nil)
	var ids []blob.ID
	for id := range pieces {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, blob.ID.Compare)
	for _, id := range ids {
		frame := packfile.NewFrameBuilder(pieces[id].kind)
		frame.Add(id, pieces[id].content)
		builder.Add(frame.Seal(nil, sealer))
	}
	pack, object := builder.Finish(sealer)
	put(t, store, "packs/"+pack.Name.String(), object)
	return pack
}

// part returns the pieces that are chosen, or those that are not.
func part(pieces map[blob.ID]piece, chosen []blob.ID) (with, without map[blob.ID]piece) {
	with, without = map[blob.ID]piece{}, map[blob.ID]piece{}
	for id, p := range pieces {
		if slices.Contains(chosen, id) {
			with[id] = p
		} else {
			without[id] = p
		}
	}
	return with, without
}
