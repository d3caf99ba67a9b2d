package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/gc"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func packsIn(t *testing.T, store objectstore.Store) (names []packfile.Name) {
	t.Helper()
	for _, key := range objects(t, store, "packs/") {
		name, err := packfile.ParseName(strings.TrimPrefix(key, "packs/"))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// largest is the largest pack: the one with the data.
func largest(t *testing.T, store objectstore.Store) (name packfile.Name) {
	t.Helper()
	size := int64(0)
	for _, pack := range packsIn(t, store) {
		info, err := store.Stat(t.Context(), "packs/"+pack.String())
		if err != nil {
			t.Fatal(err)
		}
		if info.Size > size {
			name, size = pack, info.Size
		}
	}
	return name
}

// bulky is a workspace whose data and trees lie in packs of their own.
func bulky(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "bulky")
	random := rand.NewChaCha8([32]byte{1})
	files := map[string]string{}
	for i := range 90 {
		content := make([]byte, 8<<10)
		random.Read(content)
		files[fmt.Sprintf("d%d/f%02d", i%9, i)] = string(content)
	}
	write(t, dir, files)
	return dir
}

// merger merges segments while the first listing of the index runs, which is then in
// two pages, and fails the listing of the index that failing says, counted from 1.
type merger struct {
	objectstore.Store
	t       *testing.T
	keys    commit.Repo
	merge   []string // keys of segments
	failing int
	n       int // listings of the index so far
}

func (s *merger) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	if prefix != index.Prefix {
		return s.Store.List(ctx, prefix, after)
	}
	s.n++
	if s.n == s.failing {
		return func(yield func(objectstore.Info, error) bool) {
			yield(objectstore.Info{}, &objectstore.Error{Op: "list", Key: prefix, Err: objectstore.ErrUnavailable})
		}
	}
	if s.n > 1 || len(s.merge) == 0 {
		return s.Store.List(ctx, prefix, after)
	}
	return func(yield func(objectstore.Info, error) bool) {
		var before []objectstore.Info
		for info, err := range s.Store.List(ctx, prefix, after) {
			if err != nil {
				s.t.Error(err)
			}
			before = append(before, info)
		}
		end := s.compact(ctx) // the last key of the first page
		for _, info := range before {
			if info.Key <= end && !yield(info, nil) {
				return
			}
		}
		for info, err := range s.Store.List(ctx, prefix, end) {
			if !yield(info, err) {
				return
			}
		}
	}
}

// compact merges the segments, as a compaction does, into one whose key is before
// theirs, and returns that.
func (s *merger) compact(ctx context.Context) string {
	var packs []packfile.Pack
	for _, key := range s.merge {
		name, err := index.ParseSegmentName(strings.TrimPrefix(key, index.Prefix))
		if err != nil {
			s.t.Error(err)
		}
		read, err := index.ReadSegment(ctx, s.Store, s.keys.Sealer, name)
		if err != nil {
			s.t.Error(err)
		}
		packs = append(packs, read...)
	}
	for {
		written, err := index.WriteSegments(ctx, s.Store, s.keys.Sealer, packs)
		if err != nil || len(written) != 1 {
			s.t.Error(written, err)
		}
		if key := written[0].Name.Key(); key < slices.Min(s.merge) {
			for _, old := range s.merge {
				remove(s.t, s.Store, old)
			}
			return key
		}
		remove(s.t, s.Store, written[0].Name.Key())
	}
}

// segmentsBut returns the keys of the segments that were not known.
func segmentsBut(t *testing.T, store objectstore.Store, known []string) []string {
	t.Helper()
	return slices.DeleteFunc(objects(t, store, "index/"), func(key string) bool { return slices.Contains(known, key) })
}

