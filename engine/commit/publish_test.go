package commit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestPublishMakesASnapshotVisible(t *testing.T) {
	repo := newRepo(mem.New())
	record := newRecord(1, 2)
	published, err := Publish(t.Context(), repo, NewSession(), record, View{}, noRescue{t})
	if err != nil {
		t.Fatal(err)
	}
	if published.ID != record.ID(repo.Namer) || published.Cleanup != nil {
		t.Errorf("published %v, cleanup %v", published.ID, published.Cleanup)
	}
	if left := keys(t, repo.Store, pendingPrefix); len(left) != 0 {
		t.Errorf("pending objects left: %v", left)
	}
	_, found, err := Find(t.Context(), repo, published.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(found.Packs, record.Packs) || !bytes.Equal(found.Encode(), record.Encode()) {
		t.Errorf("found %+v, want %+v", found, record)
	}
}

// The tests below place a collector's records by hand between the steps of a
// writer.

func TestCondemnedAfterTheViewIsRescued(t *testing.T) {
	var repo Repo
	repo = afterPending(func() { place(t, repo, 1, "condemned", 2, 7) })
	rescue := &rescueInto{packs: packs(1, 3)}
	published, err := Publish(t.Context(), repo, NewSession(), newRecord(1, 2), View{}, rescue)
	if err != nil {
		t.Fatal(err)
	}
	if len(rescue.dead) != 1 || !sameSet(rescue.dead[0], deadSet(2, 7)) {
		t.Errorf("rescue was told of dead packs %v", rescue.dead)
	}
	_, found, err := Find(t.Context(), repo, published.ID)
	if err != nil || !slices.Equal(found.Packs, packs(1, 3)) {
		t.Errorf("published with packs %v (%v), want those of the rescue", found.Packs, err)
	}
	if published.View.Highest != 1 {
		t.Errorf("view ends at %d, want 1", published.View.Highest)
	}
}

func TestCondemnedElsewhereNeedsNoRescue(t *testing.T) {
	var repo Repo
	repo = afterPending(func() { place(t, repo, 1, "condemned", 8, 9) })
	if _, err := Publish(t.Context(), repo, NewSession(), newRecord(1, 2), View{}, noRescue{t}); err != nil {
		t.Fatal(err)
	}
}

func TestFinalListSparesWhatItLeavesOut(t *testing.T) {
	var repo Repo
	repo = afterPending(func() {
		place(t, repo, 1, "condemned", 2, 7)
		place(t, repo, 1, "final", 7)
	})
	if _, err := Publish(t.Context(), repo, NewSession(), newRecord(1, 2), View{}, noRescue{t}); err != nil {
		t.Fatal(err)
	}
}

func TestGenerationDuringARescueIsSeen(t *testing.T) {
	var repo Repo
	repo = afterPending(func() { place(t, repo, 1, "condemned", 2) })
	rescue := &rescueInto{packs: packs(1, 3)}
	rescue.then = func() {
		if len(rescue.dead) == 1 { // the first rescue stores into pack 3, which is condemned at once
			place(t, repo, 2, "condemned", 3)
			return
		}
		rescue.packs = packs(1, 4)
	}
	published, err := Publish(t.Context(), repo, NewSession(), newRecord(1, 2), View{}, rescue)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(published.Record.Packs, packs(1, 4)) || len(rescue.dead) != 2 || !sameSet(rescue.dead[1], deadSet(2, 3)) {
		t.Errorf("packs %v after rescues of %v", published.Record.Packs, rescue.dead)
	}
}

// A base generation is missing: a bucket that was copied without its oldest
// records, or a collector that crashed before it put any.
func TestMissingGenerationIsNoObstacle(t *testing.T) {
	repo := newRepo(mem.New())
	place(t, repo, 3, "condemned", 5)
	view, err := ReadView(t.Context(), repo, View{})
	if err != nil || view.Highest != 3 || !sameSet(view.Dead, deadSet(5)) {
		t.Fatalf("view %+v, %v", view, err)
	}
	place(t, repo, 7, "condemned", 6)
	place(t, repo, 7, "final")
	view, err = ReadView(t.Context(), repo, view)
	if err != nil || view.Highest != 7 || !sameSet(view.Dead, deadSet(5)) {
		t.Fatalf("view %+v, %v", view, err)
	}
}

func TestViewReadsOnlyWhatIsNew(t *testing.T) {
	counted := fault.New(mem.New())
	repo := newRepo(counted)
	for n := range uint64(5) {
		place(t, repo, n+1, "condemned", byte(n))
		place(t, repo, n+1, "final", byte(n))
	}
	view, err := ReadView(t.Context(), repo, View{})
	if err != nil {
		t.Fatal(err)
	}
	place(t, repo, 6, "condemned", 6)
	before := counted.Counts(gcPrefix)[fault.Get]
	next, err := ReadView(t.Context(), repo, view)
	if err != nil || next.Highest != 6 || !sameSet(next.Dead, deadSet(0, 1, 2, 3, 4, 6)) {
		t.Fatalf("view %+v, %v", next, err)
	}
	if read := counted.Counts(gcPrefix)[fault.Get] - before; read != 1 {
		t.Errorf("%d objects read for one new generation", read)
	}
	if sameSet(view.Dead, next.Dead) {
		t.Error("the old view changed")
	}
}

func TestFailedRescueWithdraws(t *testing.T) {
	var repo Repo
	repo = afterPending(func() { place(t, repo, 1, "condemned", 2) })
	gone := fmt.Errorf("%w: blob is gone", ErrLost)
	_, err := Publish(t.Context(), repo, NewSession(), newRecord(2), View{}, &rescueInto{err: gone})
	if !errors.Is(err, ErrLost) || !errors.Is(err, gone) {
		t.Errorf("error %v, want ErrLost with its cause", err)
	}
	if ids := visible(t, repo); len(ids) != 0 {
		t.Errorf("snapshots %v are visible", ids)
	}
	if left := keys(t, repo.Store, pendingPrefix); len(left) != 0 {
		t.Errorf("pending objects left: %v", left)
	}
}

func TestTombstoneBeatsTheWriter(t *testing.T) {
	for _, kind := range [][]byte{forgotten, expired} {
		repo := newRepo(mem.New())
		record, session := newRecord(1), NewSession()
		key := snapshotKey(record.ID(repo.Namer), session)
		tombstone := sealFor(repo, key, seal.Tombstone, kind)
		if len(tombstone) != seal.Overhead+len(kind) {
			t.Fatalf("tombstone of %d bytes, want %d", len(tombstone), seal.Overhead+len(kind))
		}
		put(t, repo, key, tombstone)
		if _, err := Publish(t.Context(), repo, session, record, View{}, noRescue{t}); !errors.Is(err, ErrLost) {
			t.Errorf("kind %d: error %v, want ErrLost", kind, err)
		}
		if ids := visible(t, repo); len(ids) != 0 {
			t.Errorf("kind %d: snapshots %v are visible", kind, ids)
		}
		if _, err := Publish(t.Context(), repo, NewSession(), record, View{}, noRescue{t}); err != nil {
			t.Errorf("kind %d: a fresh session: %v", kind, err)
		}
	}
}

// TestPublishSurvivesEveryFault fails each call in turn, before and after its
// work. Success must mean that the snapshot is there, failure that a fresh
// attempt succeeds.
func TestPublishSurvivesEveryFault(t *testing.T) {
	faults := map[string]func(int) fault.Injector{
		"before": func(n int) fault.Injector { return fault.FailNth(n, fault.ErrInjected) },
		"after":  fault.LoseAckNth,
	}
	for name, inject := range faults {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				if n > 1000 {
					t.Fatal("the sweep does not end")
				}
				under := mem.New()
				place(t, newRepo(under), 1, "condemned", 4)
				store := fault.New(under, inject(n))
				record := newRecord(1)
				published, err := Publish(t.Context(), newRepo(store), NewSession(), record, View{}, noRescue{t})
				clean := newRepo(under)
				if err == nil {
					if _, _, err := Find(t.Context(), clean, published.ID); err != nil {
						t.Errorf("call %d: acknowledged, then %v", n, err)
					}
				}
				if _, err := Publish(t.Context(), clean, NewSession(), record, View{}, noRescue{t}); err != nil {
					t.Errorf("call %d: the next attempt: %v", n, err)
				}
				if store.Calls() < n {
					if err != nil {
						t.Errorf("no call failed, but %v", err)
					}
					return
				}
			}
		})
	}
}

