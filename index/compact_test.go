package index

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"pgregory.net/rapid"
)

func TestPlanCompaction(t *testing.T) {
	sized := func(sizes ...int64) []SegmentInfo {
		var s []SegmentInfo
		for i, size := range sizes {
			s = append(s, SegmentInfo{Name: SegmentName(testID(i)), Size: size})
		}
		return s
	}
	seven := []int64{500, 500, 500, 500, 500, 500, 500}
	for name, c := range map[string]struct {
		sizes  []int64
		groups []int // their lengths
	}{
		"nothing":           {nil, nil},
		"few":               {seven, nil},
		"a tier is full":    {append(slices.Clone(seven), 500), []int{8}},
		"two tiers are not": {append(slices.Clone(seven), 2000, 2000), nil},
		"a merge fills the next tier": {
			append(slices.Clone(seven), 500, 4000, 4000, 4000, 4000, 4000, 4000, 4000), []int{15}},
		"full segments stay": {slices.Repeat([]int64{fullSegment}, 20), nil},
		"large groups are cut": {
			slices.Repeat([]int64{5 << 20}, 10), []int{3, 3, 3}},
	} {
		var got []int
		for _, g := range PlanCompaction(sized(c.sizes...)).Groups {
			got = append(got, len(g))
		}
		if !slices.Equal(got, c.groups) {
			t.Errorf("%s: groups of %v, want %v", name, got, c.groups)
		}
	}
}

func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var segments []SegmentInfo
		for i, size := range rapid.SliceOfN(rapid.Int64Range(60, maxSegment+100), 0, 200).Draw(t, "sizes") {
			segments = append(segments, SegmentInfo{Name: SegmentName(testID(i)), Size: size})
		}
		for _, plan := range []Plan{PlanCompaction(segments), PlanRewrite(segments)} {
			seen := map[SegmentName]bool{}
			for _, g := range plan.Groups {
				if len(g) > 1 && totalSize(g) > maxSegment {
					t.Fatalf("group of %d bytes", totalSize(g))
				}
				for _, s := range g {
					if seen[s.Name] {
						t.Fatal("a segment is in two groups")
					}
					seen[s.Name] = true
				}
			}
		}
		if rewritten := slices.Concat(PlanRewrite(segments).Groups...); len(rewritten) != len(segments) {
			t.Fatalf("PlanRewrite covers %d of %d segments", len(rewritten), len(segments))
		}
	})
}

// Ten thousand tiny snapshots, with a compaction after each, leave few segments,
// and each byte is rewritten a few times only.
func TestCompactionStaysLogarithmic(t *testing.T) {
	store := mem.New()
	ctx := t.Context()
	var live []SegmentInfo // what a DB would know
	var appended, written int64
	most, fullest := 0, 0
	const n = 10_000
	for i := range n {
		infos := writeSegments(t, store, testPack(i, i, i+1, i+2))
		live = append(live, infos...)
		appended += infos[0].Size
		done, err := PlanCompaction(live).Execute(ctx, store, testSealer, nil)
		check(t, err)
		written += totalSize(done.Written)
		live = append(live, done.Written...)
		live = slices.DeleteFunc(live, func(s SegmentInfo) bool { return slices.Contains(done.Deleted, s.Name) })
		most = max(most, len(live))
		fullest = max(fullest, len(done.Deleted))
	}
	amplification := float64(written) / float64(appended)
	t.Logf("%d segments appended: at most %d live, %d at the end; write amplification %.2f; largest merge %d segments",
		n, most, len(live), amplification, fullest)
	if most > 6*(fanout-1) {
		t.Errorf("%d live segments", most)
	}
	if amplification > 6 {
		t.Errorf("write amplification %.2f", amplification)
	}
	if keys := keysOf(t, store, Prefix); len(keys) != len(live) {
		t.Errorf("%d segments in the store, %d known", len(keys), len(live))
	}
	db := newDB(t)
	if stats := syncDB(t, db, store); stats.PacksAdded != n {
		t.Errorf("%d packs, want %d", stats.PacksAdded, n)
	}
}

