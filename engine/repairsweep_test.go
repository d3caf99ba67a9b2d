package engine_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// deaths are the ways in which a process ends at its nth call: with an error, cancelled,
// or killed behind it. Who is killed before it was killed behind the one before.
var deaths = map[string]func(n int, cancel func()) fault.Injector{
	"fail": breaks["fail"], "cancel": breaks["cancel"],
	"killed": func(n int, _ func()) fault.Injector {
		return func(op fault.Op) fault.Fault {
			switch {
			case op.N < n:
				return fault.Fault{}
			case op.N == n:
				return fault.LoseAck(fault.ErrInjected)
			}
			return fault.Fail(fault.ErrInjected)
		}
	},
}

// ward is a damaged repository and a way to repair it.
type ward struct {
	store  *mem.Store
	repair func(ctx context.Context, r *engine.Repository) error
	// alive holds after every attempt, whether it succeeded or not.
	alive func(t *testing.T, r *testRepo)
	// healed holds after one that succeeded.
	healed func(t *testing.T, r *testRepo)
}

// sweep repairs with the first call to the store failing, then the second, and so on
// until a repair makes fewer calls. After each failure nothing is lost and the next
// repair completes.
func (w ward) sweep(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(deaths)) {
		t.Run(name, func(t *testing.T) {
			n := 1
			for w.attempt(t, n, deaths[name]) && !t.Failed() {
				if n++; n > 300 {
					t.Fatal("the sweep does not end")
				}
			}
			t.Logf("%d calls", n-1)
		})
	}
}

// attempt reports whether the repair made n calls.
func (w ward) attempt(t *testing.T, n int, broken func(int, func()) fault.Injector) bool {
	t.Helper()
	running := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	under := w.store.Clone()
	r := &testRepo{t: t, store: under, state: filepath.Join(t.TempDir(), "state")}
	store := fault.New(under, broken(n, cancel))
	repo, err := engine.Open(ctx, store, r.options())
	if err == nil {
		err = errors.Join(w.repair(ctx, repo), repo.Close())
	}
	reached := store.Calls() >= n
	switch {
	case err == nil:
	case !reached:
		t.Errorf("call %d was not reached: %v", n, err)
	case !errors.Is(err, fault.ErrInjected) && !errors.Is(err, context.Canceled):
		t.Errorf("call %d: not the error of the store: %v", n, err)
	}
	if reached && unchanged(t, w.store, under) && n%10 > 0 {
		return true // what follows is what follows without a fault: one of ten shows that
	}
	again := r.open(under)
	w.alive(t, again)
	if err := w.repair(t.Context(), again.Repository); err != nil {
		t.Errorf("after call %d, the next repair: %v", n, err)
	}
	w.healed(t, again)
	again.close()
	if err := goleak.Find(running); err != nil {
		t.Errorf("call %d: %v", n, err)
	}
	return reached
}

// unchanged reports whether two stores hold the same objects.
func unchanged(t *testing.T, a, b *mem.Store) bool {
	t.Helper()
	etags := func(store *mem.Store) map[string]string {
		tags := map[string]string{}
		for info, err := range store.List(t.Context(), "", "") {
			if err != nil {
				t.Fatal(err)
			}
			tags[info.Key] = info.ETag
		}
		return tags
	}
	return maps.Equal(etags(a), etags(b))
}

// hurt is a small repository with two snapshots: one that loses b/c, one that loses
// nothing.
type hurt struct {
	keys             commit.Repo
	pieces           map[blob.ID]piece
	damaged, healthy engine.ID
	lost             blob.ID
	whole, rest      []string // the workspaces, described
}

func newHurt(t *testing.T) *hurt {
	t.Helper()
	r, dir := newRepo(t), smallWorkspace(t)
	h := &hurt{keys: keysOf(t, r.store), damaged: r.snapshot(dir).Snapshot}
	other := filepath.Join(t.TempDir(), "other")
	write(t, other, map[string]string{"f": "healthy"})
	h.healthy, h.whole, h.rest = r.snapshot(other).Snapshot, describe(t, other), describe(t, dir)
	h.rest = slices.DeleteFunc(h.rest, func(line string) bool { return strings.HasPrefix(line, `"b/c"`) })
	h.pieces = dissect(t, h.keys)
	for e, err := range r.Ls(t.Context(), h.damaged, "b/c", engine.Shallow) {
		if err != nil {
			t.Fatal(err)
		}
		h.lost = e.Content.Extents[0].ID
	}
	r.close()
	return h
}

// alive: what was whole is whole, and the damaged snapshot has lost b/c alone.
func (h *hurt) alive(t *testing.T, r *testRepo) {
	t.Helper()
	elsewhere := r.elsewhere()
	defer elsewhere.close()
	same(t, h.whole, describe(t, elsewhere.restore(h.healthy)))
	target := filepath.Join(t.TempDir(), "restored")
	if _, err := elsewhere.Show(t.Context(), h.damaged); errors.Is(err, engine.ErrNotFound) {
		return // forgotten
	}
	result, err := elsewhere.Restore(t.Context(), h.damaged, engine.RestoreOptions{Target: target})
	if !errors.Is(err, engine.ErrPartial) || len(result.Failed) != 1 || result.Failed[0].Path != "b/c" {
		t.Errorf("restore of the damaged snapshot: %v", err)
	}
}

func repairSnapshots(opts engine.RepairSnapshotsOptions) func(context.Context, *engine.Repository) error {
	return func(ctx context.Context, r *engine.Repository) error {
		plan, err := r.PlanRepairSnapshots(ctx, opts)
		if err != nil {
			return err
		}
		_, err = r.RepairSnapshots(ctx, plan)
		return err
	}
}