func TestLostAnswerIsSuccess(t *testing.T) {
	for _, prefix := range []string{pendingPrefix, snapshotPrefix} {
		store := fault.New(mem.New(), fault.On(fault.Put, prefix, fault.Repeat()))
		if _, err := Publish(t.Context(), newRepo(store), NewSession(), newRecord(1), View{}, noRescue{t}); err != nil {
			t.Errorf("a put below %s that was repeated after a lost answer: %v", prefix, err)
		}
	}
}

// A snapshot that was forgotten after it was listed is not taken for damaged.
func TestLoadOfATombstone(t *testing.T) {
	repo := newRepo(mem.New())
	published, err := Publish(t.Context(), repo, NewSession(), newRecord(1), View{}, noRescue{t})
	if err != nil {
		t.Fatal(err)
	}
	ref := Ref{ID: published.ID, Session: published.Session}
	put(t, repo, ref.Key(), sealFor(repo, ref.Key(), seal.Tombstone, forgotten))
	if _, err := Load(t.Context(), repo, ref); !errors.Is(err, ErrNotFound) {
		t.Errorf("load: %v", err)
	}
}

func TestPublishedTwiceIsListedTwiceAndFoundOnce(t *testing.T) {
	repo := newRepo(mem.New())
	record := newRecord(1)
	for range 2 {
		if _, err := Publish(t.Context(), repo, NewSession(), record, View{}, noRescue{t}); err != nil {
			t.Fatal(err)
		}
	}
	if ids := visible(t, repo); len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("visible: %v", ids)
	}
	first := keys(t, repo.Store, snapshotPrefix)[0]
	put(t, repo, first, bytes.Repeat([]byte{7}, 200))
	if _, _, err := Find(t.Context(), repo, record.ID(repo.Namer)); err != nil {
		t.Errorf("one of two records is damaged: %v", err)
	}
}

func TestLoadRefusesWhatIsNotTheSnapshot(t *testing.T) {
	repo := newRepo(mem.New())
	published, err := Publish(t.Context(), repo, NewSession(), newRecord(1), View{}, noRescue{t})
	if err != nil {
		t.Fatal(err)
	}
	key := keys(t, repo.Store, snapshotPrefix)[0]
	object, err := objectstore.ReadAll(t.Context(), repo.Store, key, maxObject)
	if err != nil {
		t.Fatal(err)
	}
	for i := range object {
		flipped := bytes.Clone(object)
		flipped[i] ^= 1
		put(t, repo, key, flipped)
		if _, _, err := Find(t.Context(), repo, published.ID); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
	other := published.ID
	other[0] ^= 1
	put(t, repo, snapshotKey(other, NewSession()), object)
	if _, _, err := Find(t.Context(), repo, other); !errors.Is(err, ErrDamaged) {
		t.Errorf("moved to another id: %v", err)
	}
}
