package engine

import (
	"context"
	"testing"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Two blobs whose ids begin alike are told apart.
func TestBlobTableTellsClashesApart(t *testing.T) {
	table := newBlobTable(0)
	ids := []blob.ID{{1}, {2}, {2, 0, 0, 0, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 0, 0, 0, 2}, {3}}
	for i, id := range ids {
		table.append(id, Weight{Blobs: 1, Bytes: uint64(i), Stored: uint64(10 * i)})
	}
	for i, id := range ids {
		n, ok := table.find(id)
		if !ok || n != i || table.weight(n) != (Weight{1, uint64(i), uint64(10 * i)}) {
			t.Errorf("%v is number %d, %v", id, n, ok)
		}
	}
	if n, ok := table.find(blob.ID{4}); ok {
		t.Errorf("an unknown blob is number %d", n)
	}
	if total := table.total(); total != (Weight{5, 10, 100}) {
		t.Errorf("total %+v", total)
	}
}

// A tree blob is read once, whatever number of snapshots reaches it, and following
// it reads nothing.
func TestBlobGraphReadsEachTreeOnce(t *testing.T) {
	table := newBlobTable(0)
	leaf, shared, one, two := blob.ID{1}, blob.ID{2}, blob.ID{3}, blob.ID{4}
	for _, id := range []blob.ID{leaf, shared, one, two} {
		table.append(id, Weight{Blobs: 1, Bytes: uint64(id[0]), Stored: 1})
	}
	content := map[blob.ID][]byte{leaf: {3, 0, 0}}
	for id, names := range map[blob.ID]blob.ID{shared: leaf, one: shared, two: shared} {
		content[id] = manifest.EncodeRoot(manifest.Entry{Kind: manifest.Dir, Node: names})
	}
	reads := 0
	graph := newBlobGraph(table, func(_ context.Context, id blob.ID) ([]byte, error) {
		reads++
		return content[id], nil
	})
	seen := newBlobSet(table.len())
	for i, want := range []Weight{{3, 1 + 2 + 3, 3}, {1, 4, 1}} {
		roots := []blob.ID{{byte(3 + i)}}
		if err := graph.load(t.Context(), roots); err != nil {
			t.Fatal(err)
		}
		if got := graph.weighNew(roots, seen); got != want {
			t.Errorf("snapshot %d adds %+v, want %+v", i, got, want)
		}
	}
	if reads != 4 || len(graph.missing) != 0 {
		t.Errorf("%d reads of 4 tree blobs, missing %v", reads, graph.missing)
	}
}
