package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// The tests of this file change the repository behind a writer that stays open, or
// that comes back with its local state.

// The generation that the kept view ends at is there, but it is another one of the
// same number: the bucket was put back and collected again, or it is a copy.
func TestSameGenerationOfAnotherCollection(t *testing.T) {
	for _, reopened := range []string{"open", "reopened"} {
		t.Run(reopened, func(t *testing.T) {
			s := newStage(t)
			s.condemn(1)
			s.finalise(1)
			s.change(map[string]string{"x": "1"})
			s.snapshot(s.dir) // keeps a view that ends at 1
			if reopened == "reopened" {
				s.testRepo = s.reopen(s.m)
			}
			packs := s.packs()
			remove(t, s.m.Store, "gc/0000000001/condemned")
			remove(t, s.m.Store, "gc/0000000001/final")
			s.condemn(1, packs...)
			s.finalise(1, packs...)
			s.change(map[string]string{"x": "2"})
			s.prove(s.snapshot(s.dir).Snapshot)
		})
	}
}

// The store was put back to before the last collection while a repository is open,
// whose index knows packs that are gone.
func TestPutBackBehindAnOpenRepository(t *testing.T) {
	s := newStage(t)
	s.condemn(1)
	s.finalise(1)
	kept := map[string]bool{}
	for _, key := range objects(t, s.m.Store, "") {
		kept[key] = true
	}
	s.condemn(2)
	s.finalise(2)
	s.change(map[string]string{"x": strings.Repeat("1", 5000)})
	s.snapshot(s.dir)
	for _, key := range objects(t, s.m.Store, "") {
		if !kept[key] {
			remove(t, s.m.Store, key)
		}
	}
	s.change(map[string]string{"y": "2"})
	s.prove(s.snapshot(s.dir).Snapshot)
}

// A pack is lost, noticed and dropped by others while a repository is open that
// still knows it.
func TestLostPackIsKnownToAnOpenRepository(t *testing.T) {
	for name, notice := range map[string]func(t *testing.T, r *testRepo){
		"check, repair, check": func(t *testing.T, r *testRepo) {
			checkDamaged(t, r)
			repair(t, r)
			r.Check(t.Context(), engine.CheckOptions{}) // for its effect on marks
		},
		"repair alone": repair,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			before := s.packs()
			s.change(map[string]string{"x": strings.Repeat("1", 5000)})
			s.snapshot(s.dir)
			for _, pack := range s.packs() {
				if !slices.Contains(before, pack) {
					s.collect(pack)
				}
			}
			s.store = s.m.Store
			notice(t, s.elsewhere())
			s.change(map[string]string{"y": "2"})
			s.prove(s.snapshot(s.dir).Snapshot)
		})
	}
}

func checkDamaged(t *testing.T, r *testRepo) {
	t.Helper()
	if _, err := r.Check(t.Context(), engine.CheckOptions{}); !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
}

func repair(t *testing.T, r *testRepo) {
	t.Helper()
	if _, err := r.RepairIndex(t.Context()); err != nil {
		t.Fatalf("repair: %v", err)
	}
}

// A fork has no workspace: what is lost cannot be had by trying again.
func TestForkOfALostSnapshot(t *testing.T) {
	s := newStage(t)
	pack := s.packs()[0]
	if err := commit.MarkDamaged(t.Context(), s.keys, pack); err != nil {
		t.Fatal(err)
	}
	s.collect(pack)
	for range 2 { // the mark is newer than the view, then in it
		if _, err := s.Fork(t.Context(), s.base, engine.ForkOptions{}); !errors.Is(err, engine.ErrDamaged) || errors.Is(err, engine.ErrRetry) {
			t.Errorf("fork: %v", err)
		}
	}
}

// The two stores of this test share nothing but the machine's local state.
func TestViewOfACopy(t *testing.T) {
	s := newStage(t)
	s.condemn(1)
	s.finalise(1)
	copied := s.m.Store.(*mem.Store).Clone()
	s.change(map[string]string{"x": "1"})
	s.snapshot(s.dir)
	s.condemn(2, s.packs()...)
	r := s.reopen(copied) // of the same id, and without generation 2
	saved := r.snapshot(s.dir)
	same(t, describe(t, s.dir), describe(t, r.elsewhere().restore(saved.Snapshot)))
}
