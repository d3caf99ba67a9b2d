package gc

import (
	"context"
	"slices"
	"testing"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// grove is tree nodes by their ids, and which of them were read.
type grove struct {
	nodes map[blob.ID][]byte
	read  []blob.ID
}

func (g *grove) Blobs(_ context.Context, _ blob.Kind, ids []blob.ID, deliver func(int, []byte, error) error) error {
	for i, id := range ids {
		g.read = append(g.read, id)
		var err error
		if g.nodes[id] == nil {
			err = fetch.ErrNotIndexed
		}
		if err := deliver(i, g.nodes[id], err); err != nil {
			return err
		}
	}
	return nil
}

// TestOthersBesidePublished: an attempt reads nothing again that published snapshots
// reach; a published snapshot reads all, whatever was passed over for an attempt.
func TestOthersBesidePublished(t *testing.T) {
	root := func(child blob.ID) []byte {
		return manifest.EncodeRoot(manifest.Entry{Kind: manifest.Dir, Mode: 0o755, Node: child})
	}
	var leaf []byte
	w := manifest.NewDirWriter(func(b []byte) (blob.ID, error) { leaf = slices.Clone(b); return blob.ID{9}, nil })
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	lost, shared, alone := blob.ID{1}, blob.ID{2}, blob.ID{3}
	g := &grove{nodes: map[blob.ID][]byte{shared: root(lost), alone: root(shared)}}
	m := newMark(&Repository{TempDir: t.TempDir(), Trees: g})
	defer m.close()
	if err := m.walk(t.Context(), &m.others, []blob.ID{shared}, m.mayBeGone); err != nil || !m.holes.Load() {
		t.Fatalf("%v, holes %v", err, m.holes.Load())
	}
	if err := m.walk(t.Context(), &m.published, []blob.ID{shared}, m.mustExist); !isLost(err) {
		t.Errorf("a published snapshot lacks a node: %v", err)
	}
	g.nodes[lost] = leaf // stored again
	m = newMark(&Repository{TempDir: t.TempDir(), Trees: g})
	defer m.close()
	if err := m.walk(t.Context(), &m.published, []blob.ID{shared}, m.mustExist); err != nil {
		t.Fatal(err)
	}
	g.read = nil
	if err := m.walk(t.Context(), &m.others, []blob.ID{alone}, m.mayBeGone); err != nil || !slices.Equal(g.read, []blob.ID{alone}) {
		t.Errorf("%v, read %v", err, g.read)
	}
	for _, id := range []blob.ID{lost, shared, alone} {
		if has, err := m.has(id); !has || err != nil {
			t.Errorf("%v: %v, %v", id, has, err)
		}
	}
}
