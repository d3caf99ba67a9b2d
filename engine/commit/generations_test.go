package commit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func readGenerations(t *testing.T, repo Repo, settled View) Generations {
	t.Helper()
	g, err := ReadGenerations(t.Context(), repo, settled)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGenerations(t *testing.T) {
	repo := newRepo(mem.New())
	if g := readGenerations(t, repo, View{}); g.Highest != 0 || len(g.Open)+len(g.Final) > 0 {
		t.Errorf("none: %+v", g)
	}
	place(t, repo, 1, "condemned", 1, 2)
	place(t, repo, 1, "final", 1)
	place(t, repo, 2, "condemned", 3, 4)
	place(t, repo, 3, "condemned", 5, 6)
	place(t, repo, 3, "final", 5)
	if err := MarkDamaged(t.Context(), repo, pack(9)); err != nil {
		t.Fatal(err)
	}
	g := readGenerations(t, repo, View{})
	if g.Highest != 3 || !sameSet(g.Final, deadSet(1, 5)) || !sameSet(g.Damaged, deadSet(9)) {
		t.Errorf("%+v", g)
	}
	if len(g.Open) != 1 || g.Open[0].Number != 2 || !sameSet(g.Open[0].Condemned, deadSet(3, 4)) {
		t.Errorf("open: %+v", g.Open)
	}
	if !sameSet(g.Dead(), deadSet(1, 3, 4, 5)) {
		t.Errorf("dead %v", g.Dead())
	}
	if g.Settled.Highest != 1 || !sameSet(g.Settled.Dead, deadSet(1)) {
		t.Errorf("settled: %+v", g.Settled)
	}
	again := readGenerations(t, repo, g.Settled)
	if again.Highest != 3 || !sameSet(again.Final, g.Final) || len(again.Open) != 1 || again.Settled.Highest != 1 {
		t.Errorf("from what was settled: %+v", again)
	}
	place(t, repo, 2, "final", 4)
	all := readGenerations(t, repo, again.Settled)
	if len(all.Open) > 0 || all.Settled.Highest != 3 || !sameSet(all.Settled.Dead, deadSet(1, 4, 5)) {
		t.Errorf("all settled: %+v", all)
	}
	if none := readGenerations(t, repo, all.Settled); none.Highest != 3 || !sameSet(none.Final, all.Final) {
		t.Errorf("nothing new: %+v", none)
	}
}

// What was settled in another store counts for nothing.
func TestGenerationsOfAnotherStore(t *testing.T) {
	repo, other := newRepo(mem.New()), newRepo(mem.New())
	place(t, repo, 1, "condemned", 1, 2)
	place(t, repo, 1, "final", 1)
	settled := readGenerations(t, repo, View{}).Settled
	if g := readGenerations(t, other, settled); g.Highest != 0 || len(g.Final) > 0 {
		t.Errorf("an empty store: %+v", g)
	}
	place(t, other, 1, "condemned", 7)
	place(t, other, 1, "final", 7)
	if g := readGenerations(t, other, settled); !sameSet(g.Final, deadSet(7)) || !sameSet(g.Settled.Dead, deadSet(7)) {
		t.Errorf("another generation of the same number: %+v", g)
	}
}

// Reading settled generations again costs one listing and no list.
func TestSettledGenerationsAreNotReadAgain(t *testing.T) {
	store := mem.New()
	for n := range uint64(5) {
		place(t, newRepo(store), n+1, "condemned", byte(n))
		place(t, newRepo(store), n+1, "final", byte(n))
	}
	settled := readGenerations(t, newRepo(store), View{}).Settled
	counted := fault.New(store)
	readGenerations(t, newRepo(counted), settled)
	if counted.Calls() != 1 {
		t.Errorf("%d requests, want 1", counted.Calls())
	}
}

func TestCondemnTakesTheNextNumber(t *testing.T) {
	repo := newRepo(mem.New())
	place(t, repo, 1, "condemned", 1)
	place(t, repo, 2, "condemned", 2)
	n, err := Condemn(t.Context(), repo, 1, packs(3, 4))
	if n != 3 || err != nil {
		t.Fatalf("generation %d, %v", n, err)
	}
	g := readGenerations(t, repo, View{})
	if len(g.Open) != 3 || !sameSet(g.Open[2].Condemned, deadSet(3, 4)) {
		t.Errorf("%+v", g.Open)
	}
	lossy := newRepo(fault.New(repo.Store, fault.LoseAckNth(1)))
	if _, err := Condemn(t.Context(), lossy, 3, packs(5)); err == nil {
		t.Error("a put whose answer was lost is not known to have worked")
	}
	retried := newRepo(twice{repo.Store})
	if n, err := Condemn(t.Context(), retried, 4, packs(6)); n != 5 || err != nil {
		t.Errorf("a put that was made twice: generation %d, %v", n, err)
	}
}

// twice makes each put twice, as a transport does whose first answer was lost.
type twice struct{ objectstore.Store }

func (s twice) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if info, err := s.Store.Put(ctx, key, body, opts); err != nil {
		return info, err
	}
	return s.Store.Put(ctx, key, body, opts)
}