// named lists the packs that the segments in the store name.
func named(t testing.TB, store objectstore.Store) PackSet {
	t.Helper()
	set := PackSet{}
	segments, err := ListSegments(t.Context(), store)
	check(t, err)
	for _, s := range segments {
		packs, err := ReadSegment(t.Context(), store, testSealer, s.Name)
		check(t, err)
		for _, p := range packs {
			set[p.Name] = struct{}{}
		}
	}
	return set
}

func tinySegments(t testing.TB, n int) *mem.Store {
	store := mem.New()
	for i := range n {
		writeSegments(t, store, testPack(i, i))
	}
	return store
}

func compactOnce(t testing.TB, store objectstore.Store, dead PackSet) (Compacted, error) {
	segments, err := ListSegments(t.Context(), store)
	if err != nil {
		return Compacted{}, err
	}
	return PlanCompaction(segments).Execute(t.Context(), store, testSealer, dead)
}

// Whichever request is the last one before the process dies, whether it was
// carried out or not, every pack stays named, and the next compaction finishes
// the work.
func TestCompactionIsSafeToInterrupt(t *testing.T) {
	const n = 20
	for name, inject := range map[string]func(n int) fault.Injector{
		"not carried out": func(n int) fault.Injector { return fault.FailFrom(n, fault.ErrInjected) },
		"carried out": func(n int) fault.Injector {
			return func(op fault.Op) fault.Fault {
				switch {
				case op.N == n:
					return fault.LoseAck(fault.ErrInjected)
				case op.N > n:
					return fault.Fail(fault.ErrInjected)
				}
				return fault.Fault{}
			}
		},
	} {
		origin := tinySegments(t, n)
		for call := 1; ; call++ {
			store := origin.Clone()
			faulty := fault.New(store, inject(call))
			done, err := compactOnce(t, faulty, nil)
			if got := named(t, store); len(got) != n {
				t.Fatalf("%s, call %d: %d packs are named", name, call, len(got))
			}
			if faulty.Calls() < call {
				check(t, err)
				if len(done.Deleted) != n || len(keysOf(t, store, "")) != 1 {
					t.Errorf("%s: compaction of %d segments: %+v", name, n, done)
				}
				break
			}
			if !errors.Is(err, fault.ErrInjected) {
				t.Fatalf("%s, call %d: %v", name, call, err)
			}
			_, err = compactOnce(t, store, nil)
			check(t, err)
			db := newDB(t)
			if syncDB(t, db, store); db.Known().Packs != n {
				t.Fatalf("%s, call %d: %d packs after the next compaction", name, call, db.Known().Packs)
			}
		}
	}
}

// Two processes compact the same segments, the second one starting at every
// possible point within the first.
func TestCompactionsMayRace(t *testing.T) {
	const n = 10
	origin := tinySegments(t, n)
	for call := 1; ; call++ {
		store := origin.Clone()
		segments, err := ListSegments(t.Context(), store)
		check(t, err)
		plan := PlanCompaction(segments)
		first := fault.New(store, func(op fault.Op) fault.Fault {
			if op.N == call {
				_, err := plan.Execute(t.Context(), store, testSealer, nil)
				check(t, err)
			}
			return fault.Fault{}
		})
		_, err = plan.Execute(t.Context(), first, testSealer, nil)
		check(t, err)
		if got := named(t, store); len(got) != n {
			t.Fatalf("call %d: %d packs are named", call, len(got))
		}
		if first.Calls() < call {
			break
		}
	}
}

