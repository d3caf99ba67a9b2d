package engine_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// planPacks plans a repair of packs.
func (r *testRepo) planPacks() *engine.RepairPacksPlan {
	r.t.Helper()
	plan, err := r.PlanRepairPacks(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return plan
}

// repairPacks repairs packs, with or without losses.
func (r *testRepo) repairPacks() *engine.RepairPacksResult {
	r.t.Helper()
	result, err := r.RepairPacks(r.t.Context(), r.planPacks())
	if err != nil && !errors.Is(err, engine.ErrDamaged) {
		r.t.Fatal(err)
	}
	return result
}

func TestRepairOfPacks(t *testing.T) {
	p := newPatient(t)
	for name, test := range map[string]func(*testing.T, *patient){
		"brings back what can be read": repairOfPacksBringsBack,
		"finds wrong sizes":            repairOfPacksFindsWrongSizes,
		"stores only what is missing":  repairOfPacksStoresOnlyWhatIsMissing,
		"unmarks what is whole":        repairOfPacksUnmarksWhatIsWhole,
		"names what is unknown":        repairOfPacksNamesWhatIsUnknown,
		"looks into all damaged packs": repairOfPacksLooksIntoAllDamagedPacks,
	} {
		t.Run(name, func(t *testing.T) { test(t, p) })
	}
}

// What can be read of a damaged pack is stored again, so that the pack is needed no
// more; what cannot be read is named, and a second repair has nothing to do.
func repairOfPacksBringsBack(t *testing.T, p *patient) {
	test := func(t *testing.T, kind string, d damage) {
		store, damaged := p.operate(t, kind, d)
		key := p.objects[kind]
		lost := p.lost(t, key, damaged)
		r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
		if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); !errors.Is(err, engine.ErrDamaged) {
			t.Fatalf("check: %v", err)
		}
		plan := r.planPacks()
		p.samePlan(t, plan, kind, lost)
		result := r.repairPacks()
		if blobs := len(p.blobs(t, key)) - len(lost); result.Blobs != uint64(blobs) {
			t.Errorf("%d blobs were stored again, of %d that could be read", result.Blobs, blobs)
		}
		if again := r.planPacks(); !again.Empty() {
			t.Errorf("a second repair has something to do: %+v", again.Packs)
		}
		if marks := objects(t, store, "gc/damaged/"); len(marks) != 1 {
			t.Errorf("marks %v", marks)
		}
		remove(t, store, key) // as a collection does
		p.restoreWhatIsLeft(t, r.elsewhere(), lost)
		report, err := r.elsewhere().Check(t.Context(), engine.CheckOptions{})
		if report == nil {
			t.Fatal(err)
		}
		p.sameAffected(t, wrong(report), func(n int) []string { return p.affected(n, lost) })
	}
	each(t, []string{"data"}, damages, test)
	each(t, []string{"tree", "mixed"}, fewDamages, test)
}

