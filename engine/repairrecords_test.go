package engine_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// repairAll does what an operator does who gives up what is lost.
func (r *testRepo) repairAll() error {
	ctx := r.t.Context()
	_, indexErr := r.RepairIndex(ctx)
	packs, err := r.PlanRepairPacks(ctx)
	if err != nil {
		return err
	}
	_, packsErr := r.RepairPacks(ctx, packs)
	snapshots, err := r.PlanRepairSnapshots(ctx, engine.RepairSnapshotsOptions{ForgetDamaged: true})
	if err != nil {
		return err
	}
	_, snapshotsErr := r.RepairSnapshots(ctx, snapshots)
	sessions, err := r.PlanRepairSessions(ctx)
	if err != nil {
		return err
	}
	_, sessionsErr := r.RepairSessions(ctx, sessions)
	for _, err := range []error{indexErr, packsErr} { // that something is lost is no surprise
		if err != nil && !errors.Is(err, engine.ErrDamaged) {
			return err
		}
	}
	return errors.Join(snapshotsErr, sessionsErr)
}

// Whatever was damaged: after all repairs a check that reads everything finds nothing
// wrong, everything works, and what was whole is whole.
func TestRepairsEndInACleanCheck(t *testing.T) {
	p := newPatient(t)
	// Without config or key nobody opens the repository; lists of collections are left
	// alone, and a remote is set again by hand.
	beyond := []string{"config", "key", "condemned", "final", "remote"}
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(records)), func(kind string) bool { return slices.Contains(beyond, kind) })
	test := func(t *testing.T, kind string, d damage) {
		store, damaged := p.operate(t, kind, d)
		lost := map[blob.ID]bool{}
		if slices.Contains([]string{"data", "tree", "mixed"}, kind) {
			lost = p.lost(t, p.objects[kind], damaged)
		}
		r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
		if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); err != nil && !errors.Is(err, engine.ErrDamaged) {
			t.Fatal(err)
		}
		if err := r.repairAll(); err != nil {
			t.Fatal(err)
		}
		r.clean()
		if _, err := r.List(t.Context(), engine.Filter{}); err != nil {
			t.Errorf("list: %v", err)
		}
		for n, id := range p.snapshots {
			whole := len(p.affected(n, lost)) == 0 && !(kind == "snapshot" && n == 1)
			if !whole {
				_, err := r.Show(t.Context(), id)
				if !errors.Is(err, engine.ErrNotFound) {
					t.Errorf("snapshot %d is damaged and not forgotten: %v", n, err)
				}
				continue
			}
			same(t, p.content[n], describe(t, r.elsewhere().restore(id)))
		}
		if err := r.repairAll(); err != nil {
			t.Errorf("a second repair: %v", err)
		}
		r.snapshot(p.workspace)
	}
	each(t, append(kinds, "data", "tree", "mixed"), fewDamages[:2], test)
	each(t, []string{"segment", "data", "tree", "mixed"}, fewDamages[2:], test)
}

// A snapshot whose own object is damaged stays until somebody gives it up.
func TestUnreadableSnapshotIsForgottenOnDemand(t *testing.T) {
	p := newPatient(t)
	store, _ := p.operate(t, "snapshot", flipMiddle)
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	plan := r.planSnapshots(engine.RepairSnapshotsOptions{})
	if !plan.Empty() || plan.Hopeless() != 1 || plan.Snapshots[0].ID != p.snapshots[1] {
		t.Fatalf("plan %+v", plan.Snapshots)
	}
	if _, err := r.RepairSnapshots(t.Context(), plan); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("repair: %v", err)
	}
	if _, err := r.List(t.Context(), engine.Filter{}); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("list: %v", err)
	}
	plan = r.planSnapshots(engine.RepairSnapshotsOptions{ForgetDamaged: true})
	result, err := r.RepairSnapshots(t.Context(), plan)
	if err != nil || plan.Empty() || result.Forgotten != 1 {
		t.Errorf("repair: %v, %+v", err, result)
	}
	if infos, err := r.List(t.Context(), engine.Filter{}); err != nil || len(infos) != 1 {
		t.Errorf("list: %d, %v", len(infos), err)
	}
}

