package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// TestDamagedPacks: what a damaged pack has lost is named exactly by a check and
// by a restore, the rest comes back, and a new snapshot heals.
func TestDamagedPacks(t *testing.T) {
	p := newPatient(t)
	each(t, []string{"data", "tree", "mixed"}, damages, func(t *testing.T, kind string, d damage) {
		store, damaged := p.operate(t, kind, d)
		r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
		lost := p.lost(t, p.objects[kind], damaged)
		p.restoreWhatIsLeft(t, r, lost)
		p.diagnose(t, r, p.objects[kind], lost)
		p.heal(t, r)
	})
}

func (p *patient) restoreWhatIsLeft(t *testing.T, r *testRepo, lost map[blob.ID]bool) {
	t.Helper()
	for n, id := range p.snapshots {
		want := p.affected(n, lost)
		target := filepath.Join(t.TempDir(), "restored")
		result, err := r.Restore(t.Context(), id, engine.RestoreOptions{Target: target})
		switch {
		case len(want) == 0:
			if err != nil {
				t.Fatalf("snapshot %d lost nothing: %v", n, err)
			}
			same(t, p.content[n], describe(t, target))
		case lost[p.roots[n]]:
			if !errors.Is(err, engine.ErrDamaged) || errors.Is(err, engine.ErrPartial) {
				t.Errorf("snapshot %d lost its root: %v", n, err)
			}
			if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("snapshot %d lost its root, the target is there: %v", n, err)
			}
		default:
			if !errors.Is(err, engine.ErrPartial) || !errors.Is(err, engine.ErrDamaged) {
				t.Fatalf("snapshot %d lost %q: %v", n, want, err)
			}
			failed := []string{}
			for _, f := range result.Failed {
				failed = append(failed, f.Path)
			}
			slices.Sort(failed)
			if !slices.Equal(failed, want) {
				t.Errorf("snapshot %d: restore failed for %q, want %q", n, failed, want)
			}
			p.sameBut(t, n, want, target)
		}
	}
}

// sameBut compares the restored files outside of some paths. Directories above those
// have other times, and files that were hard links to them are links no more.
func (p *patient) sameBut(t *testing.T, n int, but []string, target string) {
	t.Helper()
	excused := func(name string) bool {
		return slices.ContainsFunc(but, func(path string) bool {
			return name == path || path == "" || strings.HasPrefix(name, path+"/") || name == "." || strings.HasPrefix(path, name+"/")
		})
	}
	got := describe(t, target)
	for _, line := range p.content[n] {
		var name string
		if _, err := fmt.Sscanf(line, "%q", &name); err != nil {
			t.Fatal(err)
		}
		if alone, partner, linked := strings.Cut(line, " = "); linked && excused(partner) {
			line = alone
		}
		if !excused(name) && !slices.Contains(got, line) {
			t.Errorf("not restored: %s", line)
		}
	}
}

// wrong returns the problems of a report but for those of a dead attempt: this store
// says of all objects that they are from 1970.
func wrong(report *engine.CheckReport) []engine.Problem {
	return slices.DeleteFunc(slices.Clone(report.Problems), func(p engine.Problem) bool { return p.What == engine.Orphaned })
}

// diagnose compares the report of a check with what is known to be lost.
func (p *patient) diagnose(t *testing.T, r *testRepo, key string, lost map[blob.ID]bool) {
	t.Helper()
	report, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1})
	if !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v, %+v", err, report)
	}
	problems := wrong(report)
	if len(problems) != 1 || problems[0].Object != key {
		t.Errorf("problems %+v, want one of %s", problems, key)
	}
	p.sameAffected(t, problems, func(n int) []string { return p.affected(n, lost) })
}