// successor fails the test unless the damaged snapshot has exactly one successor, with
// all that is left.
func (h *hurt) successor(t *testing.T, r *testRepo) {
	t.Helper()
	elsewhere := r.elsewhere()
	defer elsewhere.close()
	infos, err := elsewhere.List(t.Context(), engine.Filter{Labels: map[string]string{engine.RepairedFrom: h.damaged.String()}})
	if err != nil || len(infos) != 1 {
		t.Fatalf("%d successors, %v", len(infos), err)
	}
	same(t, h.rest, describe(t, elsewhere.restore(infos[0].ID)))
}

func TestRepairOfSnapshotsSurvivesEveryFault(t *testing.T) {
	h := newHurt(t)
	_, left := part(h.pieces, []blob.ID{h.lost})
	ward{store: withPacks(t, h.keys, left), alive: h.alive, repair: repairSnapshots(engine.RepairSnapshotsOptions{ForgetDamaged: true}),
		healed: func(t *testing.T, r *testRepo) {
			h.successor(t, r)
			if _, err := r.Show(t.Context(), h.damaged); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("the damaged snapshot is not forgotten: %v", err)
			}
			r.clean()
		},
	}.sweep(t)
}

// Half of the blobs lie in a pack that is damaged in the one frame that holds b/c.
func TestRepairOfPacksSurvivesEveryFault(t *testing.T) {
	h := newHurt(t)
	_, left := part(h.pieces, []blob.ID{h.lost})
	store := withPacks(t, h.keys, h.pieces)
	key := objects(t, store, "packs/")[0]
	put(t, store, key, h.spoil(t, store, key))
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	r.close()
	ward{store: store, alive: h.alive,
		repair: func(ctx context.Context, r *engine.Repository) error {
			plan, err := r.PlanRepairPacks(ctx)
			if err != nil {
				return err
			}
			_, err = r.RepairPacks(ctx, plan)
			if blobs, _ := plan.Lost(); blobs == 1 && errors.Is(err, engine.ErrDamaged) {
				err = nil
			}
			return err
		},
		healed: func(t *testing.T, r *testRepo) {
			if plan := r.planPacks(); !plan.Empty() || plan.Packs[0].Held != uint64(len(left)) {
				t.Errorf("there is more to do: %+v", plan.Packs)
			}
			remove(t, r.store, key) // as a collection does
			h.alive(t, r)
		},
	}.sweep(t)
}

// spoil damages the frame of a pack that holds the lost blob.
func (h *hurt) spoil(t *testing.T, store *mem.Store, key string) []byte {
	t.Helper()
	object := read(t, store, key)
	p := &patient{store: store, keys: h.keys}
	for _, f := range p.footer(t, key).Frames {
		if f.Blobs[0].ID == h.lost {
			object[f.Offset+f.Length/2] ^= 1
			return object
		}
	}
	t.Fatal("no frame holds the blob")
	return nil
}

func TestRepairOfSessionsSurvivesEveryFault(t *testing.T) {
	h := newHurt(t)
	_, left := part(h.pieces, []blob.ID{h.lost})
	store := withPacks(t, h.keys, left)
	_, record, err := commit.Find(t.Context(), h.keys, h.healthy)
	if err != nil {
		t.Fatal(err)
	}
	good := "pending/" + string(commit.NewSession())
	place(t, commit.Repo{Store: store, Sealer: h.keys.Sealer, Namer: h.keys.Namer}, good, seal.Pending, record.Encode())
	put(t, store, "pending/"+string(commit.NewSession()), []byte("not a record"))
	put(t, store, "pending/"+string(commit.NewSession()), nil)
	ward{store: store, alive: h.alive,
		repair: func(ctx context.Context, r *engine.Repository) error {
			plan, err := r.PlanRepairSessions(ctx)
			if err != nil {
				return err
			}
			_, err = r.RepairSessions(ctx, plan)
			return err
		},
		healed: func(t *testing.T, r *testRepo) {
			if left := objects(t, r.store, "pending/"); !slices.Equal(left, []string{good}) {
				t.Errorf("pending: %v", left)
			}
		},
	}.sweep(t)
}

// A check marks and records what it found, whenever the one before it died.
func TestCheckSurvivesEveryFault(t *testing.T) {
	h := newHurt(t)
	_, left := part(h.pieces, []blob.ID{h.lost})
	spare, _ := part(h.pieces, []blob.ID{h.lost})
	store := withPacks(t, h.keys, left, spare)
	packs := objects(t, store, "packs/")
	for _, key := range packs {
		p := &patient{store: store, keys: h.keys}
		if p.footer(t, key).Frames[0].Blobs[0].ID == h.lost && len(p.footer(t, key).Frames) == 1 {
			put(t, store, key, h.spoil(t, store, key))
		}
	}
	ward{store: store, alive: h.alive,
		repair: func(ctx context.Context, r *engine.Repository) error {
			report, err := r.Check(ctx, engine.CheckOptions{ReadData: 1})
			if report != nil && errors.Is(err, engine.ErrDamaged) {
				err = nil
			}
			return err
		},
		healed: func(t *testing.T, r *testRepo) {
			if marks := objects(t, r.store, "gc/damaged/"); len(marks) != 1 {
				t.Errorf("marks %v", marks)
			}
			report, err := r.Check(t.Context(), engine.CheckOptions{})
			if !errors.Is(err, engine.ErrDamaged) || report.Verified.Within[0].Packs != 1 || report.Verified.Never.Packs != 1 {
				t.Errorf("check: %v, verified %+v", err, report.Verified)
			}
		},
	}.sweep(t)
}