// An attempt needs a pack that a collector condemned, whose segment another collector
// missed or cannot read: that one must not settle that nobody needs it.
func TestCondemnedPackThatTheIndexLacks(t *testing.T) {
	for _, how := range []string{"nothing", "merged while listed", "rotted"} {
		t.Run(how, func(t *testing.T) {
			store := mem.New()
			first := initRepo(t, store)
			keys := keysOf(t, store)
			first = smallPacks(t, first, keys)
			dir := bulky(t)
			ids := []engine.ID{first.snapshot(dir).Snapshot}
			collector := first.elsewhere()
			collector.collect(engine.CollectOptions{MaxUnused: 1})
			known := objects(t, store, "index/")
			// The data pack is lost, and a check has said so: the next snapshot stores it again.
			data := largest(t, store)
			if err := commit.MarkDamaged(t.Context(), keys, data); err != nil {
				t.Fatal(err)
			}
			remove(t, store, "packs/"+data.String())
			m := &meddler{Store: store}
			writer := (&testRepo{t: t, store: m, state: t.TempDir()}).open(m)
			ids = append(ids, writer.snapshot(dir).Snapshot)
			again := segmentsBut(t, store, known)
			ids = append(ids, writer.snapshot(smallWorkspace(t)).Snapshot)
			writer.forget(ids...)

			late := &merger{Store: clocked{store, time.Now}, t: t, keys: keys}
			m.before = once("snapshots/", func(string) {
				// A collector that looked before this attempt began condemns, and dies.
				if _, err := commit.Condemn(t.Context(), keys, 0, packsIn(t, store)); err != nil {
					t.Error(err)
				}
				switch how {
				case "merged while listed":
					late.merge = segmentsBut(t, store, known)
				case "rotted":
					rot(t, store, again[0])
				}
				collector = collector.reopen(late)
				result, err := collector.Collect(t.Context(), engine.CollectOptions{MaxUnused: -1, UndoWindow: -1})
				t.Logf("%+v, %v", result, err)
			})
			saved := writer.snapshot(dir)
			m.before = nil
			whole := (&testRepo{t: t, store: store}).elsewhere()
			if how == "rotted" {
				if _, err := whole.RepairIndex(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			same(t, describe(t, dir), describe(t, whole.elsewhere().restore(saved.Snapshot)))
		})
	}
}

// What a rescue stored is named by the pending object, so that a collector which
// misses its segment looks again.
func TestRescuedNodesAreNotMissed(t *testing.T) {
	for _, how := range []string{"answered", "not answered"} {
		t.Run(how, func(t *testing.T) {
			store := mem.New()
			m := &meddler{Store: store}
			first := initRepo(t, m)
			keys := keysOf(t, store)
			writer := smallPacks(t, first, keys)
			dir := bulky(t)
			id := writer.snapshot(dir).Snapshot
			data := largest(t, store)
			nodes := slices.DeleteFunc(packsIn(t, store), func(pack packfile.Name) bool { return pack == data })
			collector := (&testRepo{t: t, store: store}).elsewhere()
			collector.collect(engine.CollectOptions{MaxUnused: 1})
			known := objects(t, store, "index/")
			writer.forget(id, writer.snapshot(smallWorkspace(t)).Snapshot)
			late := &merger{Store: clocked{store, time.Now}, t: t, keys: keys}
			m.after = once("pending/", func(string) { // by a collector that looked before the attempt
				placeList(t, keys, 1, "condemned", nodes...)
				placeList(t, keys, 1, "final", nodes...)
			})
			m.before = once("snapshots/", func(string) {
				for _, pack := range nodes {
					remove(t, store, "packs/"+pack.String())
				}
				placeList(t, keys, 2, "condemned", data)
				late.merge = segmentsBut(t, store, known)
				if how == "not answered" {
					late.failing = 2
				}
				collector = collector.reopen(late)
				result, err := collector.Collect(t.Context(), engine.CollectOptions{MaxUnused: -1, UndoWindow: -1})
				t.Logf("%+v, %v", result, err)
			})
			saved := writer.snapshot(dir)
			m.before = nil
			same(t, describe(t, dir), describe(t, (&testRepo{t: t, store: store}).elsewhere().restore(saved.Snapshot)))
		})
	}
}

// condemnedByADeadCollector is a repository whose only snapshot was forgotten, and all of
// whose packs are condemned, and a copy of its store at that moment.
func condemnedByADeadCollector(t *testing.T) (r *testRepo, dir string, back *mem.Store) {
	t.Helper()
	store := mem.New()
	r, dir = initRepo(t, store), smallWorkspace(t)
	r.forget(r.snapshot(dir).Snapshot)
	if _, err := commit.Condemn(t.Context(), keysOf(t, store), 0, packsIn(t, store)); err != nil {
		t.Fatal(err)
	}
	return r, dir, store.Clone()
}

// A store that is put back to a moment between a condemned and a final list is not the
// one that a collector knows, although the condemned list is the same.
func TestCollectorOfAStorePutBackBeforeAFinalList(t *testing.T) {
	a, dir, back := condemnedByADeadCollector(t)
	a.collect(thorough) // nobody wants it back
	a.collect(thorough) // keeps what it knows of the generation
	a.close()
	// Put back. Another machine settles it: the snapshot can still be had back.
	m := &meddler{Store: back}
	b := (&testRepo{t: t, store: m, state: t.TempDir()}).open(clocked{m, time.Now})
	b.collect(engine.CollectOptions{})
	m.before = once("snapshots/", func(string) {
		a = (&testRepo{t: t, store: back, state: a.state}).open(clocked{back, time.Now})
		t.Logf("%+v", a.collect(engine.CollectOptions{}))
	})
	saved := b.snapshot(dir)
	same(t, describe(t, dir), describe(t, b.elsewhere().restore(saved.Snapshot)))
}

// The same for what a writer knows.
func TestWriterOfAStorePutBackBeforeAFinalList(t *testing.T) {
	a, dir, back := condemnedByADeadCollector(t)
	a = a.reopen(clocked{a.store, time.Now})
	a.collect(engine.CollectOptions{}) // spares it for an undo
	a.snapshot(t.TempDir())            // keeps a view
	a.close()
	// Put back. Another machine settles it when the window for an undo is over.
	a = (&testRepo{t: t, store: back, state: a.state}).open(back)
	var saved engine.ID
	m := &meddler{Store: back, before: once("gc/0000000001/final", func(string) { saved = a.snapshot(dir).Snapshot })}
	b := (&testRepo{t: t, store: m, state: t.TempDir()}).open(m)
	b.collect(thorough)
	same(t, describe(t, dir), describe(t, (&testRepo{t: t, store: back}).elsewhere().restore(saved)))
}

// The same if only the final list is lost.
func TestLostFinalList(t *testing.T) {
	store := mem.New()
	a := initRepo(t, store)
	dir := smallWorkspace(t)
	a.forget(a.snapshot(dir).Snapshot)
	stuck := a.reopen(fault.New(store, fault.On(fault.Delete, "packs/", fault.Fail(fault.ErrInjected))))
	for range 2 {
		if _, err := stuck.Collect(t.Context(), thorough); !errors.Is(err, fault.ErrInjected) {
			t.Fatal(err)
		}
	}
	for _, key := range objects(t, store, "gc/") {
		if strings.HasSuffix(key, "/final") {
			remove(t, store, key)
		}
	}
	m := &meddler{Store: store}
	b := (&testRepo{t: t, store: m, state: t.TempDir()}).open(clocked{m, time.Now})
	b.collect(engine.CollectOptions{})
	m.before = once("snapshots/", func(string) {
		late := stuck.reopen(clocked{store, time.Now})
		t.Logf("%+v", late.collect(engine.CollectOptions{}))
	})
	saved := b.snapshot(dir)
	same(t, describe(t, dir), describe(t, b.elsewhere().restore(saved.Snapshot)))
}

// A snapshot that is taken back while a collection runs keeps its labels.
func TestUndoneSnapshotKeepsItsLabels(t *testing.T) {
	r := newRepo(t)
	dir := smallWorkspace(t)
	id := r.snapshot(dir).Snapshot
	if _, err := r.Label(t.Context(), id, map[string]string{"pin": "yes"}, nil); err != nil {
		t.Fatal(err)
	}
	r.forget(id)
	plan, err := r.PlanCollection(t.Context(), thorough)
	if err != nil {
		t.Fatal(err)
	}
	other := r.elsewhere()
	info, err := other.UndoForget(t.Context(), id)
	if err != nil || len(info.Labels) != 1 {
		t.Fatal(info.Labels, err)
	}
	_, err = plan.Execute(t.Context())
	if err := errors.Join(err, plan.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err = other.Show(t.Context(), id); err != nil || len(info.Labels) != 1 {
		t.Errorf("labels %v, %v", info.Labels, err)
	}
	same(t, describe(t, dir), describe(t, other.elsewhere().restore(id)))
}

// A pack whose segment rotted is not left over: what was forgotten may need it.
func TestRottedSegmentWithinTheUndoWindow(t *testing.T) {
	store := mem.New()
	r := initRepo(t, store)
	id := r.snapshot(smallWorkspace(t)).Snapshot
	r.forget(id)
	rot(t, store, objects(t, store, "index/")[0])
	// Without grace the pack is as one that is older than a day.
	result, err := (&testRepo{t: t, state: t.TempDir()}).open(clocked{store, time.Now}).Collect(t.Context(), engine.CollectOptions{Grace: -1})
	t.Logf("%+v, %v", result, err)
	other := r.elsewhere()
	if _, err := other.RepairIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.UndoForget(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestFailedPlanLeavesNoFileOpen(t *testing.T) {
	store := mem.New()
	r := initRepo(t, store)
	r.snapshot(smallWorkspace(t))
	r.collect(thorough) // remembers the mark
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r = r.reopen(&cancelling{store, cancel})
	open := func() (n int) {
		entries, _ := filepath.Glob("/proc/self/fd/*")
		for _, e := range entries {
			if to, err := filepath.EvalSymlinks(e); err == nil && filepath.Base(to) == "mark" {
				n++
			}
		}
		return n
	}
	before := open()
	if _, err := r.PlanCollection(ctx, engine.CollectOptions{}); err == nil {
		t.Fatal("it did not fail")
	}
	if after := open(); after != before {
		t.Errorf("%d files of the mark are open, %d before", after, before)
	}
}

// cancelling cancels when the packs were listed.
type cancelling struct {
	objectstore.Store
	cancel func()
}

func (s *cancelling) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		for info, err := range s.Store.List(ctx, prefix, after) {
			if !yield(info, err) {
				return
			}
		}
		if prefix == "packs/" {
			s.cancel()
		}
	}
}

// What an unreadable segment names may refer to packs that seem to be unused.
func TestRottedSegmentOfNodesWithinTheUndoWindow(t *testing.T) {
	store := mem.New()
	r := initRepo(t, store)
	dir := smallWorkspace(t)
	first := r.snapshot(dir).Snapshot
	segments := objects(t, store, "index/")
	write(t, dir, map[string]string{"b/second": "second"})
	second := r.snapshot(dir).Snapshot
	r.forget(first, second)
	remove(t, store, objects(t, store, "forgotten/"+first.String())[0]) // long ago
	rot(t, store, segmentsBut(t, store, segments)[0])
	other := (&testRepo{t: t, state: t.TempDir()}).open(clocked{store, time.Now})
	if _, err := other.Collect(t.Context(), engine.CollectOptions{Grace: -1}); !errors.Is(err, engine.ErrDamaged) || !strings.Contains(err.Error(), "repair index") {
		t.Errorf("collected: %v", err)
	}
	other = r.elsewhere()
	if _, err := other.RepairIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.UndoForget(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	same(t, describe(t, dir), describe(t, other.elsewhere().restore(second)))
}

// The record that a forget which died has kept may become the only one of a snapshot.
func TestOnlyTheKeptRecordCanBeRead(t *testing.T) {
	store := mem.New()
	r := initRepo(t, store)
	keys := keysOf(t, store)
	dir := smallWorkspace(t)
	id := r.snapshot(dir).Snapshot
	ref, _, err := commit.Find(t.Context(), keys, id)
	if err != nil {
		t.Fatal(err)
	}
	dies := keys
	dies.Store = fault.New(store, fault.On(fault.Put, "snapshots/", fault.Fail(fault.ErrInjected)))
	if err := commit.Forget(t.Context(), dies, ref); !errors.Is(err, fault.ErrInjected) {
		t.Fatal(err)
	}
	rot(t, store, ref.Key())
	for range 2 {
		r.elsewhere().collect(thorough)
	}
	remove(t, store, ref.Key())
	other := r.elsewhere()
	if _, err := other.UndoForget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	same(t, describe(t, dir), describe(t, other.elsewhere().restore(id)))
}

// A snapshot that the store does not hand out hides no other.
func TestListWithoutWhatTheStoreRefuses(t *testing.T) {
	store := mem.New()
	r := initRepo(t, store)
	dir := smallWorkspace(t)
	first := r.snapshot(dir).Snapshot
	r.snapshot(dir)
	other := (&testRepo{t: t, state: t.TempDir()}).open(fault.New(store, fault.On(fault.Get, "snapshots/"+first.String(), fault.Fail(fault.ErrInjected))))
	infos, err := other.List(t.Context(), engine.Filter{})
	if len(infos) != 1 || !errors.Is(err, fault.ErrInjected) {
		t.Errorf("list: %v, %+v", err, infos)
	}
	if _, err := other.Stats(t.Context()); !errors.Is(err, fault.ErrInjected) {
		t.Errorf("stats: %v", err)
	}
}

// A machine remembers what it marked while a kept record stood in for a damaged one. Then
// that is given up, and another machine collects it.
func TestMarkOfAStandInIsNotKept(t *testing.T) {
	r := newRepo(t)
	keys := keysOf(t, r.store)
	dir := smallWorkspace(t)
	r.snapshot(dir)
	write(t, dir, map[string]string{"b/second": "second"})
	id := r.snapshot(dir).Snapshot
	ref, _, err := commit.Find(t.Context(), keys, id)
	if err != nil {
		t.Fatal(err)
	}
	dies := keys
	dies.Store = fault.New(r.store, fault.On(fault.Put, "snapshots/", fault.Fail(fault.ErrInjected)))
	if err := commit.Forget(t.Context(), dies, ref); !errors.Is(err, fault.ErrInjected) {
		t.Fatal(err)
	}
	rot(t, r.store, ref.Key())
	r.collect(thorough)
	if files, err := filepath.Glob(filepath.Join(r.state, "*", "mark")); err != nil || len(files) > 0 {
		t.Errorf("remembered %v, %v", files, err)
	}
	other := r.elsewhere()
	plan, err := other.PlanRepairSnapshots(t.Context(), engine.RepairSnapshotsOptions{ForgetDamaged: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.RepairSnapshots(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	other.collect(thorough)
	other.collect(thorough)
	r = r.reopen(r.store)
	if _, err := r.Collect(t.Context(), thorough); err != nil {
		t.Error(err)
	}
	r.elsewhere().clean()
}

// Of a pack with the nodes of an attempt, nobody knows what it holds: its segment is lost,
// and its footer has rotted. An old attempt is ended first, so that collections need not
// wait for it. If it is published in that moment, or begins later, they stop, and have
// freed nothing that it needs.
func TestOldAttemptWithAPackNobodyKnows(t *testing.T) {
	store := mem.New()
	m := &meddler{Store: store}
	writer := smallPacks(t, initRepo(t, m), keysOf(t, store))
	dir := bulky(t)
	kept := writer.snapshot(smallWorkspace(t)).Snapshot
	writer.forget(writer.snapshot(dir).Snapshot) // nothing but the attempt needs its data now
	without := store.Clone()
	known, packs := objects(t, store, "index/"), objects(t, store, "packs/")
	write(t, dir, map[string]string{"b/second": "second"})
	var with *mem.Store
	m.before = once("snapshots/", func(string) { with = store.Clone() })
	published := writer.snapshot(dir).Snapshot
	ref, _, err := commit.Find(t.Context(), keysOf(t, store), published)
	if err != nil {
		t.Fatal(err)
	}
	segments := segmentsBut(t, with, known)
	for _, key := range segments {
		remove(t, with, key)
	}
	for _, key := range objects(t, with, "packs/") {
		if !slices.Contains(packs, key) {
			put(t, with, key, flip("footer", func(size int) int { return size - 40 }).do(read(t, with, key)))
		}
	}
	publish := func(to objectstore.Store) { put(t, to, ref.Key(), read(t, store, ref.Key())) }
	prove := func(t *testing.T, late objectstore.Store) {
		for _, key := range segments { // they turn up again
			put(t, late, key, read(t, store, key))
		}
		same(t, describe(t, dir), describe(t, (&testRepo{t: t, store: late}).elsewhere().restore(published)))
	}

	t.Run("young", func(t *testing.T) {
		r := (&testRepo{t: t, store: clocked{with.Clone(), time.Now}}).elsewhere()
		if _, err := r.Collect(t.Context(), engine.CollectOptions{UndoWindow: -1}); !errors.Is(err, gc.ErrChanging) {
			t.Error(err)
		}
	})
	t.Run("dead", func(t *testing.T) {
		r := (&testRepo{t: t, store: with.Clone()}).elsewhere()
		if result := r.collect(thorough); result.Expired != 1 || result.Deleted == 0 {
			t.Errorf("%+v", result)
		}
		r.elsewhere().clean()
		r.elsewhere().restore(kept)
	})
	t.Run("published", func(t *testing.T) {
		late := with.Clone()
		keys := keysOf(t, late)
		if _, err := commit.Condemn(t.Context(), keys, 0, packsIn(t, without)); err != nil { // by a collector that died
			t.Fatal(err)
		}
		m := &meddler{Store: late}
		m.before = once("snapshots/", func(string) { publish(late) })
		r := (&testRepo{t: t, store: m}).elsewhere()
		if result, err := r.Collect(t.Context(), thorough); !errors.Is(err, gc.ErrLost) {
			t.Errorf("%+v, %v", result, err)
		}
		prove(t, late)
	})
	t.Run("begun later", func(t *testing.T) {
		late := without.Clone()
		m := &meddler{Store: late}
		m.before = once("gc/", func(string) {
			for _, key := range objects(t, with, "") {
				if !slices.Contains(objects(t, late, ""), key) {
					put(t, late, key, read(t, with, key))
				}
			}
		})
		r := (&testRepo{t: t, store: m}).elsewhere()
		if result, err := r.Collect(t.Context(), thorough); !errors.Is(err, gc.ErrChanging) {
			t.Errorf("%+v, %v", result, err)
		}
		publish(late)
		prove(t, late)
	})
}

// The same with a segment that is lost, which shows nowhere.
func TestLostSegmentWithinTheUndoWindow(t *testing.T) {
	store := mem.New()
	r := initRepo(t, store)
	id := r.snapshot(smallWorkspace(t)).Snapshot
	r.forget(id)
	for _, key := range objects(t, store, "index/") {
		remove(t, store, key)
	}
	result, err := (&testRepo{t: t, state: t.TempDir()}).open(clocked{store, time.Now}).Collect(t.Context(), engine.CollectOptions{Grace: -1})
	if err != nil || result.Deleted > 0 {
		t.Errorf("%+v, %v", result, err)
	}
	other := r.elsewhere()
	if _, err := other.RepairIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.UndoForget(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// What a forgotten snapshot needs is not known while its record cannot be read: nothing is
// freed within the window of the undo, unless another record tells.
func TestRottedForgottenRecordWithinTheUndoWindow(t *testing.T) {
	store := mem.New()
	r := initRepo(t, store)
	id := r.snapshot(smallWorkspace(t)).Snapshot
	r.forget(id)
	key := objects(t, store, "forgotten/")[0]
	record := read(t, store, key)
	rot(t, store, key)
	collector := (&testRepo{t: t, state: t.TempDir()}).open(clocked{store, time.Now})
	if result, err := collector.Collect(t.Context(), engine.CollectOptions{Grace: -1}); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("%+v, %v", result, err)
	}
	put(t, store, key, record)
	if _, err := r.elsewhere().UndoForget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	rot(t, store, key)
	collector.collect(engine.CollectOptions{Grace: -1}) // it is published
	r.elsewhere().restore(id)
	r.forget(id)
	collector.collect(engine.CollectOptions{Grace: -1}) // there is another record
	if _, err := r.elsewhere().UndoForget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	r.forget(id)
	if result := collector.collect(thorough); result.Deleted == 0 {
		t.Errorf("given up, and kept: %+v", result)
	}
}

// What is as short as a tombstone is none if it was sealed for another key, or was cut off:
// no collection takes what the snapshot needs.
func TestWhatOnlyLooksLikeATombstoneStopsCollections(t *testing.T) {
	for name, damage := range map[string]func(record, tombstone []byte) []byte{
		"another's tombstone": func(_, tombstone []byte) []byte { return tombstone },
		"a record cut off":    func(record, tombstone []byte) []byte { return record[:len(tombstone)] },
		"as long as an expired attempt's": func(record, tombstone []byte) []byte {
			return record[:len(tombstone)+1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			dir := smallWorkspace(t)
			gone := r.snapshot(dir).Snapshot
			write(t, dir, map[string]string{"b/second": strings.Repeat("second", 100)})
			there := r.snapshot(dir).Snapshot
			keyOf := func(id engine.ID) string { return objects(t, r.store, "snapshots/"+id.String()+"/")[0] }
			record := read(t, r.store, keyOf(there))
			r.forget(gone)
			put(t, r.store, keyOf(there), damage(slices.Clone(record), read(t, r.store, keyOf(gone))))
			if result, err := r.Collect(t.Context(), thorough); !errors.Is(err, engine.ErrDamaged) {
				t.Errorf("collected %+v, %v", result, err)
			}
			put(t, r.store, keyOf(there), record) // from a copy
			r.elsewhere().restore(there)
			r.collect(thorough)
			r.clean()
		})
	}
}

// The tombstone of a forgotten snapshot rotted. As long as its record is kept for an undo,
// collections go on and keep what it needs; repairs bury it anew.
func TestRottedTombstoneOfAnUndoableSnapshot(t *testing.T) {
	r := newRepo(t)
	dir := smallWorkspace(t)
	id := r.snapshot(dir).Snapshot
	write(t, dir, map[string]string{"b/second": strings.Repeat("second", 100)})
	other := r.snapshot(dir).Snapshot
	key := objects(t, r.store, "snapshots/"+id.String()+"/")[0]
	r.forget(id)
	rotted := read(t, r.store, key)
	rotted[40] ^= 1
	put(t, r.store, key, rotted)
	window := thorough
	window.UndoWindow = 250 * 365 * 24 * time.Hour // the store in memory dates what it keeps to 1970
	r.collect(window)
	if _, err := r.UndoForget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	r.forget(id)
	if err := r.repairAll(); err != nil {
		t.Fatal(err)
	}
	r.collect(thorough)
	r.elsewhere().restore(other)
	r.clean()
}