// sameAffected compares the paths that problems affect with those that they should.
func (p *patient) sameAffected(t *testing.T, problems []engine.Problem, want func(n int) []string) {
	t.Helper()
	affected := map[engine.ID][]string{}
	for _, problem := range problems {
		for _, a := range problem.Affected {
			affected[a.Snapshot] = append(affected[a.Snapshot], a.Path)
		}
	}
	for n, id := range p.snapshots {
		got := slices.Compact(slices.Sorted(slices.Values(affected[id])))
		if !slices.Equal(got, want(n)) {
			t.Errorf("affected of snapshot %d: %q, want %q", n, got, want(n))
		}
		delete(affected, id)
	}
	if len(affected) > 0 {
		t.Errorf("other snapshots are affected: %v", affected)
	}
}

// heal takes the snapshot again, from the machine that took the last one, whose
// caches believe that all is stored.
func (p *patient) heal(t *testing.T, damaged *testRepo) {
	t.Helper()
	r := (&testRepo{t: t, store: damaged.store, state: p.copyState(t)}).open(damaged.store)
	if again := r.snapshot(p.workspace); !again.Unchanged {
		t.Errorf("the snapshot that heals has root %v", again.Root)
	}
	// The last snapshot had the same content: it is healed too.
	same(t, p.content[1], describe(t, r.elsewhere().restore(p.snapshots[1])))
	report, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1})
	if report == nil {
		t.Fatal(err)
	}
	for _, problem := range report.Problems {
		for _, a := range problem.Affected {
			if a.Snapshot != p.snapshots[0] {
				t.Errorf("still affected by %s: %v", problem.Object, a)
			}
		}
	}
	if more := r.snapshot(p.workspace); more.NewBlobs != 0 || !more.Unchanged {
		t.Errorf("a third snapshot stored %d blobs again", more.NewBlobs)
	}
}

// record says what goes on when an object beside packs is damaged.
type record struct {
	open, list, snapshot bool
	restore              [2]bool
	traceless            bool    // once deleted, nothing tells that it was there
	harmless             bool    // nothing is lost
	affects              [2]bool // snapshots that cannot be read any more
	// listCut says that the object no longer looks like what it was once it is
	// shorter, so that listings stop at it.
	listCut bool
}

// usable is a repository in which everything goes on.
var usable = record{open: true, list: true, snapshot: true, restore: [2]bool{true, true}, traceless: true}

// records are the objects beside packs.
var records = map[string]record{
	"segment":    {open: true, list: true, snapshot: true},
	"snapshot":   {open: true, snapshot: true, restore: [2]bool{true, false}, traceless: true, affects: [2]bool{false, true}},
	"label":      {open: true, snapshot: true, restore: [2]bool{true, true}, traceless: true},
	"pending":    usable,
	"condemned":  {open: true, list: true, restore: [2]bool{true, true}, traceless: true},
	"final":      harmless(usable),
	"remote":     usable,
	"guarantees": harmless(usable),
	"verified":   harmless(usable),
	"forgotten":  harmless(usable),
	"tombstone":  {open: true, list: true, snapshot: true, restore: [2]bool{true, true}, traceless: true, harmless: true, listCut: true},
	"config":     {},
	"key":        {},
}

func harmless(r record) record {
	r.harmless = true
	return r
}

// TestDamagedRecords: every operation succeeds or says which object is damaged.
func TestDamagedRecords(t *testing.T) {
	p := newPatient(t)
	each(t, slices.Sorted(maps.Keys(records)), fewDamages, func(t *testing.T, kind string, d damage) {
		store, _ := p.operate(t, kind, d)
		key, deleted := p.objects[kind], d.name == "delete"
		want := records[kind]
		if !want.open {
			p.cannotOpen(t, store, kind)
			return
		}
		expect := func(operation string, err error, good bool) {
			t.Helper()
			switch gone := deleted && want.traceless; {
			case good || gone && !errors.Is(err, engine.ErrNotFound):
				if err != nil {
					t.Errorf("%s: %v", operation, err)
				}
			case gone:
			case !errors.Is(err, engine.ErrDamaged):
				t.Errorf("%s: %v", operation, err)
			case kind != "segment" && !strings.Contains(err.Error(), key):
				t.Errorf("%s: error %v does not name %s", operation, err, key)
			}
		}
		r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
		_, err := r.List(t.Context(), engine.Filter{})
		expect("list", err, want.list && !(want.listCut && (d.name == "cut" || d.name == "empty")))
		for n, id := range p.snapshots {
			target := filepath.Join(t.TempDir(), "restored")
			_, err := r.Restore(t.Context(), id, engine.RestoreOptions{Target: target})
			expect("restore", err, want.restore[n])
			if err == nil {
				same(t, p.content[n], describe(t, target))
			}
		}
		p.diagnoseRecord(t, r, kind, deleted)
		saved, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: p.workspace})
		expect("snapshot", err, want.snapshot)
		if err == nil {
			same(t, p.content[1], describe(t, r.elsewhere().restore(saved.Snapshot)))
		}
	})
}

