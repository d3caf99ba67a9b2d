package manifest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
	"pgregory.net/rapid"
)

func readContent(n *nodes, e *Entry) ([]Extent, error) {
	var extents []Extent
	for x, err := range ReadContent(context.Background(), n.get, e) {
		if err != nil {
			return extents, err
		}
		extents = append(extents, x)
	}
	return extents, nil
}

// fileOf is a file of n extents, each third of them a hole.
func fileOf(n int) (extents []Extent, size uint64) {
	for i := range n {
		x := Extent{Length: uint64(i%1000 + 1), ID: testID(i)}
		if i%3 == 2 {
			x.ID = blob.ID{}
		}
		extents = append(extents, x)
		size += x.Length
	}
	return extents, size
}

func writeContent(t *testing.T, n *nodes, extents []Extent) Content {
	t.Helper()
	w := NewContentWriter(n.put)
	for _, x := range extents {
		if err := w.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	c, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestContentRoundTrip(t *testing.T) {
	for _, size := range []int{0, 1, MaxExtents - 1, MaxExtents, MaxExtents + 1, 63, 64, 65, 1000, 5000, 100_000} {
		n := newNodes()
		want, bytes := fileOf(size)
		c := writeContent(t, n, want)
		if inline := c.List.IsZero(); inline != (size <= MaxExtents) {
			t.Errorf("%d extents: in the entry: %v", size, inline)
		}
		e := Entry{Name: "f", Kind: File, Size: bytes, Content: c}
		if err := e.Check(); err != nil {
			t.Errorf("%d extents: %v", size, err)
		}
		if got, err := readContent(n, &e); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d extents: read %d, %v", size, len(got), err)
		}
		checkShape(t, n)
	}
}

func TestOneChangedExtentRewritesFewNodes(t *testing.T) {
	n := newNodes()
	extents, _ := fileOf(100_000)
	writeContent(t, n, extents)
	before := len(n.byID)
	extents[50_000].ID = testID(-1)
	writeContent(t, n, extents)
	if added := len(n.byID) - before; added < 1 || added > 6 {
		t.Errorf("%d of %d nodes are new after one changed extent", added, before)
	}
}

func TestHolesMerge(t *testing.T) {
	hole := func(n uint64) Extent { return Extent{Length: n} }
	data := Extent{Length: 5, ID: testID(1)}
	n := newNodes()
	got := writeContent(t, n, []Extent{hole(1), hole(2), {}, data, {Length: 0, ID: testID(2)}, data, hole(3), {}, hole(4)})
	if want := []Extent{hole(3), data, data, hole(7)}; !reflect.DeepEqual(got.Extents, want) {
		t.Errorf("content %v, want %v", got.Extents, want)
	}
}

func TestFilesHaveLessThan2To63Bytes(t *testing.T) {
	n := newNodes()
	w := NewContentWriter(n.put)
	if err := w.Add(Extent{Length: math.MaxInt64}); err != nil {
		t.Error(err)
	}
	for _, length := range []uint64{1, 1 << 63, math.MaxUint64} {
		if err := w.Add(Extent{Length: length}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d bytes behind 2^63-1: %v", length, err)
		}
	}
	c, err := w.Finish()
	if err != nil || (&Entry{Kind: File, Size: math.MaxInt64, Content: c}).Check() != nil {
		t.Errorf("a hole of 2^63-1 bytes is refused: %v", err)
	}
}

// A list of another length than its file is noticed, whichever is longer, also
// when extents and file end at the same byte and more extents follow.
func TestContentListOfAnotherLength(t *testing.T) {
	n := newNodes()
	extents, size := fileOf(1000)
	c := writeContent(t, n, extents)
	for _, other := range []uint64{1, size - extents[999].Length, size - 1, size + 1, math.MaxInt64} {
		got, err := readContent(n, &Entry{Kind: File, Size: other, Content: c})
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("list of %d bytes in a file of %d: %v", size, other, err)
		}
		total := uint64(0)
		for _, x := range got {
			total += x.Length
		}
		if total > other {
			t.Errorf("%d bytes yielded of a file of %d", total, other)
		}
	}
	for range ReadContent(context.Background(), n.get, &Entry{Kind: File, Size: 1 << 40, Content: c}) {
		break // a reader that stops early hears of no error
	}
}

func readLinks(n *nodes, id blob.ID) ([][]string, error) {
	var groups [][]string
	for g, err := range ReadLinks(context.Background(), n.get, id) {
		if err != nil {
			return groups, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func TestLinksRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want [][]string
		for i := range rapid.IntRange(0, 3000).Draw(t, "groups") {
			group := []string{fmt.Sprintf("dir/%05d", i), fmt.Sprintf("dir/%05d-", i), fmt.Sprintf("other/%d", i)}
			want = append(want, group[:2+i%2])
		}
		n := newNodes()
		w := NewLinkWriter(n.put)
		for _, group := range want {
			if err := w.Add(group); err != nil {
				t.Fatal(err)
			}
		}
		id, err := w.Finish()
		if err != nil || id.IsZero() != (len(want) == 0) {
			t.Fatalf("%d groups have list %v, %v", len(want), id, err)
		}
		if got, err := readLinks(n, id); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %d groups of %d, %v", len(got), len(want), err)
		}
	})
}

func TestLinkWriterRefuses(t *testing.T) {
	long := make([]string, 0, 250)
	for i := range cap(long) {
		long = append(long, fmt.Sprintf("%03d", i)+strings.Repeat("/"+strings.Repeat("x", 249), MaxPath/250))
	}
	n := newNodes()
	w := NewLinkWriter(n.put)
	if err := w.Add([]string{"m", "n"}); err != nil {
		t.Fatal(err)
	}
	for name, group := range map[string][]string{
		"no path": nil, "one path": {"x"}, "twice the same": {"x", "x"}, "descending": {"y", "x"},
		"before the last": {"a", "z"}, "like the last": {"m", "z"}, "absolute": {"/x", "y"}, "parent": {"x", "y/../z"},
		"empty": {"", "x"}, "trailing slash": {"x", "y/"}, "NUL": {"x", "y\x00"}, "long path": {"x", "y" + string(make([]byte, MaxPath))},
		"too many bytes": long,
	} {
		if err := w.Add(group); err == nil {
			t.Errorf("%s: group is accepted", name)
		}
	}
	if err := w.Add(append([]string{"x"}, "y")); err != nil {
		t.Error(err)
	}
	id, err := w.Finish()
	if got, readErr := readLinks(n, id); err != nil || readErr != nil || len(got) != 2 {
		t.Errorf("read %v, %v, %v; want the two groups that were accepted", got, err, readErr)
	}
}

// The largest group that the writer takes can be read.
func TestLargestLinkGroup(t *testing.T) {
	var group []string
	size := 0
	for i := 0; ; i++ {
		path := fmt.Sprintf("%0200d", i)
		if size += len(path); size > MaxLinkGroup {
			break
		}
		group = append(group, path)
	}
	n := newNodes()
	w := NewLinkWriter(n.put)
	if err := w.Add(group); err != nil {
		t.Fatal(err)
	}
	id, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readLinks(n, id); err != nil || len(got) != 1 || len(got[0]) != len(group) {
		t.Errorf("read %d groups, %v", len(got), err)
	}
}