// Of many collectors each gets a generation of its own, without a gap.
func TestCondemnBesideOthers(t *testing.T) {
	repo := newRepo(mem.New())
	numbers := make([]uint64, 16)
	var wg sync.WaitGroup
	for i := range numbers {
		wg.Go(func() {
			var err error
			if numbers[i], err = Condemn(t.Context(), repo, 0, packs(byte(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != uint64(i+1) {
			t.Fatalf("generations %v", numbers)
		}
	}
}

func TestFirstFinalStands(t *testing.T) {
	repo := newRepo(mem.New())
	place(t, repo, 1, "condemned", 1, 2, 3)
	if final, err := Finalise(t.Context(), repo, 1, packs(2)); err != nil || !slices.Equal(final, packs(2)) {
		t.Fatalf("%v, %v", final, err)
	}
	if final, err := Finalise(t.Context(), repo, 1, packs(1, 3)); err != nil || !slices.Equal(final, packs(2)) {
		t.Errorf("the second: %v, %v", final, err)
	}
	if g := readGenerations(t, repo, View{}); !sameSet(g.Final, deadSet(2)) || len(g.Open) > 0 {
		t.Errorf("%+v", g)
	}
	if view, err := ReadView(t.Context(), repo, View{}); err != nil || !sameSet(view.Dead, deadSet(2)) {
		t.Errorf("a writer sees %v, %v", view.Dead, err)
	}
}

// A generation that was opened by hand, without a pack, is settled like any other.
func TestEmptyLists(t *testing.T) {
	repo := newRepo(mem.New())
	if n, err := Condemn(t.Context(), repo, 0, nil); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if final, err := Finalise(t.Context(), repo, 1, []packfile.Name{}); err != nil || len(final) > 0 {
		t.Errorf("%v, %v", final, err)
	}
	if g := readGenerations(t, repo, View{}); g.Settled.Highest != 1 {
		t.Errorf("%+v", g)
	}
}

func putRecord(t *testing.T, repo Repo, session Session, record Record) Ref {
	t.Helper()
	content := record.Encode()
	ref := Ref{ID: record.ID(repo.Namer), Session: session}
	put(t, repo, ref.Key(), repo.Sealer.Seal(nil, seal.Snapshot, content, content))
	return ref
}

func list(t *testing.T, repo Repo) (refs []Ref) {
	t.Helper()
	for ref, err := range ListAll(t.Context(), repo, "") {
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	return refs
}

func pendingOf(t *testing.T, repo Repo) (all []Pending) {
	t.Helper()
	for p, err := range ListPending(t.Context(), repo) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestExpiryWinsOrLoses(t *testing.T) {
	repo := newRepo(mem.New())
	record := newRecord(1)
	a, b := Session(strings.Repeat("a", 32)), Session(strings.Repeat("b", 32))
	put(t, repo, "pending/notes.txt", []byte("not an attempt"))
	for _, session := range []Session{a, b} {
		if err := putPending(t.Context(), repo, session, record); err != nil {
			t.Fatal(err)
		}
	}
	putRecord(t, repo, b, record) // b published meanwhile
	won := map[Session]bool{}
	for _, p := range pendingOf(t, repo) {
		loaded, err := LoadPending(t.Context(), repo, p)
		if err != nil {
			t.Fatal(err)
		}
		if won[p.Session], err = Expire(t.Context(), repo, p, loaded); err != nil {
			t.Fatal(err)
		}
	}
	if !won[a] || won[b] {
		t.Errorf("won %v", won)
	}
	if left := pendingOf(t, repo); len(left) != 1 || left[0].Session != b {
		t.Errorf("pending: %v", left)
	}
	refs := list(t, repo)
	if len(refs) != 2 || refs[0].State != StateExpired || refs[1].State != StatePublished {
		t.Errorf("%+v", refs)
	}
	if _, err := putSnapshot(t.Context(), repo, a, record); !errors.Is(err, ErrLost) {
		t.Errorf("the attempt that expired: %v", err)
	}
	if again, err := Expire(t.Context(), repo, Pending{Session: a}, record); !again || err != nil {
		t.Errorf("expired again: %v, %v", again, err)
	}
	if err := DropTombstone(t.Context(), repo, refs[0]); err == nil || len(list(t, repo)) != 2 {
		t.Errorf("the tombstone of an expired attempt was removed: %v", err)
	}
}

func TestForgetKeepsTheRecord(t *testing.T) {
	repo := newRepo(mem.New())
	record := newRecord(1, 2)
	ref := putRecord(t, repo, NewSession(), record)
	for range 2 { // forgetting twice is forgetting once
		if err := Forget(t.Context(), repo, ref); err != nil {
			t.Fatal(err)
		}
	}
	if refs := list(t, repo); len(refs) != 1 || refs[0].State != StateForgotten {
		t.Errorf("%+v", refs)
	}
	if _, err := Load(t.Context(), repo, ref); !errors.Is(err, ErrNotFound) {
		t.Errorf("still there: %v", err)
	}
	if there, err := Exists(t.Context(), repo, ref); there || err != nil {
		t.Errorf("still there: %v, %v", there, err)
	}
	kept, err := LoadForgotten(t.Context(), repo, ref)
	if err != nil || kept.ID(repo.Namer) != ref.ID {
		t.Errorf("%v, %v", kept, err)
	}
	for key, err := range Verify(t.Context(), repo) {
		t.Errorf("%s: %v", key, err)
	}
	if err := DropForgotten(t.Context(), repo, ref); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadForgotten(t.Context(), repo, ref); !errors.Is(err, ErrNotFound) {
		t.Errorf("still kept: %v", err)
	}
	for range 2 {
		if err := DropTombstone(t.Context(), repo, ref); err != nil {
			t.Fatal(err)
		}
	}
	if refs := list(t, repo); len(refs) > 0 {
		t.Errorf("%+v", refs)
	}
	if err := Forget(t.Context(), repo, ref); err != nil || len(list(t, repo)) > 0 {
		t.Errorf("forgetting what is gone: %v", err)
	}
}

// A record that is damaged is forgotten as it is: nothing of it is lost by that.
func TestForgetOfDamage(t *testing.T) {
	repo := newRepo(mem.New())
	ref := putRecord(t, repo, "a", newRecord(1))
	put(t, repo, ref.Key(), make([]byte, 300))
	if err := Forget(t.Context(), repo, ref); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadForgotten(t.Context(), repo, ref); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

// The order of Forget's two writes: at no moment is there neither the snapshot nor
// its record.
func TestForgetNeverLosesTheRecord(t *testing.T) {
	for n := 1; ; n++ {
		store := mem.New()
		ref := putRecord(t, newRepo(store), "a", newRecord(1))
		failing := fault.New(store, fault.FailFrom(n, fault.ErrInjected))
		err := Forget(t.Context(), newRepo(failing), ref)
		_, published := Load(t.Context(), newRepo(store), ref)
		_, kept := LoadForgotten(t.Context(), newRepo(store), ref)
		if published != nil && kept != nil {
			t.Fatalf("call %d: %v, %v", n, published, kept)
		}
		if failing.Calls() < n {
			if err != nil || published == nil {
				t.Errorf("without a fault: %v, %v", err, published)
			}
			return
		}
		if err == nil {
			t.Errorf("call %d: no error", n)
		}
	}
}

// full is a store that has no space but for what replaces the reserve.
type full struct{ objectstore.Store }

func (s full) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if _, err := s.Store.Stat(ctx, reserveKey); err == nil || body.Size() > reserveSize {
		return objectstore.Info{}, &objectstore.Error{Op: "put", Key: key, Err: objectstore.ErrNoSpace}
	}
	return s.Store.Put(ctx, key, body, opts)
}

func TestReserveMakesRoom(t *testing.T) {
	store := mem.New()
	for range 2 {
		if err := KeepReserve(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	repo := newRepo(SpendReserve(full{store}))
	if n, err := Condemn(t.Context(), repo, 0, packs(1)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if left := keys(t, store, reserveKey); len(left) > 0 {
		t.Error("the reserve is still there")
	}
	if err := KeepReserve(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if _, err := Condemn(t.Context(), newRepo(full{store}), 1, packs(2)); !errors.Is(err, objectstore.ErrNoSpace) {
		t.Errorf("work that frees nothing spent the reserve: %v", err)
	}
	if left := keys(t, store, reserveKey); len(left) != 1 {
		t.Error("the reserve is gone")
	}
}

// What lies under one key is damage under another of its kind: it was sealed for its own.
func TestObjectsOpenUnderTheirKeysOnly(t *testing.T) {
	repo := newRepo(mem.New())
	record, here, there := newRecord(1), NewSession(), NewSession()
	id, other := record.ID(repo.Namer), blob.ID{7}
	for _, c := range []struct {
		unit     seal.Unit
		key, far string
	}{
		{seal.Pending, pendingKey(here), pendingKey(there)},
		{seal.Label, labelKey(id, 1, here), labelKey(id, 1, there)},
		{seal.Label, labelKey(id, 1, here), labelKey(other, 1, here)},
		{seal.Condemned, generationKey(1, "condemned"), generationKey(2, "condemned")},
		{seal.Final, generationKey(1, "final"), generationKey(2, "final")},
		{seal.Tombstone, snapshotKey(id, here), snapshotKey(id, there)},
	} {
		sealed := sealFor(repo, c.key, c.unit, []byte("content"))
		put(t, repo, c.key, sealed)
		put(t, repo, c.far, sealed)
		if content, err := readObject(t.Context(), repo, c.key, c.unit); err != nil || string(content) != "content" {
			t.Errorf("%s: %q, %v", c.key, content, err)
		}
		if _, err := readObject(t.Context(), repo, c.far, c.unit); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s under %s: %v", c.key, c.far, err)
		}
	}
}
