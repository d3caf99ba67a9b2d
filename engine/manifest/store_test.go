package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
	"pgregory.net/rapid"
)

var testNamer = blob.NewNamer([32]byte{1})

// nodes is a store of tree blobs. It refuses to store what it could not decode
// again.
type nodes struct {
	byID map[blob.ID][]byte
	gets int
}

func newNodes() *nodes { return &nodes{byID: map[blob.ID][]byte{}} }

func (n *nodes) put(node []byte) (blob.ID, error) {
	if again, err := Recode(node); err != nil || !bytes.Equal(again, node) {
		return blob.ID{}, fmt.Errorf("stored node does not re-encode: %v", err)
	}
	return n.putAny(node), nil
}

// putAny stores what no writer would.
func (n *nodes) putAny(node []byte) blob.ID {
	id := testNamer.ID(blob.Tree, node)
	n.byID[id] = bytes.Clone(node)
	return id
}

func (n *nodes) get(_ context.Context, id blob.ID) ([]byte, error) {
	if n.gets++; n.gets > 100_000 {
		return nil, errors.New("reading does not end")
	}
	node, ok := n.byID[id]
	if !ok {
		return nil, fmt.Errorf("no node %v", id)
	}
	return node, nil
}

func writeDir(t fataler, n *nodes, entries []Entry) blob.ID {
	t.Helper()
	w := NewDirWriter(n.put)
	for i := range entries {
		if err := w.Add(&entries[i]); err != nil {
			t.Fatalf("add %q: %v", entries[i].Name, err)
		}
	}
	id, err := w.Finish()
	if err != nil {
		t.Fatalf("finish: %v", err)
	}
	return id
}

func readDir(n *nodes, id blob.ID) ([]Entry, error) {
	var entries []Entry
	for e, err := range ReadDir(context.Background(), n.get, id) {
		if err != nil {
			return entries, err
		}
		entries = append(entries, *e)
	}
	return entries, nil
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

var (
	_ fataler = (*testing.T)(nil)
	_ fataler = (*rapid.T)(nil)
)

func testID(n int) blob.ID { return testNamer.ID(blob.Data, fmt.Append(nil, n)) }

// drawEntry draws an entry of any kind that keeps all rules.
func drawEntry(t *rapid.T, name string) Entry {
	e := Entry{
		Name:   name,
		Kind:   EntryKind(rapid.IntRange(int(File), int(BlockDevice)).Draw(t, "kind")),
		Mode:   rapid.Uint32Range(0, 0o7777).Draw(t, "mode"),
		UID:    rapid.Uint32().Draw(t, "uid"),
		GID:    rapid.Uint32().Draw(t, "gid"),
		MTime:  Time{Sec: rapid.Int64().Draw(t, "sec"), Nsec: rapid.Uint32Range(0, 999_999_999).Draw(t, "nsec")},
		Xattrs: drawXattrs(t),
	}
	switch e.Kind {
	case File:
		e.Content, e.Size = drawContent(t)
	case Dir:
		e.Node = testID(rapid.Int().Draw(t, "node"))
	case Symlink:
		e.Target = rapid.StringMatching(`[^\x00]{1,100}`).Draw(t, "target")
	case CharDevice, BlockDevice:
		e.Device = Device{rapid.Uint32().Draw(t, "major"), rapid.Uint32().Draw(t, "minor")}
	}
	return e
}

func drawContent(t *rapid.T) (Content, uint64) {
	if rapid.IntRange(0, 9).Draw(t, "list") == 0 {
		return Content{List: testID(1)}, rapid.Uint64Range(1, 1<<63-1).Draw(t, "size")
	}
	var c Content
	size := uint64(0)
	for i := range rapid.IntRange(0, MaxExtents).Draw(t, "extents") {
		x := Extent{Length: rapid.Uint64Range(1, 1<<40).Draw(t, "length"), ID: testID(i)}
		if rapid.Bool().Draw(t, "hole") && (i == 0 || !c.Extents[i-1].Hole()) {
			x.ID = blob.ID{}
		}
		c.Extents = append(c.Extents, x)
		size += x.Length
	}
	return c, size
}

func drawXattrs(t *rapid.T) []Xattr {
	var xattrs []Xattr
	for i := range rapid.IntRange(0, 3).Draw(t, "xattrs") {
		x := Xattr{Name: fmt.Sprintf("user.%d", i)}
		if rapid.Bool().Draw(t, "blob") {
			x.Blob, x.Size = testID(i), rapid.Uint32Range(MaxInlineXattr+1, MaxXattrValue).Draw(t, "size")
		} else if value := rapid.SliceOfN(rapid.Byte(), 0, MaxInlineXattr).Draw(t, "value"); len(value) > 0 {
			x.Value = value
		}
		xattrs = append(xattrs, x)
	}
	return xattrs
}
