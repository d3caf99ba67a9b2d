package manifest

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
	"pgregory.net/rapid"
)

// Whatever the writer accepts, the reader accepts, and the other way round: a
// snapshot that was saved must be restored.
func TestWriterAndReaderAgree(t *testing.T) {
	someID := testID(1)
	file := func(size uint64, extents ...Extent) Entry {
		return Entry{Kind: File, Size: size, Content: Content{Extents: extents}}
	}
	xattr := func(xattrs ...Xattr) Entry { return Entry{Kind: FIFO, Xattrs: xattrs} }
	data, hole := Extent{5, someID}, Extent{Length: 5}
	tests := []struct {
		name  string
		entry Entry
		ok    bool
	}{
		{"fifo", Entry{Kind: FIFO}, true},
		{"no kind", Entry{}, false},
		{"kind 8", Entry{Kind: 8}, false},
		{"mode 7777", Entry{Kind: Socket, Mode: 0o7777}, true},
		{"mode with type bits", Entry{Kind: Socket, Mode: 0o107777}, false},
		{"last nanosecond", Entry{Kind: FIFO, MTime: Time{Sec: math.MinInt64, Nsec: 999_999_999}}, true},
		{"a billion nanoseconds", Entry{Kind: FIFO, MTime: Time{Nsec: 1e9}}, false},
		{"dir", Entry{Kind: Dir, Node: someID}, true},
		{"dir without node", Entry{Kind: Dir}, false},
		{"symlink", Entry{Kind: Symlink, Target: strings.Repeat("t", MaxTarget)}, true},
		{"empty target", Entry{Kind: Symlink}, false},
		{"target with NUL", Entry{Kind: Symlink, Target: "a\x00"}, false},
		{"long target", Entry{Kind: Symlink, Target: strings.Repeat("t", MaxTarget+1)}, false},
		{"empty file", file(0), true},
		{"file", file(15, data, hole, data), true},
		{"file of holes", file(10, hole, hole), false},
		{"empty extent", file(5, data, Extent{ID: someID}), false},
		{"size differs", file(6, data), false},
		{"no content", file(1), false},
		{"extent of 2^63", file(1<<63, Extent{1 << 63, someID}), false},
		{"extents overflow", file(4, Extent{math.MaxUint64, someID}, data), false},
		{"32 extents", file(160, bytesOf(32, data)...), true},
		{"33 extents", file(165, bytesOf(33, data)...), false},
		{"list", Entry{Kind: File, Size: math.MaxInt64, Content: Content{List: someID}}, true},
		{"list of nothing", Entry{Kind: File, Content: Content{List: someID}}, false},
		{"list of 2^63", Entry{Kind: File, Size: 1 << 63, Content: Content{List: someID}}, false},
		{"inline xattr", xattr(Xattr{Name: "a", Value: make([]byte, MaxInlineXattr)}), true},
		{"long inline xattr", xattr(Xattr{Name: "a", Value: make([]byte, MaxInlineXattr+1)}), false},
		{"xattr blob", xattr(Xattr{Name: "a", Blob: someID, Size: MaxInlineXattr + 1}), true},
		{"short xattr blob", xattr(Xattr{Name: "a", Blob: someID, Size: MaxInlineXattr}), false},
		{"long xattr blob", xattr(Xattr{Name: "a", Blob: someID, Size: MaxXattrValue + 1}), false},
		{"xattr without name", xattr(Xattr{}), false},
		{"xattr name with NUL", xattr(Xattr{Name: "\x00"}), false},
		{"long xattr name", xattr(Xattr{Name: strings.Repeat("n", MaxXattrName+1)}), false},
		{"xattrs unsorted", xattr(Xattr{Name: "b"}, Xattr{Name: "a"}), false},
		{"xattr twice", xattr(Xattr{Name: "a"}, Xattr{Name: "a"}), false},
		{"most xattrs", xattr(xattrsOf(MaxXattrs)...), true},
		{"too many xattrs", xattr(xattrsOf(MaxXattrs + 1)...), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.entry.Name = "name"
			err := tc.entry.Check()
			if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("Check = %v", err)
			}
			if err := NewDirWriter(newNodes().put).Add(&tc.entry); (err == nil) != tc.ok {
				t.Errorf("Add = %v", err)
			}
			node := leafOf(dirNode, appendEntry(nil, &tc.entry))
			again, err := Recode(node)
			if (err == nil && bytes.Equal(again, node)) != tc.ok {
				t.Errorf("Recode = %v", err)
			}
		})
	}
}

func bytesOf(n int, x Extent) (extents []Extent) {
	for range n {
		extents = append(extents, x)
	}
	return extents
}

func xattrsOf(n int) (xattrs []Xattr) {
	for i := range n {
		xattrs = append(xattrs, Xattr{Name: string([]byte{byte(i>>7) + 1, byte(i&127) + 1}), Value: []byte{1}})
	}
	return xattrs
}

func TestDrawnEntriesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t, "name")
		if err := e.Check(); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
	})
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "...": true, ".a": true, "a.": true, " ": true, "\xff\xfe": true, "a\\b": true, "a:b": true, "\n": true,
		strings.Repeat("n", 255): true, strings.Repeat("n", 256): false,
		"": false, ".": false, "..": false, "/": false, "a/b": false, "/a": false, "a/": false, "\x00": false, "a\x00b": false,
	} {
		if err := CheckName(name); (err == nil) != ok || err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}

func TestReferences(t *testing.T) {
	n := newNodes()
	id := func(i int) blob.ID { return testID(i) }
	entries := []Entry{
		{Name: "a", Kind: Dir, Node: id(1)},
		{Name: "b", Kind: File, Size: 6, Content: Content{Extents: []Extent{{1, id(2)}, {2, blob.ID{}}, {3, id(3)}}}},
		{Name: "c", Kind: File, Size: 6, Content: Content{List: id(4)}},
		{Name: "d", Kind: FIFO, Xattrs: []Xattr{{Name: "short", Value: []byte("x")}, {Name: "tall", Blob: id(5), Size: 1000}}},
	}
	dir := n.byID[writeDir(t, n, entries)]
	root := EncodeRoot(Entry{Kind: Dir, Node: id(1), Xattrs: entries[3].Xattrs})
	for name, tc := range map[string]struct {
		node        []byte
		trees, data []blob.ID
	}{
		"directory": {dir, []blob.ID{id(1), id(4)}, []blob.ID{id(2), id(3), id(5)}},
		"root":      {root, []blob.ID{id(1)}, []blob.ID{id(5)}},
		"index":     {indexOf(dirNode, 1, named("x", 1, id(6)), named("y", 1, id(7))), []blob.ID{id(6), id(7)}, nil},
		"content":   {leafOf(contentNode, appendExtent(nil, Extent{1, id(8)}), appendExtent(nil, Extent{Length: 1})), nil, []blob.ID{id(8)}},
		"links":     {leafOf(linkNode, appendGroup(nil, []string{"a", "b"})), nil, nil},
	} {
		trees, data, err := References(tc.node)
		if err != nil || !slices.Equal(trees, tc.trees) || !slices.Equal(data, tc.data) {
			t.Errorf("%s refers to trees %v and data %v, %v", name, trees, data, err)
		}
	}
}
