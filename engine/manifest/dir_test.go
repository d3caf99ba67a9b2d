package manifest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
	"pgregory.net/rapid"
)

func TestDirRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[^\x00/]{1,40}`).Filter(func(s string) bool { return CheckName(s) == nil }), 0, 40, rapid.ID).Draw(t, "names")
		slices.Sort(names)
		var want []Entry
		for _, name := range names {
			want = append(want, drawEntry(t, name))
		}
		n := newNodes()
		got, err := readDir(n, writeDir(t, n, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %+v, %v\nwant %+v", got, err, want)
		}
	})
}

func TestRootRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawEntry(t, "ignored")
		want.Kind, want.Node = Dir, testID(1)
		want.Size, want.Content, want.Target, want.Device = 0, Content{}, "", Device{}
		b := EncodeRoot(want)
		want.Name = ""
		if got, err := DecodeRoot(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded %+v, %v; want %+v", got, err, want)
		}
		if again, err := Recode(b); err != nil || string(again) != string(b) {
			t.Fatalf("root does not re-encode: %v", err)
		}
	})
}

// bigDir is a directory of many nodes on two levels.
func bigDir(n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{Name: fmt.Sprintf("%07d", 2*i), Kind: FIFO, UID: uint32(i)}
	}
	return entries
}

func TestLookupEqualsLinearSearch(t *testing.T) {
	entries := bigDir(20_000)
	n := newNodes()
	root := Entry{Kind: Dir, Node: writeDir(t, n, entries)}
	rapid.Check(t, func(t *rapid.T) {
		name := fmt.Sprintf("%07d", rapid.IntRange(-1, 40_001).Draw(t, "number"))
		i, there := slices.BinarySearchFunc(entries, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
		n.gets = 0
		got, err := Lookup(context.Background(), n.get, root, name)
		switch {
		case !there && !errors.Is(err, ErrNotFound):
			t.Fatalf("Lookup(%q) = %v, %v; want ErrNotFound", name, got, err)
		case there && (err != nil || !reflect.DeepEqual(got, entries[i])):
			t.Fatalf("Lookup(%q) = %v, %v; want %v", name, got, err, entries[i])
		}
		if n.gets > 2 {
			t.Fatalf("Lookup(%q) reads %d nodes", name, n.gets)
		}
	})
}

func TestLookupPaths(t *testing.T) {
	n := newNodes()
	file := Entry{Name: "f", Kind: File}
	sub := Entry{Name: "sub", Kind: Dir, Node: writeDir(t, n, []Entry{file})}
	root := Entry{Kind: Dir, Node: writeDir(t, n, []Entry{{Name: "empty", Kind: Dir, Node: writeDir(t, n, nil)}, sub})}
	for path, want := range map[string]*Entry{
		"": &root, "/": &root, ".": &root, "sub": &sub, "/sub/": &sub, "sub/f": &file, "./sub//f": &file,
		"f": nil, "sub/g": nil, "sub/f/g": nil, "empty/f": nil, "..": nil, "sub/..": nil, "sub/../f": nil, "sub\x00": nil,
	} {
		got, err := Lookup(context.Background(), n.get, root, path)
		switch {
		case want == nil && !errors.Is(err, ErrNotFound):
			t.Errorf("Lookup(%q) = %v, %v; want ErrNotFound", path, got, err)
		case want != nil && (err != nil || !reflect.DeepEqual(got, *want)):
			t.Errorf("Lookup(%q) = %v, %v; want %v", path, got, err, *want)
		}
	}
}

func TestReadingStops(t *testing.T) {
	n := newNodes()
	id := writeDir(t, n, bigDir(20_000))
	n.gets = 0
	for range ReadDir(context.Background(), n.get, id) {
		break
	}
	if n.gets != 2 {
		t.Errorf("%d nodes read for the first entry of a directory of two levels", n.gets)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := 0
	var last error
	for _, err := range ReadDir(ctx, n.get, id) {
		if seen++; seen == 100 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || seen > 10_000 {
		t.Errorf("%d entries read after cancelling at 100: %v", seen, last)
	}
}

func TestMissingNodes(t *testing.T) {
	n := newNodes()
	id := writeDir(t, n, bigDir(5000))
	for leaf := range n.byID {
		if leaf == id {
			continue
		}
		kept := n.byID[leaf]
		delete(n.byID, leaf)
		if got, err := readDir(n, id); err == nil {
			t.Errorf("%d entries read although a node is missing", len(got))
		}
		n.byID[leaf] = kept
	}
}

func TestDirWriterRefusesDisorder(t *testing.T) {
	n := newNodes()
	w := NewDirWriter(n.put)
	for _, step := range []struct {
		name string
		ok   bool
	}{{"b", true}, {"b", false}, {"a", false}, {"", false}, {"c/d", false}, {"..", false}, {"c", true}} {
		if err := w.Add(&Entry{Name: step.name, Kind: FIFO}); (err == nil) != step.ok {
			t.Errorf("Add(%q) = %v", step.name, err)
		}
	}
	id, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readDir(n, id); err != nil || len(got) != 2 {
		t.Errorf("read %v, %v; want the two entries that were accepted", got, err)
	}
}

func TestFailedPutIsReported(t *testing.T) {
	failed := errors.New("disk full")
	puts := 0
	w := NewDirWriter(func([]byte) (blob.ID, error) {
		if puts++; puts == 3 {
			return blob.ID{}, failed
		}
		return testID(puts), nil
	})
	var err error
	for i := 0; i < 100_000 && err == nil; i++ {
		err = w.Add(&Entry{Name: fmt.Sprintf("%07d", i), Kind: FIFO})
	}
	if !errors.Is(err, failed) {
		t.Errorf("error %v, want that of the store", err)
	}
}