// blobs returns the blobs of a pack.
func (p *patient) blobs(t *testing.T, key string) (ids []blob.ID) {
	t.Helper()
	for _, f := range p.footer(t, key).Frames {
		for _, b := range f.Blobs {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// samePlan compares a plan with what is known to be lost of a pack.
func (p *patient) samePlan(t *testing.T, plan *engine.RepairPacksPlan, kind string, lost map[blob.ID]bool) {
	t.Helper()
	if len(plan.Packs) != 1 || plan.Packs[0].Object != p.objects[kind] || plan.Packs[0].Mark || plan.Packs[0].Unknown {
		t.Fatalf("plan %+v, want one of %s", plan.Packs, p.objects[kind])
	}
	pack := plan.Packs[0]
	if all := len(p.blobs(t, p.objects[kind])); int(pack.Salvage) != all-len(lost) || pack.Held != 0 {
		t.Errorf("%d of %d blobs can be read, %d are held elsewhere, %d are lost", pack.Salvage, all, pack.Held, len(lost))
	}
	if len(pack.Lost) != len(lost) || slices.ContainsFunc(pack.Lost, func(l engine.LostBlob) bool { return !lost[l.ID] }) {
		t.Errorf("lost %v, want %v", pack.Lost, lost)
	}
	if plan.Empty() != (pack.Salvage == 0) {
		t.Errorf("empty: %v with %d to salvage", plan.Empty(), pack.Salvage)
	}
}

// Without a check before, packs of the wrong size are found and marked all the same.
func repairOfPacksFindsWrongSizes(t *testing.T, p *patient) {
	for _, d := range damages {
		if !slices.Contains([]string{"halve", "cut", "empty", "delete"}, d.name) {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			store, damaged := p.operate(t, "data", d)
			lost := p.lost(t, p.objects["data"], damaged)
			r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
			if plan := r.planPacks(); len(plan.Packs) != 1 || !plan.Packs[0].Mark || plan.Empty() {
				t.Errorf("plan %+v", plan.Packs)
			}
			if marks := objects(t, store, "gc/damaged/"); len(marks) != 0 {
				t.Errorf("the plan marked %v", marks)
			}
			if result := r.repairPacks(); result.Marked != 1 {
				t.Errorf("%d marked", result.Marked)
			}
			remove(t, store, p.objects["data"])
			p.restoreWhatIsLeft(t, r, lost)
		})
	}
}

// A blob that another pack holds too is not stored a third time.
func repairOfPacksStoresOnlyWhatIsMissing(t *testing.T, p *patient) {
	store, _ := p.operate(t, "data", flip("footer", func(size int) int { return size - 40 }))
	r := (&testRepo{t: t, store: store, state: p.copyState(t)}).open(store)
	if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	r.snapshot(p.workspace) // stores again what the workspace still has
	plan := r.planPacks()
	// What d3/small held before it changed is in no workspace any more.
	if len(plan.Packs) != 1 || plan.Packs[0].Salvage != 1 || plan.Packs[0].SalvageBytes != uint64(len("small")) || plan.Packs[0].Held == 0 {
		t.Errorf("plan %+v", plan.Packs)
	}
	if result := r.repairPacks(); result.Blobs != 1 || result.NewPacks != 1 {
		t.Errorf("result %+v", result)
	}
}

// A marked pack that is whole again loses its mark, and is not copied.
func repairOfPacksUnmarksWhatIsWhole(t *testing.T, p *patient) {
	store, _ := p.operate(t, "data", flipMiddle)
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	put(t, store, p.objects["data"], read(t, p.store, p.objects["data"]))
	if plan := r.planPacks(); len(plan.Packs) != 1 || !plan.Packs[0].Whole || plan.Packs[0].Mark || plan.Empty() {
		t.Errorf("plan %+v", plan.Packs)
	}
	if result := r.repairPacks(); result.Unmarked != 1 || result.Blobs != 0 {
		t.Errorf("result %+v", result)
	}
	if marks := objects(t, store, "gc/damaged/"); len(marks) != 0 {
		t.Errorf("marks %v", marks)
	}
	r.clean()
}

// Of a pack without a footer that the index does not know, nothing can be had.
func repairOfPacksNamesWhatIsUnknown(t *testing.T, p *patient) {
	store, _ := p.operate(t, "data", flip("footer", func(size int) int { return size - 40 }))
	remove(t, store, p.objects["segment"])
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	if _, err := r.RepairIndex(t.Context()); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("repair of the index: %v", err)
	}
	plan := r.planPacks()
	if _, unknown := plan.Lost(); unknown != 1 || len(plan.Packs) != 1 || !plan.Packs[0].Unknown || !plan.Empty() {
		t.Errorf("plan %+v", plan.Packs)
	}
	if _, err := r.RepairPacks(t.Context(), plan); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("repair: %v", err)
	}
}

// Two damaged packs hold the same blobs: what one has lost the other one may have.
func repairOfPacksLooksIntoAllDamagedPacks(t *testing.T, p *patient) {
	store, damaged := p.operate(t, "data", flipMiddle)
	lost := p.lost(t, p.objects["data"], damaged)
	before := objects(t, store, "packs/")
	r := (&testRepo{t: t, store: store, state: p.copyState(t)}).open(store)
	if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	r.snapshot(p.workspace)
	for _, key := range objects(t, store, "packs/") {
		if !slices.Contains(before, key) { // all that was stored again; its footer is damaged now
			put(t, store, key, flip("footer", func(size int) int { return size - 40 }).do(read(t, store, key)))
		}
	}
	if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); err != nil && !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	// What d3/small held before it changed is in no workspace any more.
	gone := map[blob.ID]bool{}
	for _, e := range p.trees[0] {
		if e.Path == "d3/small" && lost[e.Content.Extents[0].ID] {
			gone[e.Content.Extents[0].ID] = true
		}
	}
	plan := r.planPacks()
	if blobs, unknown := plan.Lost(); blobs != uint64(len(gone)) || unknown != 0 || len(lost) == 0 || len(plan.Packs) < 2 {
		t.Errorf("%d blobs and %d packs are lost: %+v", blobs, unknown, plan.Packs)
	}
	r.repairPacks()
	for _, pack := range plan.Packs {
		remove(t, store, pack.Object)
	}
	p.restoreWhatIsLeft(t, r.elsewhere(), gone)
}

