package manifest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
)

var update = flag.Bool("update", false, "write the golden files again; only for a new format version")

// goldenEntries holds an entry of every kind with everything that an entry can
// have.
func goldenEntries() []Entry {
	id := func(b byte) blob.ID { return blob.ID{b, 31: b} }
	time := Time{Sec: -1, Nsec: 999_999_999}
	return []Entry{
		{Name: "block", Kind: BlockDevice, Device: Device{Major: 1<<32 - 1, Minor: 0}},
		{Name: "char", Kind: CharDevice, Mode: 0o666, Device: Device{Major: 1, Minor: 3}},
		{Name: "dir", Kind: Dir, Mode: 0o1777, Node: id(1), UID: 1<<32 - 1, GID: 65534},
		{Name: "empty", Kind: File, Mode: 0o4755},
		{Name: "fifo", Kind: FIFO, MTime: time},
		{Name: "file", Kind: File, Mode: 0o644, MTime: time, Size: 1<<40 + 7, Content: Content{Extents: []Extent{{5, id(2)}, {1 << 40, blob.ID{}}, {2, id(3)}}},
			Xattrs: []Xattr{{Name: "security.capability", Value: []byte{0, 1, 2}}, {Name: "user.empty"}, {Name: "user.long", Blob: id(4), Size: 100_000}}},
		{Name: "huge", Kind: File, Size: 1<<63 - 1, Content: Content{List: id(5)}},
		{Name: "link", Kind: Symlink, Mode: 0o777, Target: "../\xff dangling"},
		{Name: "\xff not utf-8", Kind: Socket, Mode: 0o140, MTime: Time{Sec: 1 << 40}},
	}
}

func goldenManifest() *Manifest {
	return &Manifest{
		Root: blob.ID{1}, Links: blob.ID{2}, Parent: blob.ID{3},
		Time: Time{Sec: 1_700_000_000, Nsec: 5}, Source: "host:/workspace",
		Labels:      []Label{{"branch", "main"}, {"run", ""}},
		Consistency: Paused,
		Counts:      Counts{Files: 1, Dirs: 2, Symlinks: 3, Others: 4, Bytes: 1 << 40, Excluded: 5, Unreadable: 6, Torn: 7, Vanished: 8},
		Omissions:   []Omission{{"a/.env", Excluded, "credential file"}, {"b", Unreadable, "permission denied"}, {"c", TornFile, ""}, {"d", Unsupported, "xattr"}},
		Tool:        "snapctl 0.1.0",
	}
}

// goldenNodes encodes a node of every type.
func goldenNodes(t *testing.T) map[string][]byte {
	n := newNodes()
	dir := writeDir(t, n, goldenEntries())
	root := Entry{Kind: Dir, Mode: 0o755, Node: dir, MTime: Time{Sec: 1}, Xattrs: []Xattr{{Name: "user.a", Value: []byte("b")}}}
	extents := []Extent{{1, blob.ID{1}}, {1 << 20, blob.ID{}}, {1 << 40, blob.ID{2}}}
	var content []byte
	for _, x := range extents {
		content = appendExtent(content, x)
	}
	return map[string][]byte{
		"dir.v0":          n.byID[dir],
		"root.v0":         EncodeRoot(root),
		"dirindex.v0":     indexOf(dirNode, 1, named("m", 3, blob.ID{1}), named("z", 1<<40, blob.ID{2})),
		"content.v0":      append(appendHeader(nil, contentNode, 0, 3), content...),
		"contentindex.v0": indexOf(contentNode, 2, named("", 1, blob.ID{1}), named("", 1, blob.ID{1})),
		"links.v0":        leafOf(linkNode, appendGroup(nil, []string{"a/b", "c"}), appendGroup(nil, []string{"d", "e/\xff", "f"})),
		"linkindex.v0":    indexOf(linkNode, 1, named("a/b", 1, blob.ID{1})),
		"emptydir.v0":     appendHeader(nil, dirNode, 0, 0),
	}
}

// The files in testdata are of format version 0. They decode for ever, and what
// they hold encodes to the same bytes.
func TestGolden(t *testing.T) {
	for name, node := range goldenNodes(t) {
		golden := goldenFile(t, name, node)
		if !bytes.Equal(node, golden) {
			t.Errorf("%s: encodes to\n%x, golden file\n%x", name, node, golden)
		}
		if again, err := Recode(golden); err != nil || !bytes.Equal(again, golden) {
			t.Errorf("%s: re-encodes to\n%x, %v", name, again, err)
		}
	}
	for name, m := range map[string]*Manifest{"manifest.v0": goldenManifest(), "smallmanifest.v0": smallManifest()} {
		golden := goldenFile(t, name, m.Encode())
		if got, err := Decode(golden); err != nil || !reflect.DeepEqual(got, m) || !bytes.Equal(m.Encode(), golden) {
			t.Errorf("%s: decodes to %+v, %v; want %+v", name, got, err, m)
		}
	}
}

func TestGoldenEntries(t *testing.T) {
	n := newNodes()
	want := goldenEntries()
	got, err := readDir(n, n.putAny(goldenFile(t, "dir.v0", goldenNodes(t)["dir.v0"])))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("golden directory holds\n%+v, %v; want\n%+v", got, err, want)
	}
}

func smallManifest() *Manifest {
	return &Manifest{Root: blob.ID{1}, Consistency: Live, Labels: []Label{}, Omissions: []Omission{}}
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