func TestCompactionDropsDeadPacks(t *testing.T) {
	store := tinySegments(t, 10)
	dead := PackSet{testName(3): {}, testName(4): {}}
	done, err := compactOnce(t, store, dead)
	check(t, err)
	if got := named(t, store); len(got) != 8 || got.Has(testName(3)) || got.Has(testName(4)) || done.Dropped != 2 {
		t.Errorf("named %v, %+v", got, done)
	}
	only := mem.New()
	writeSegments(t, only, testPack(3))
	segments, err := ListSegments(t.Context(), only)
	check(t, err)
	_, err = PlanRewrite(segments).Execute(t.Context(), only, testSealer, dead)
	check(t, err)
	if keys := keysOf(t, only, ""); len(keys) != 0 {
		t.Errorf("a segment of dead packs became %v", keys)
	}
}

func TestCompactionLeavesDamageAlone(t *testing.T) {
	store := tinySegments(t, 10)
	keys := keysOf(t, store, Prefix)
	_, err := store.Put(t.Context(), keys[0], bytes.NewReader([]byte("bad")), objectstore.PutOptions{})
	check(t, err)
	done, err := compactOnce(t, store, nil)
	check(t, err)
	if e := new(Error); len(done.Damaged) != 1 || !errors.As(done.Damaged[0], &e) || e.Object != keys[0] {
		t.Errorf("damaged: %v", done.Damaged)
	}
	left := keysOf(t, store, Prefix)
	if len(left) != 2 || !slices.Contains(left, keys[0]) {
		t.Errorf("left %v", left)
	}
}

func TestRewriteOfWhatIsThereDoesNothing(t *testing.T) {
	store := mem.New()
	infos := writeSegments(t, store, testPack(1, 1))
	faulty := fault.New(store)
	done, err := PlanRewrite(infos).Execute(t.Context(), faulty, testSealer, PackSet{testName(7): {}})
	check(t, err)
	if counts := faulty.Counts(""); counts[fault.Put]+counts[fault.Delete] != 0 || len(done.Written) != 0 {
		t.Errorf("%v, %+v", counts, done)
	}
}

func TestSegmentsNaming(t *testing.T) {
	store, db := mem.New(), newDB(t)
	a := writeSegments(t, store, testPack(1, 1), testPack(2, 2))[0]
	b := writeSegments(t, store, testPack(2, 2), testPack(3, 3))[0]
	syncDB(t, db, store)
	for pack, want := range map[int][]SegmentName{1: {a.Name}, 2: {a.Name, b.Name}, 3: {b.Name}, 4: nil} {
		got, err := db.SegmentsNaming(t.Context(), PackSet{testName(pack): {}, testName(99): {}})
		check(t, err)
		if len(got) != len(want) {
			t.Errorf("pack %d: %v, want %v", pack, got, want)
		}
		for _, s := range got {
			if !slices.Contains(want, s.Name) || s.Size == 0 {
				t.Errorf("pack %d: %+v, want one of %v", pack, s, want)
			}
		}
	}
}

// A DB that hears of a compaction by Segmented, or not at all, ends up the same.
func TestDBFollowsCompaction(t *testing.T) {
	for _, told := range []string{"told", "not told"} {
		store, db, want := mem.New(), newDB(t), locations{}
		for i := range 10 {
			p := testPack(i, i, i+1)
			check(t, db.AddPacks(t.Context(), p))
			check(t, db.Segmented(t.Context(), writeSegments(t, store, []packfile.Pack{p}...)...))
			want.add(p)
		}
		segments, err := db.Segments(t.Context())
		check(t, err)
		done, err := PlanCompaction(segments).Execute(t.Context(), store, testSealer, nil)
		check(t, err)
		loaded := 1
		if told == "told" {
			check(t, db.Segmented(t.Context(), done.Written...))
			loaded = 0
		}
		if stats := syncDB(t, db, store); stats.Loaded != loaded || stats.Forgotten != 10 || stats.PacksRemoved != 0 {
			t.Errorf("%s: %+v", told, stats)
		}
		agree(t, db, want)
	}
}
