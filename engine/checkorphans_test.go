package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// objectsOf returns the objects of the problems of one class, all of them harmless.
func objectsOf(t *testing.T, report *engine.CheckReport, what engine.What) (keys []string) {
	t.Helper()
	for _, p := range report.Problems {
		if !p.Harmless {
			t.Errorf("%s %s: %v", p.What, p.Object, p.Err)
		}
		if p.What == what {
			keys = append(keys, p.Object)
		}
	}
	slices.Sort(keys)
	return keys
}

// What attempts and snapshots that are gone left behind is named, and no damage.
func TestOrphansAreNamed(t *testing.T) {
	h := newHurt(t)
	_, rest := part(h.pieces, nil)
	store := withPacks(t, h.keys, rest)
	keys := h.keys
	keys.Store = store
	_, record, err := commit.Find(t.Context(), keys, h.healthy)
	if err != nil {
		t.Fatal(err)
	}
	pending := "pending/" + string(commit.NewSession())
	place(t, keys, pending, seal.Pending, record.Encode())
	gone := blob.ID{9}
	for sequence := range 2 {
		change := commit.LabelChange{Set: record.Manifest.Labels}.Encode()
		place(t, keys, fmt.Sprintf("labels/%v/%010d-%s", gone, sequence+1, commit.NewSession()), seal.Label, change)
	}
	content := []byte("of nobody")
	orphan := putPack(t, store, keys.Sealer, map[blob.ID]piece{keys.Namer.ID(blob.Data, content): {blob.Data, content}})
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	want := []string{"labels/" + gone.String(), "packs/" + orphan.Name.String(), pending}
	if got := objectsOf(t, r.check(engine.CheckOptions{}), engine.Orphaned); !slices.Equal(got, want) {
		t.Errorf("orphans %q, want %q", got, want)
	}
	// Of a check of some snapshots nobody knows what others need.
	some := r.check(engine.CheckOptions{Snapshots: []engine.ID{h.healthy}})
	if got := objectsOf(t, some, engine.Orphaned); len(got) != 0 {
		t.Errorf("orphans of a check of one snapshot: %q", got)
	}
}