// One damaged object of a snapshot that was published twice is put away without
// being asked for: nothing is lost with it.
func TestDamagedObjectOfASnapshotThatIsThereTwice(t *testing.T) {
	h := newHurt(t)
	store := withPacks(t, h.keys, h.pieces)
	first := objects(t, store, "snapshots/"+h.healthy.String())[0]
	// The listing shows the damaged one first.
	put(t, store, "snapshots/"+h.healthy.String()+"/"+strings.Repeat("f", 32), read(t, store, first))
	put(t, store, first, flipMiddle.do(read(t, store, first)))
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	if got := objectsOf(t, r.check(engine.CheckOptions{}), engine.Damaged); !slices.Equal(got, []string{first}) {
		t.Errorf("damaged %q", got)
	}
	plan := r.planSnapshots(engine.RepairSnapshotsOptions{})
	if plan.Empty() || len(plan.Snapshots) != 0 {
		t.Errorf("plan %+v", plan)
	}
	if _, err := r.RepairSnapshots(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if infos, err := r.List(t.Context(), engine.Filter{}); err != nil || len(infos) != 2 {
		t.Errorf("list: %d, %v", len(infos), err)
	}
	if report := r.clean(); len(report.Problems) != 0 {
		t.Errorf("problems %+v", report.Problems)
	}
}

// Nothing is given up that a repair of the index brings back.
func TestSnapshotsWaitForTheIndex(t *testing.T) {
	h := newHurt(t)
	store := withPacks(t, h.keys, h.pieces)
	remove(t, store, objects(t, store, "index/")[0])
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	_, err := r.PlanRepairSnapshots(t.Context(), engine.RepairSnapshotsOptions{})
	if !errors.Is(err, engine.ErrDamaged) || !strings.Contains(err.Error(), "repair the index first") {
		t.Errorf("plan: %v", err)
	}
	if _, err := r.RepairIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if plan := r.planSnapshots(engine.RepairSnapshotsOptions{}); !plan.Empty() {
		t.Errorf("plan %+v", plan.Snapshots)
	}
}

// Only the snapshots that are named are repaired.
func TestRepairOfOneSnapshot(t *testing.T) {
	h := newHurt(t)
	_, left := part(h.pieces, []blob.ID{h.lost})
	store := withPacks(t, h.keys, left)
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	if plan := r.planSnapshots(engine.RepairSnapshotsOptions{Snapshots: []engine.ID{h.healthy}}); !plan.Empty() {
		t.Errorf("plan %+v", plan.Snapshots)
	}
	named := engine.RepairSnapshotsOptions{Snapshots: []engine.ID{h.damaged}}
	if err := repairSnapshots(named)(t.Context(), r.Repository); err != nil {
		t.Fatal(err)
	}
	h.successor(t, r)
	if plan := r.planSnapshots(named); !plan.Empty() || plan.Snapshots[0].Successor.IsZero() {
		t.Errorf("plan %+v", plan.Snapshots)
	}
}

// A repaired snapshot that is damaged later gets a successor of its own, and so does
// its origin again.
func TestRepairOfARepairedSnapshot(t *testing.T) {
	h := newHurt(t)
	_, left := part(h.pieces, []blob.ID{h.lost})
	store := withPacks(t, h.keys, left)
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	repair := repairSnapshots(engine.RepairSnapshotsOptions{})
	if err := repair(t.Context(), r.Repository); err != nil {
		t.Fatal(err)
	}
	var more blob.ID
	for e, err := range r.Ls(t.Context(), h.damaged, "b/d/e", engine.Shallow) {
		if err != nil {
			t.Fatal(err)
		}
		more = e.Content.Extents[0].ID
	}
	keys := h.keys
	keys.Store = store
	_, left = part(dissect(t, keys), []blob.ID{more})
	store = withPacks(t, keys, left)
	r = (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	if err := repair(t.Context(), r.Repository); err != nil {
		t.Fatal(err)
	}
	infos, err := r.List(t.Context(), engine.Filter{Labels: map[string]string{engine.RepairedFrom: ""}})
	if err != nil || len(infos) != 3 {
		t.Fatalf("%d repaired snapshots, %v", len(infos), err)
	}
	if plan := r.planSnapshots(engine.RepairSnapshotsOptions{}); !plan.Empty() {
		t.Errorf("plan %+v", plan.Snapshots)
	}
}

// A push from a copy heals a snapshot that is there and damaged.
func TestPushHeals(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, r *testRepo, id engine.ID){
		"packs": func(t *testing.T, r *testRepo, _ engine.ID) {
			for _, key := range objects(t, r.store, "packs/") {
				remove(t, r.store, key)
			}
			if _, err := r.Check(t.Context(), engine.CheckOptions{}); !errors.Is(err, engine.ErrDamaged) {
				t.Fatalf("check: %v", err)
			}
		},
		"record": func(t *testing.T, r *testRepo, id engine.ID) {
			key := objects(t, r.store, "snapshots/"+id.String())[0]
			put(t, r.store, key, flipMiddle.do(read(t, r.store, key)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, copied := smallWorkspace(t), newRepo(t)
			id := copied.snapshot(dir).Snapshot
			r := copied.sibling(mem.New())
			push := func() *engine.PushResult {
				t.Helper()
				result, err := copied.Push(t.Context(), r.Repository, id)
				if err != nil || len(result.Snapshots) != 1 {
					t.Fatalf("push: %v, %+v", err, result)
				}
				return result
			}
			push()
			if again := push(); !again.Snapshots[0].Present {
				t.Errorf("pushed again: %+v", again.Snapshots)
			}
			damage(t, r, id)
			plan, err := copied.PlanPush(t.Context(), r.Repository, id)
			if err != nil || plan.Snapshots[0].Present {
				t.Errorf("plan: %v, %+v", err, plan)
			}
			if healed := push(); healed.Snapshots[0].Present {
				t.Errorf("not pushed: %+v", healed.Snapshots)
			}
			same(t, describe(t, dir), describe(t, r.elsewhere().restore(id)))
			if again := push(); !again.Snapshots[0].Present {
				t.Errorf("pushed once more: %+v", again.Snapshots)
			}
			if err := repairSnapshots(engine.RepairSnapshotsOptions{})(t.Context(), r.Repository); err != nil {
				t.Error(err)
			}
			r.clean()
		})
	}
}

// What can be read after all when it comes to deleting is not deleted.
func TestRepairsLookAgain(t *testing.T) {
	p := newPatient(t)
	for kind, repair := range map[string]func(*testRepo) (func() error, error){
		"pending": func(r *testRepo) (func() error, error) {
			plan, err := r.PlanRepairSessions(t.Context())
			return func() error { _, err := r.RepairSessions(t.Context(), plan); return err }, err
		},
		"label":    planAndForget,
		"snapshot": planAndForget,
	} {
		t.Run(kind, func(t *testing.T) {
			store, _ := p.operate(t, kind, flipMiddle)
			r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
			execute, err := repair(r)
			if err != nil {
				t.Fatal(err)
			}
			put(t, store, p.objects[kind], read(t, p.store, p.objects[kind]))
			if err := execute(); err != nil {
				t.Error(err)
			}
			if got := read(t, store, p.objects[kind]); !bytes.Equal(got, read(t, p.store, p.objects[kind])) {
				t.Errorf("%s was changed", p.objects[kind])
			}
		})
	}
}

func planAndForget(r *testRepo) (func() error, error) {
	plan, err := r.PlanRepairSnapshots(r.t.Context(), engine.RepairSnapshotsOptions{ForgetDamaged: true})
	return func() error { _, err := r.RepairSnapshots(r.t.Context(), plan); return err }, err
}

// A snapshot that was taken back is published again: the record of its forgetting is no
// reason to put it away when its own object rots.
func TestRottedRecordOfAnUndoneSnapshot(t *testing.T) {
	r := newRepo(t)
	id := r.snapshot(smallWorkspace(t)).Snapshot
	r.forget(id)
	if _, err := r.UndoForget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	ref, _, err := commit.Find(t.Context(), keysOf(t, r.store), id)
	if err != nil {
		t.Fatal(err)
	}
	rot(t, r.store, ref.Key())
	if _, err := r.elsewhere().Check(t.Context(), engine.CheckOptions{}); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("check: %v", err)
	}
	other := r.elsewhere()
	plan, err := other.PlanRepairSnapshots(t.Context(), engine.RepairSnapshotsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.RepairSnapshots(t.Context(), plan); !errors.Is(err, engine.ErrDamaged) || len(plan.Records) > 0 {
		t.Errorf("a published snapshot was put away without being asked for: %v, %v", plan.Records, err)
	}
	for range 2 {
		if _, err := r.elsewhere().UndoForget(t.Context(), id); err != nil {
			t.Error(err)
		}
		r.elsewhere().collect(thorough)
	}
	r.elsewhere().restore(id)
}
