package engine_test

import (
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// requests counts the calls of a store by kind during do.
func requests(counted *fault.Store, do func()) map[fault.Kind]int {
	before := counted.Counts("")
	do()
	after := counted.Counts("")
	for kind, n := range before {
		if after[kind] -= n; after[kind] == 0 {
			delete(after, kind)
		}
	}
	return after
}

func total(counts map[fault.Kind]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// Over a network each request costs a round trip: their number is the price of a
// small snapshot.
func TestRequestsOfASmallSnapshot(t *testing.T) {
	counted := fault.New(mem.New())
	dir := smallWorkspace(t)
	r := initRepo(t, counted)
	made := counted.Counts("packs/")[fault.List] // init asks whether there was a repository
	r.snapshot(dir)
	snap := func(opts engine.SnapshotOptions) func() {
		return func() {
			t.Helper()
			opts.Path = dir
			if _, err := r.Snapshot(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(what string, most int, counts map[fault.Kind]int) {
		t.Helper()
		t.Logf("%s: %v", what, counts)
		if total(counts) > most {
			t.Errorf("%s: %d requests, want at most %d: %v", what, total(counts), most, counts)
		}
	}

	write(t, dir, map[string]string{"a": "one"})
	want("one edit, open repository", 6, requests(counted, snap(engine.SnapshotOptions{})))
	want("no change, open repository", 2, requests(counted, snap(engine.SnapshotOptions{SkipUnchanged: true})))

	r.close()
	write(t, dir, map[string]string{"a": "two"})
	want("one edit, new process", 9, requests(counted, func() {
		r = r.open(counted)
		snap(engine.SnapshotOptions{})()
	}))
	r.close()
	want("no change, new process", 5, requests(counted, func() {
		r = r.open(counted)
		snap(engine.SnapshotOptions{SkipUnchanged: true})()
	}))
	t.Log(counted.Counts("index/"), counted.Counts("gc/"), counted.Counts("snapshots/"), counted.Counts("keys/"))
	if packs := counted.Counts("packs/"); packs[fault.List] != made || packs[fault.Stat] != 0 {
		t.Errorf("packs were listed or asked for: %v", packs)
	}
}

// A listing costs one request for each snapshot, and those for labels that were
// given later.
func TestRequestsOfAListing(t *testing.T) {
	counted := fault.New(mem.New())
	dir := smallWorkspace(t)
	r := initRepo(t, counted)
	var ids []engine.ID
	for _, content := range []string{"one", "two", "three", "four"} {
		write(t, dir, map[string]string{"a": content})
		ids = append(ids, r.snapshot(dir).Snapshot)
	}
	if _, err := r.Label(t.Context(), ids[2], map[string]string{"k": "v"}, nil); err != nil {
		t.Fatal(err)
	}
	var infos []engine.Info
	counts := requests(counted, func() {
		var err error
		if infos, err = r.List(t.Context(), engine.Filter{}); err != nil {
			t.Fatal(err)
		}
	})
	for i, info := range infos {
		if want := i == 2; (info.Labels["k"] == "v") != want {
			t.Errorf("snapshot %d has labels %v", i, info.Labels)
		}
	}
	if len(infos) != 4 || total(counts) != 8 {
		t.Errorf("%d snapshots by %d requests, want 4 by 8: two listings, four snapshots, one listing and one read of labels: %v", len(infos), total(counts), counts)
	}
}