// The labels of a forgotten snapshot are needed as long as it can be had back.
func TestLabelsOfAForgottenSnapshotAreNoOrphans(t *testing.T) {
	r := newRepo(t)
	id := r.snapshot(smallWorkspace(t)).Snapshot
	if _, err := r.Label(t.Context(), id, map[string]string{"k": "v"}, nil); err != nil {
		t.Fatal(err)
	}
	keys := keysOf(t, r.store)
	ref, _, err := commit.Find(t.Context(), keys, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := commit.Forget(t.Context(), keys, ref); err != nil {
		t.Fatal(err)
	}
	if got := objectsOf(t, r.check(engine.CheckOptions{}), engine.Orphaned); len(got) != 0 {
		t.Errorf("orphans %q", got)
	}
	if err := commit.DropForgotten(t.Context(), keys, ref); err != nil {
		t.Fatal(err)
	}
	if got := objectsOf(t, r.check(engine.CheckOptions{}), engine.Orphaned); !slices.Equal(got, []string{"labels/" + id.String()}) {
		t.Errorf("orphans %q", got)
	}
}

// What is stored more than once is counted, by the packs that could do without it.
func TestDuplicatesAreCounted(t *testing.T) {
	h := newHurt(t)
	twice, _ := part(h.pieces, []blob.ID{h.lost})
	store := withPacks(t, h.keys, h.pieces, twice, twice)
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	blobs, bytes := uint64(0), uint64(0)
	report := r.check(engine.CheckOptions{})
	for _, d := range report.Duplicates {
		blobs, bytes = blobs+d.Blobs, bytes+d.Bytes
		if !slices.Contains(objects(t, store, "packs/"), d.Object) {
			t.Errorf("no pack %s", d.Object)
		}
	}
	if blobs != 2 || bytes != 2*1000 || len(report.Duplicates) != 2 {
		t.Errorf("%d blobs, %d bytes in %+v, want 2 of 1000 bytes", blobs, bytes, report.Duplicates)
	}
	// A damaged pack holds no copy.
	put(t, store, report.Duplicates[0].Object, nil)
	if report, err := r.Check(t.Context(), engine.CheckOptions{}); report == nil || len(report.Duplicates) != 1 {
		t.Errorf("check: %v, duplicates %+v", err, report)
	}
}

// A damaged segment loses nothing if others name all its packs.
func TestDamagedSegmentThatNobodyNeeds(t *testing.T) {
	h := newHurt(t)
	store := withPacks(t, h.keys, h.pieces)
	segment := objects(t, store, "index/")[0]
	twice(t, h, store)
	put(t, store, segment, flipMiddle.do(read(t, store, segment)))
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	report := r.check(engine.CheckOptions{})
	if got := objectsOf(t, report, engine.Damaged); !slices.Equal(got, []string{segment}) {
		t.Errorf("damaged %q, want %s", got, segment)
	}
	plan, err := r.PlanRepairIndex(t.Context())
	if err != nil || plan.Empty() || len(plan.Segments) != 1 || len(plan.Unindexed) != 0 || len(plan.Missing) != 0 {
		t.Errorf("plan %+v, %v", plan, err)
	}
	if _, err := r.RepairIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if report := r.clean(); len(report.Problems) != 0 {
		t.Errorf("problems after the repair: %+v", report.Problems)
	}
	if plan, err := r.PlanRepairIndex(t.Context()); err != nil || !plan.Empty() {
		t.Errorf("plan %+v, %v", plan, err)
	}
}

// twice puts another segment that names all packs.
func twice(t *testing.T, h *hurt, store *mem.Store) {
	t.Helper()
	key := objects(t, store, "packs/")[0]
	pack := (&patient{store: store, keys: h.keys}).footer(t, key)
	if _, err := index.WriteSegments(t.Context(), store, h.keys.Sealer, []packfile.Pack{pack, putPack(t, store, h.keys.Sealer, h.pieces)}); err != nil {
		t.Fatal(err)
	}
}

// Files that other programs leave in every folder disturb nothing, and a check names
// those that look like objects with a wrong name.
func TestForeignObjectsDoNoHarm(t *testing.T) {
	h := newHistory(t, mem.New())
	h.save()
	h.save()
	id := h.ids[0].String() + "/"
	if _, err := h.r.Label(t.Context(), h.ids[0], map[string]string{"k": "v"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"", "index/", "keys/"} {
		put(t, h.r.store, folder+"Thumbs.db", []byte("not ours"))
	}
	foreign := []string{"remotes/not-ours/Thumbs.db"}
	for _, folder := range []string{"forgotten/", "forgotten/" + id, "gc/", "gc/0000000001/", "gc/damaged/", "labels/", "labels/" + id, "packs/", "pending/", "snapshots/", "snapshots/" + id} {
		foreign = append(foreign, folder+"Thumbs.db")
	}
	for _, key := range foreign {
		put(t, h.r.store, key, []byte("not ours"))
	}
	h.r = h.r.elsewhere()
	h.save()
	h.r.forget(h.ids[1])
	if _, err := h.r.UndoForget(t.Context(), h.ids[1]); err != nil {
		t.Error(err)
	}
	h.r.forget(h.ids[2])
	h.r.collect(thorough)
	infos, err := h.r.List(t.Context(), engine.Filter{})
	if err != nil || len(infos) != 2 || infos[0].Labels["k"]+infos[1].Labels["k"] != "v" {
		t.Errorf("list: %v, %+v", err, infos)
	}
	stats, err := h.r.Stats(t.Context())
	if err != nil || stats.Packs+stats.Segments != uint64(len(objects(t, h.r.store, "packs/"))+len(objects(t, h.r.store, "index/"))-2) {
		t.Errorf("stats: %v, %+v", err, stats)
	}
	holdAll(t, h.r, h.looks, h.ids[:2])
	report := h.r.check(engine.CheckOptions{ReadData: 1})
	slices.Sort(foreign)
	if got := objectsOf(t, report, engine.Foreign); !slices.Equal(got, foreign) || report.Damaged() {
		t.Errorf("foreign %q, want %q; damaged: %v", got, foreign, report.Problems)
	}
}