// cannotOpen: without the object nobody opens the repository any more, and
// somebody who has it open learns why from a check.
func (p *patient) cannotOpen(t *testing.T, damaged *mem.Store, kind string) {
	t.Helper()
	_, err := engine.Open(t.Context(), damaged, engine.OpenOptions{Credentials: insecure})
	if !errors.Is(err, engine.ErrDamaged) && !errors.Is(err, engine.ErrNoRepository) && !errors.Is(err, engine.ErrNewerVersion) && !errors.Is(err, engine.ErrWrongKey) {
		t.Errorf("open: %v", err)
	}
	switched := &switchedStore{Store: p.store}
	r := (&testRepo{t: t, store: switched, state: t.TempDir()}).open(switched)
	switched.Store = damaged
	report, err := r.Check(t.Context(), engine.CheckOptions{})
	if kind == "key" && report != nil && err == nil && len(objects(t, damaged, "keys/")) == 0 {
		return // a key that was removed leaves no trace
	}
	if !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	if problems := wrong(report); len(problems) != 1 || problems[0].Object != p.objects[kind] {
		t.Errorf("problems %+v, want one of %s", problems, p.objects[kind])
	}
}

// switchedStore lets a repository that is open see other objects.
type switchedStore struct{ objectstore.Store }

func (p *patient) diagnoseRecord(t *testing.T, r *testRepo, kind string, deleted bool) {
	t.Helper()
	want := records[kind]
	report, err := r.Check(t.Context(), engine.CheckOptions{})
	if report == nil {
		t.Fatal(err)
	}
	problems := wrong(report)
	if deleted && want.traceless {
		if err != nil || len(problems) > 0 {
			t.Errorf("check: %v, %+v", err, problems)
		}
		return
	}
	if want.harmless && err != nil || !want.harmless && !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v, %+v", err, problems)
	}
	named := slices.ContainsFunc(problems, func(problem engine.Problem) bool { return problem.Object == p.objects[kind] })
	if named == deleted {
		t.Errorf("%s is named: %v", p.objects[kind], named)
	}
	for _, problem := range problems {
		if problem.Object != p.objects[kind] && (kind != "segment" || problem.What != engine.Unindexed) {
			t.Errorf("a problem of %s: %v", problem.Object, problem.Err)
		}
	}
	lost := map[blob.ID]bool{}
	if kind == "segment" {
		for _, pack := range []string{"data", "tree"} {
			maps.Copy(lost, p.lost(t, p.objects[pack], nil))
		}
	}
	p.sameAffected(t, problems, func(n int) []string {
		if want.affects[n] {
			return []string{""}
		}
		return p.affected(n, lost)
	})
}

