package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/gc"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// thorough collections free all that they can, at once.
var thorough = engine.CollectOptions{MaxUnused: -1, UndoWindow: -1, Grace: -1}

func (r *testRepo) forget(ids ...engine.ID) {
	r.t.Helper()
	repo := keysOf(r.t, r.store)
	for _, id := range ids {
		for ref, err := range commit.List(r.t.Context(), repo, id.String()) {
			if err == nil {
				err = commit.Forget(r.t.Context(), repo, ref)
			}
			if err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

func (r *testRepo) collect(opts engine.CollectOptions) *gc.Result {
	r.t.Helper()
	result, err := r.Collect(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// size is the number of bytes of the objects below a prefix.
func (r *testRepo) size(prefix string) (bytes int64) {
	r.t.Helper()
	for info, err := range r.store.List(r.t.Context(), prefix, "") {
		if err != nil {
			r.t.Fatal(err)
		}
		bytes += info.Size
	}
	return bytes
}

// history takes snapshots of a workspace that changes, and remembers what each
// looked like.
type history struct {
	t     *testing.T
	r     *testRepo
	dir   string
	ids   []engine.ID
	looks map[engine.ID][]string
}

func newHistory(t *testing.T, store objectstore.Store) *history {
	r := initRepo(t, store)
	r = smallPacks(t, r, keysOf(t, store))
	return &history{t: t, r: r, dir: smallWorkspace(t), looks: map[engine.ID][]string{}}
}

// save takes a snapshot of the workspace with one more incompressible file, of some
// 20 KiB, in place of the one from two snapshots ago.
func (h *history) save() engine.ID {
	h.t.Helper()
	n := len(h.ids)
	random := rand.New(rand.NewPCG(uint64(n), 1))
	var content strings.Builder
	for range 5000 {
		fmt.Fprintf(&content, "%x", random.Uint32())
	}
	write(h.t, h.dir, map[string]string{fmt.Sprintf("b/random%d", n): content.String()})
	if err := os.Remove(filepath.Join(h.dir, fmt.Sprintf("b/random%d", n-2))); err != nil && !isNotExist(err) {
		h.t.Fatal(err)
	}
	id := h.r.snapshot(h.dir).Snapshot
	h.ids = append(h.ids, id)
	h.looks[id] = describe(h.t, h.dir)
	return id
}

// hold fails the test unless a machine that knows nothing restores the snapshots,
// and the repository is without a fault.
func (h *history) hold(ids ...engine.ID) {
	h.t.Helper()
	holdAll(h.t, h.r, h.looks, ids)
}

func holdAll(t *testing.T, r *testRepo, looks map[engine.ID][]string, ids []engine.ID) {
	t.Helper()
	elsewhere := r.elsewhere()
	defer elsewhere.close()
	for _, id := range ids {
		same(t, looks[id], describe(t, elsewhere.restore(id)))
	}
	elsewhere.clean()
}

func TestCollectionFreesWhatWasForgotten(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 8 {
		h.save()
	}
	before := h.r.size("packs/")
	for _, id := range h.ids[5:7] {
		if _, err := h.r.Label(t.Context(), id, map[string]string{"k": "v"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	h.r.forget(h.ids[:6]...)
	result := h.r.collect(thorough)
	h.hold(h.ids[6:]...)
	freed := before - h.r.size("packs/")
	if freed != result.DeletedBytes-result.NewBytes {
		t.Errorf("freed %d bytes, said %d - %d", freed, result.DeletedBytes, result.NewBytes)
	}
	// Three of the eight random files are still needed.
	alone := newHistory(t, mem.New())
	alone.dir = h.dir
	alone.save()
	if left, need := h.r.size("packs/"), before*3/8; left > need*11/10 {
		t.Errorf("%d bytes are left of %d, about %d are needed", left, before, need)
	}
	again := h.r.collect(thorough)
	if again.Deleted > 0 || again.NewPacks > 0 || len(again.Generations) > 0 {
		t.Errorf("a second collection found something to do: %+v", again)
	}
	if left := objects(t, h.r.store, "forgotten/"); len(left) > 0 {
		t.Errorf("records are left: %v", left)
	}
	// Once the tombstone is gone, so are the labels.
	if left := objects(t, h.r.store, "labels/"); len(left) != 1 || !strings.Contains(left[0], h.ids[6].String()) {
		t.Errorf("labels: %v", left)
	}
	if left := h.tombstones(); left > 0 {
		t.Errorf("%d tombstones are left", left)
	}
}

func (h *history) tombstones() (n int) {
	for ref, err := range commit.ListAll(h.t.Context(), keysOf(h.t, h.r.store), "") {
		if err != nil {
			h.t.Fatal(err)
		}
		if ref.State != commit.StatePublished {
			n++
		}
	}
	return n
}

// Within the window for an undo everything is kept.
func TestUndoWindowKeepsEverything(t *testing.T) {
	h := newHistory(t, mem.New())
	now := time.Now()
	store := clocked{h.r.store, func() time.Time { return now }}
	for range 4 {
		h.save()
	}
	h.r.forget(h.ids[:3]...)
	h.r = h.r.reopen(store)
	before := h.r.size("packs/")
	result := h.r.collect(engine.CollectOptions{Grace: -1, MaxUnused: 1, UndoWindow: time.Hour})
	if h.r.size("packs/") != before || result.Records != 0 {
		t.Errorf("something was freed: %+v", result)
	}
	if kept := objects(t, h.r.store, "forgotten/"); len(kept) != 3 {
		t.Errorf("%d records, want 3", len(kept))
	}
	now = now.Add(-2 * time.Hour) // they were forgotten earlier
	result = h.r.collect(engine.CollectOptions{Grace: -1, MaxUnused: 1, UndoWindow: time.Hour})
	if result.Deleted == 0 || result.Records != 3 {
		t.Errorf("nothing was freed: %+v", result)
	}
	h.hold(h.ids[3])
}

// clocked is a store whose objects were all put at one time.
type clocked struct {
	objectstore.Store
	now func() time.Time
}

func (c clocked) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		for info, err := range c.Store.List(ctx, prefix, after) {
			info.ModTime = c.now()
			if !yield(info, err) {
				return
			}
		}
	}
}

// What ended attempts left goes when it is old, and not before.
func TestLeftoversGoWithAge(t *testing.T) {
	h := newHistory(t, mem.New())
	h.save()
	at := time.Now()
	clock := clocked{h.r.store, func() time.Time { return at }}
	h.r = h.r.reopen(fault.New(clock, fault.On(fault.Put, "snapshots/", fault.Fail(fault.ErrInjected))))
	write(t, h.dir, map[string]string{"more": "more"})
	if _, err := h.r.Snapshot(t.Context(), engine.SnapshotOptions{Path: h.dir}); !errors.Is(err, fault.ErrInjected) {
		t.Fatal(err)
	}
	h.r = h.r.reopen(fault.New(clock, fault.On(fault.Put, "index/", fault.Fail(fault.ErrInjected))))
	write(t, h.dir, map[string]string{"more": "still more"})
	if _, err := h.r.Snapshot(t.Context(), engine.SnapshotOptions{Path: h.dir}); !errors.Is(err, fault.ErrInjected) {
		t.Fatal(err)
	}
	h.r = h.r.reopen(clock)
	if n := len(objects(t, h.r.store, "pending/")); n != 1 {
		t.Fatalf("%d pending objects, want 1", n)
	}
	if result := h.r.collect(engine.CollectOptions{}); result.Expired != 0 || result.Deleted != 0 {
		t.Errorf("young leftovers were taken: %+v", result)
	}
	at = at.Add(-25 * time.Hour)
	result := h.r.collect(engine.CollectOptions{})
	if result.Expired != 1 || len(objects(t, h.r.store, "pending/")) != 0 {
		t.Errorf("the attempt did not expire: %+v", result)
	}
	second := h.r.collect(engine.CollectOptions{})
	if packs := len(objects(t, h.r.store, "packs/")); packs != 1 {
		t.Errorf("%d packs are left, want 1: %+v, %+v", packs, result, second)
	}
	if h.tombstones() != 1 {
		t.Errorf("the tombstone of the expired attempt is gone")
	}
	h.hold(h.ids...)
}

// Many small packs become few.
func TestSmallPacksAreMerged(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 20 {
		h.save()
	}
	h.r.collect(engine.CollectOptions{})
	if packs := len(objects(t, h.r.store, "packs/")); packs > 2 {
		t.Errorf("%d packs are left", packs)
	}
	h.hold(h.ids...)
	if segments := len(objects(t, h.r.store, "index/")); segments > 8 {
		t.Errorf("%d segments are left", segments)
	}
}

// Each store call of a collection fails in turn, is not acknowledged, is the last of
// the process, or sees the collection cancelled: nothing is lost, and the next
// collection finishes the work.
func TestCollectionSurvivesEveryFault(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 5 {
		h.save()
	}
	h.r.forget(h.ids[0], h.ids[2], h.ids[3])
	kept := []engine.ID{h.ids[1], h.ids[4]}
	h.r.close()
	collected := h.r.store.(*mem.Store).Clone()
	reference := (&testRepo{t: t, store: collected, state: t.TempDir()}).open(collected)
	reference.collect(thorough)
	want := reference.size("packs/")
	reference.close()
	sweep{store: h.r.store.(*mem.Store), state: h.r.state,
		operate: func(ctx context.Context, r *engine.Repository) ([]engine.ID, error) {
			_, err := r.Collect(ctx, thorough)
			if err != nil {
				return nil, err
			}
			return kept, nil
		},
		sound: func(t *testing.T, r *testRepo, acknowledged []engine.ID) {
			holdAll(t, r, h.looks, kept)
			if left := r.size("packs/"); len(acknowledged) > 0 && left > want*11/10 {
				t.Errorf("%d bytes are left, want %d", left, want)
			}
		},
	}.run(t)
}

// quota is a store that is full at a number of bytes.
type quota struct {
	objectstore.Store
	limit int64
}

func (q *quota) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	used := body.Size()
	for info, err := range q.Store.List(ctx, "", "") {
		if err != nil {
			return objectstore.Info{}, err
		}
		if info.Key != key {
			used += info.Size
		}
	}
	if used > q.limit {
		return objectstore.Info{}, &objectstore.Error{Op: "put", Key: key, Err: objectstore.ErrNoSpace}
	}
	return q.Store.Put(ctx, key, body, opts)
}

func used(t *testing.T, store objectstore.Store) (n int64) {
	t.Helper()
	for info, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size
	}
	return n
}

// A store that is full to the last byte gets room: the reserve makes way for the
// small objects of a collection.
func TestFullStoreShrinks(t *testing.T) {
	full := &quota{Store: mem.New(), limit: 1 << 40}
	h := newHistory(t, full)
	for range 8 {
		h.save()
	}
	h.r.collect(engine.CollectOptions{MaxUnused: 1}) // puts the reserve
	h.r.forget(h.ids[:6]...)
	full.limit = used(t, full)
	if _, err := h.r.Snapshot(t.Context(), engine.SnapshotOptions{Path: h.dir}); !errors.Is(err, objectstore.ErrNoSpace) {
		t.Fatalf("a snapshot into a full store: %v", err)
	}
	before := h.r.size("packs/")
	h.r.collect(thorough)
	if left := h.r.size("packs/"); left > before/2 {
		t.Errorf("%d bytes are left of %d", left, before)
	}
	h.hold(h.ids[6:]...)
	h.save()
	h.hold(h.ids[6:]...)
}

// Where no put works at all, packs that an earlier collection declared dead go.
func TestDeadPacksGoWithoutAnyPut(t *testing.T) {
	store := mem.New()
	h := newHistory(t, store)
	for range 6 {
		h.save()
	}
	h.r.forget(h.ids[:5]...)
	h.r = h.r.reopen(fault.New(store, fault.On(fault.Delete, "packs/", fault.Fail(fault.ErrInjected))))
	if _, err := h.r.Collect(t.Context(), thorough); !errors.Is(err, fault.ErrInjected) {
		t.Fatal(err)
	}
	before := h.r.size("packs/")
	noSpace := fault.Fail(&objectstore.Error{Op: "put", Key: "any", Err: objectstore.ErrNoSpace})
	h.r = h.r.reopen(fault.New(store, fault.On(fault.Put, "", noSpace)))
	_, err := h.r.Collect(t.Context(), thorough)
	if err != nil && !errors.Is(err, objectstore.ErrNoSpace) {
		t.Error(err)
	}
	if left := h.r.size("packs/"); left >= before {
		t.Errorf("%d bytes are left of %d", left, before)
	}
	h.r = h.r.reopen(store)
	h.r.collect(thorough)
	h.hold(h.ids[5])
}

// The copying stops at the deadline, and the next collection goes on.
func TestDeadlineStopsTheCopying(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 20 {
		h.save()
	}
	result := h.r.collect(engine.CollectOptions{MaxDuration: time.Nanosecond})
	if result.Stopped == nil || result.Copied != 0 {
		t.Errorf("%+v", result)
	}
	h.hold(h.ids...)
	if result = h.r.collect(engine.CollectOptions{}); result.Stopped != nil || result.Copied == 0 {
		t.Errorf("%+v", result)
	}
	h.hold(h.ids...)
}

// A repository with a loss is not collected, and says which blob it is about.
func TestLossStopsTheCollection(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 3 {
		h.save()
	}
	h.r.forget(h.ids[0])
	remove(t, h.r.store, objects(t, h.r.store, "packs/")[0])
	before := objects(t, h.r.store, "packs/")
	if _, err := h.r.elsewhere().Collect(t.Context(), thorough); !errors.Is(err, gc.ErrLost) || !strings.Contains(err.Error(), "blob") {
		t.Errorf("got %v", err)
	}
	if !slices.Equal(before, objects(t, h.r.store, "packs/")) {
		t.Error("packs were deleted all the same")
	}
}

// A plan changes nothing.
func TestPlanChangesNothing(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 4 {
		h.save()
	}
	h.r.forget(h.ids[:3]...)
	before := objects(t, h.r.store, "")
	plan, err := h.r.PlanCollection(t.Context(), thorough)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Empty() || plan.Freed <= 0 {
		t.Errorf("empty plan: %+v", plan.Plan)
	}
	if err := plan.Close(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(before, objects(t, h.r.store, "")) {
		t.Error("the plan changed something")
	}
}

// mostHistories bounds what TestHistoriesHold costs, with the race detector on.
const mostHistories = 12

// Whatever is saved, forked, forgotten and collected in whatever order, on machines
// that know more or less: what was not forgotten is there.
func TestHistoriesHold(t *testing.T) {
	histories := 0
	rapid.Check(t, func(rt *rapid.T) {
		if histories++; histories > mostHistories { // each takes about a second
			return
		}
		h := newHistory(t, mem.New())
		kept := map[engine.ID]bool{}
		pick := func(name string) engine.ID {
			ids := make([]engine.ID, 0, len(kept))
			for _, id := range h.ids {
				if kept[id] {
					ids = append(ids, id)
				}
			}
			if len(ids) == 0 {
				return engine.ID{}
			}
			return rapid.SampledFrom(ids).Draw(rt, name)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"save": func(*rapid.T) { kept[h.save()] = true },
			"fork": func(rt *rapid.T) {
				origin := pick("origin")
				if origin.IsZero() {
					return
				}
				fork, err := h.r.Fork(t.Context(), origin, engine.ForkOptions{Labels: map[string]string{"n": fmt.Sprint(len(h.ids))}})
				if err != nil {
					rt.Fatal(err)
				}
				h.ids = append(h.ids, fork.ID)
				h.looks[fork.ID] = h.looks[origin]
				kept[fork.ID] = true
			},
			"forget": func(*rapid.T) {
				if id := pick("forgotten"); !id.IsZero() {
					h.r.forget(id)
					delete(kept, id)
				}
			},
			"collect": func(rt *rapid.T) {
				opts := thorough
				opts.MaxUnused = rapid.SampledFrom([]float64{-1, 0.05, 0.5, 1}).Draw(rt, "unused")
				h.r.collect(opts)
			},
			"move": func(*rapid.T) { h.r = h.r.elsewhere() },
		})
		h.r.collect(thorough)
		var ids []engine.ID
		for id := range kept {
			ids = append(ids, id)
		}
		h.hold(ids...)
	})
}

// A second collection reads the tree nodes that are new since the first.
func TestSecondCollectionReadsWhatIsNew(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 10 {
		h.save()
	}
	counted := fault.New(h.r.store)
	reads := func() int {
		h.r = h.r.reopen(counted)
		before := counted.Calls()
		h.r.collect(engine.CollectOptions{MaxUnused: 1})
		return counted.Calls() - before
	}
	first := reads()
	if again := reads(); again*2 > first {
		t.Errorf("the first collection made %d calls, one with nothing new %d", first, again)
	}
	h.r = h.r.reopen(h.r.store)
	h.save()
	if again := reads(); again*2 > first {
		t.Errorf("the first collection made %d calls, one after one more snapshot %d", first, again)
	}
	h.r.forget(h.ids[:9]...)
	h.r.collect(thorough)
	h.hold(h.ids[9:]...)
}

// A repository that was never collected and is full to the last byte gets room: by
// forgetting, and a collection.
func TestFullStoreForgetsAndShrinks(t *testing.T) {
	full := &quota{Store: mem.New(), limit: 1 << 40}
	h := newHistory(t, full)
	for range 8 {
		h.save()
	}
	full.limit = used(t, full)
	plan, err := h.r.PlanForget(t.Context(), engine.ForgetOptions{Snapshots: h.ids[:6]})
	if err == nil {
		_, err = h.r.Forget(t.Context(), plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := h.r.size("packs/")
	h.r.collect(thorough)
	if left := h.r.size("packs/"); left > before/2 {
		t.Errorf("%d bytes are left of %d", left, before)
	}
	h.hold(h.ids[6:]...)
	h.save()
}