// A blob under a wrong id is damage, and its neighbours in the frame are not.
func TestRepairOfPacksComparesEveryBlob(t *testing.T) {
	h := newHurt(t)
	store := withPacks(t, h.keys, map[blob.ID]piece{})
	builder := packfile.NewBuilder(nil)
	for _, kind := range []blob.Kind{blob.Data, blob.Tree} {
		frame := packfile.NewFrameBuilder(kind)
		for id, p := range h.pieces {
			content := bytes.Clone(p.content)
			if id == h.lost {
				content[0] ^= 1
			}
			if p.kind == kind {
				frame.Add(id, content)
			}
		}
		builder.Add(frame.Seal(nil, h.keys.Sealer))
	}
	pack, object := builder.Finish(h.keys.Sealer)
	key := "packs/" + pack.Name.String()
	put(t, store, key, object)
	if _, err := index.WriteSegments(t.Context(), store, h.keys.Sealer, []packfile.Pack{pack}); err != nil {
		t.Fatal(err)
	}
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	report, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1})
	if !errors.Is(err, engine.ErrDamaged) || len(report.Problems) != 1 {
		t.Fatalf("check: %v, %+v", err, report)
	}
	if want := []engine.AffectedPath{{Snapshot: h.damaged, Path: "b/c"}}; !slices.Equal(report.Problems[0].Affected, want) {
		t.Errorf("affected %v, want %v", report.Problems[0].Affected, want)
	}
	if result := r.repairPacks(); result.Blobs != uint64(len(h.pieces)-1) {
		t.Errorf("%d of %d blobs were stored again", result.Blobs, len(h.pieces))
	}
	remove(t, store, key)
	h.alive(t, r)
	if report, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); report == nil || len(report.Problems) != 1 || report.Problems[0].What != engine.Missing {
		t.Errorf("check: %v, %+v", err, report)
	}
}

// A collection takes a damaged pack once nothing depends on it, and not before.
func TestCollectionTakesARepairedPack(t *testing.T) {
	h := newHurt(t)
	store := withPacks(t, h.keys, h.pieces)
	key := objects(t, store, "packs/")[0]
	object := read(t, store, key)
	object[len(object)-40] ^= 1 // of the footer: nothing is lost
	put(t, store, key, object)
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	now := engine.CollectOptions{UndoWindow: -1, Grace: -1, MaxUnused: -1}
	if _, err := r.Collect(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(objects(t, store, "packs/"), key) {
		t.Fatal("the only pack was collected")
	}
	r.repairPacks()
	if _, err := r.Collect(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(objects(t, store, "packs/"), key) {
		t.Error("the damaged pack is still there")
	}
	if report := r.clean(); len(report.Problems) != 0 {
		t.Errorf("problems %+v", report.Problems)
	}
	if plan := r.planPacks(); len(plan.Packs) != 0 {
		t.Errorf("plan %+v", plan.Packs)
	}
}

// A copy that a collection takes while a repair relies on it is not missed.
func TestRepairOfPacksBesideACollection(t *testing.T) {
	h := newHurt(t)
	copied, _ := part(h.pieces, []blob.ID{h.lost})
	under := withPacks(t, h.keys, h.pieces)
	damaged := objects(t, under, "packs/")[0]
	second := putPack(t, under, h.keys.Sealer, copied)
	if _, err := index.WriteSegments(t.Context(), under, h.keys.Sealer, []packfile.Pack{second}); err != nil {
		t.Fatal(err)
	}
	object := read(t, under, damaged)
	object[len(object)-40] ^= 1 // of the footer: nothing is lost
	put(t, under, damaged, object)
	keys := h.keys
	keys.Store = under
	store := &meddler{Store: under, after: once("index/", func(string) { placeList(t, keys, 1, "condemned", second.Name) })}
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	if result := r.repairPacks(); result.Blobs != uint64(len(h.pieces)) {
		t.Errorf("%d of %d blobs were stored again", result.Blobs, len(h.pieces))
	}
	remove(t, under, damaged)
	remove(t, under, "packs/"+second.Name.String())
	r = (&testRepo{t: t, store: under, state: t.TempDir()}).open(under)
	for _, id := range []engine.ID{h.damaged, h.healthy} {
		r.restore(id)
	}
}