// A repaired index names what packs hold, and no pack that is gone; what lies in
// a pack without a footer can be read and is not reused.
func TestRepairedIndexLetsASnapshotHeal(t *testing.T) {
	p := newPatient(t)
	unreadable := slices.DeleteFunc(slices.Clone(damages), func(d damage) bool {
		return !slices.Contains([]string{"flip footer", "flip trailer", "empty", "delete"}, d.name)
	})
	each(t, []string{"data", "tree", "mixed"}, unreadable, func(t *testing.T, kind string, d damage) {
		store, damaged := p.operate(t, kind, d)
		r := (&testRepo{t: t, store: store, state: p.copyState(t)}).open(store)
		_, err := r.RepairIndex(t.Context())
		if damaged != nil && !errors.Is(err, engine.ErrDamaged) || damaged == nil && err != nil {
			t.Errorf("repair: %v", err)
		}
		r.snapshot(p.workspace)
		remove(t, store, p.objects[kind])
		same(t, p.content[1], describe(t, r.elsewhere().restore(p.snapshots[1])))
	})
}

// A pack that comes back from a copy of the repository is used again.
func TestWholePackLosesItsMark(t *testing.T) {
	p := newPatient(t)
	store, _ := p.operate(t, "data", flipMiddle)
	r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
	mark := "gc/damaged/" + strings.TrimPrefix(p.objects["data"], "packs/")
	for range 2 { // the second check finds the mark of the first
		if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); !errors.Is(err, engine.ErrDamaged) {
			t.Fatalf("check: %v", err)
		}
		if marks := objects(t, store, "gc/damaged/"); !slices.Equal(marks, []string{mark}) {
			t.Fatalf("marks %v", marks)
		}
	}
	// Without reading everything, what is marked is read.
	if _, err := r.Check(t.Context(), engine.CheckOptions{}); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check without reading: %v", err)
	}
	put(t, store, p.objects["data"], read(t, p.store, p.objects["data"]))
	r.clean()
	if marks := objects(t, store, "gc/damaged/"); len(marks) != 0 {
		t.Errorf("marks %v", marks)
	}
	if again := r.snapshot(p.workspace); again.NewBlobs != 0 {
		t.Errorf("%d blobs stored again", again.NewBlobs)
	}
}

// A snapshot that was cut to the size of a tombstone is not taken for one.
func TestSnapshotCutToATombstone(t *testing.T) {
	p := newPatient(t)
	key := p.objects["snapshot"]
	put(t, p.store, key, read(t, p.store, key)[:seal.Overhead+1])
	r := (&testRepo{t: t, store: p.store, state: t.TempDir()}).open(p.store)
	report, err := r.Check(t.Context(), engine.CheckOptions{})
	if !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v, %+v", err, report)
	}
	if problems := wrong(report); len(problems) != 1 || problems[0].Object != key {
		t.Errorf("problems %+v", problems)
	}
	p.sameAffected(t, report.Problems, func(n int) []string { return [][]string{nil, {""}}[n] })
}

// Nothing is skipped when the parent has lost what did not change.
func TestSkipUnchangedHeals(t *testing.T) {
	p := newPatient(t)
	store, _ := p.operate(t, "data", flipMiddle)
	r := (&testRepo{t: t, store: store, state: p.copyState(t)}).open(store)
	if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	saved, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: p.workspace, SkipUnchanged: true})
	if err != nil || saved.Skipped {
		t.Fatalf("skipped: %+v, %v", saved, err)
	}
	same(t, p.content[1], describe(t, r.elsewhere().restore(p.snapshots[1])))
}

// What an interrupted attempt stored and did not index is indexed also when all of
// it is found, and nothing is left to publish.
func TestSkipUnchangedIndexesWhatItFound(t *testing.T) {
	p := newPatient(t)
	under, _ := p.operate(t, "data", flipMiddle)
	r := (&testRepo{t: t, store: under, state: p.copyState(t)}).open(under)
	if _, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1}); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	r = r.reopen(fault.New(under, fault.On(fault.Put, "index/", fault.Fail(fault.ErrInjected))))
	if _, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: p.workspace}); !errors.Is(err, fault.ErrInjected) {
		t.Fatalf("interrupted attempt: %v", err)
	}
	r = r.reopen(under)
	saved, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: p.workspace, SkipUnchanged: true})
	if err != nil {
		t.Fatal(err)
	}
	same(t, p.content[1], describe(t, r.elsewhere().restore(saved.Snapshot)))
}
