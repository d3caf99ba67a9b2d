package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// oracle knows a repository from its packs and snapshots alone, without an index.
type oracle struct {
	t       *testing.T
	weights map[blob.ID]engine.Weight
	trees   map[blob.ID][]byte
	reach   map[engine.ID]map[blob.ID]bool // of each snapshot
	infos   map[engine.ID]engine.Info
}

func newOracle(t *testing.T, r *testRepo) *oracle {
	o := &oracle{t: t, weights: map[blob.ID]engine.Weight{}, trees: map[blob.ID][]byte{}, reach: map[engine.ID]map[blob.ID]bool{}, infos: map[engine.ID]engine.Info{}}
	keys := keysOf(t, r.store)
	for _, key := range objects(t, r.store, "packs/") {
		o.readPack(keys, key, read(t, r.store, key))
	}
	infos, err := r.List(t.Context(), engine.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		o.infos[info.ID] = info
		o.reach[info.ID] = map[blob.ID]bool{}
		o.follow(o.reach[info.ID], info.Manifest.Root)
		o.follow(o.reach[info.ID], info.Manifest.Links)
	}
	return o
}

func (o *oracle) readPack(keys commit.Repo, key string, object []byte) {
	name, err := packfile.ParseName(strings.TrimPrefix(key, "packs/"))
	if err != nil {
		o.t.Fatal(err)
	}
	pack, err := packfile.ReadFooter(keys.Sealer, name, int64(len(object)), func(offset, length int64) ([]byte, error) {
		return bytes.Clone(object[offset : offset+length]), nil
	})
	if err != nil {
		o.t.Fatal(err)
	}
	for _, f := range pack.Frames {
		content, err := f.Open(nil, keys.Sealer, bytes.Clone(object[f.Offset:f.Offset+f.Length]))
		if err != nil {
			o.t.Fatal(err)
		}
		for _, b := range f.Blobs {
			plain := content[:b.Length]
			content = content[b.Length:]
			share := float64(f.Length) * float64(b.Length) / float64(f.ContentSize())
			o.weights[b.ID] = engine.Weight{Blobs: 1, Bytes: uint64(b.Length), Stored: uint64(share + 0.5)}
			if f.Kind == blob.Tree {
				o.trees[b.ID] = plain
			}
		}
	}
}

func (o *oracle) follow(into map[blob.ID]bool, id blob.ID) {
	if id.IsZero() || into[id] {
		return
	}
	into[id] = true
	trees, data, err := manifest.References(o.trees[id])
	if err != nil {
		o.t.Fatal(err)
	}
	for _, id := range data {
		into[id] = true
	}
	for _, id := range trees {
		o.follow(into, id)
	}
}

// union is what some snapshots reach.
func (o *oracle) union(ids []engine.ID) map[blob.ID]bool {
	all := map[blob.ID]bool{}
	for _, id := range ids {
		maps.Copy(all, o.reach[id])
	}
	return all
}

// weigh weighs the blobs of a set that are not in another one.
func (o *oracle) weigh(set, without map[blob.ID]bool) (w engine.Weight) {
	for id := range set {
		if !without[id] {
			w.Blobs, w.Bytes, w.Stored = w.Blobs+1, w.Bytes+o.weights[id].Bytes, w.Stored+o.weights[id].Stored
		}
	}
	return w
}

func (o *oracle) others(ids []engine.ID) []engine.ID {
	return slices.DeleteFunc(slices.Collect(maps.Keys(o.reach)), func(id engine.ID) bool { return slices.Contains(ids, id) })
}

func (o *oracle) logical(ids []engine.ID) (n uint64) {
	for _, id := range ids {
		n += o.infos[id].Manifest.Counts.Bytes
	}
	return n
}

// busyRepo holds snapshots of two workspaces that share files, over three days,
// and a fork.
func busyRepo(t *testing.T) *testRepo {
	r := newRepo(t)
	day := time.Date(2026, 1, 3, 9, 0, 0, 0, time.UTC)
	r.close()
	opts := r.options()
	opts.Now = func() time.Time { return day }
	repo, err := engine.Open(t.Context(), r.store, opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Repository = repo
	random := rand.New(rand.NewPCG(3, 4))
	dirs := []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")}
	for i := range 9 {
		dir := dirs[i%2]
		files := map[string]string{"shared/large": strings.Repeat("both have this\n", 3000), "shared/twice": strings.Repeat("both have this\n", 3000)}
		for range 3 {
			files[fmt.Sprintf("d%d/f%d", random.IntN(3), random.IntN(5))] = strings.Repeat(fmt.Sprint(random.IntN(6)), 400+100*random.IntN(3))
		}
		write(t, dir, files)
		labels := map[string]string{"team": fmt.Sprint(i % 3)}
		if i == 4 {
			labels = nil
		}
		saved, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: dir, Source: "/" + filepath.Base(dir), Labels: labels})
		if err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			if _, err := r.Fork(t.Context(), saved.Snapshot, engine.ForkOptions{Source: "/fork"}); err != nil {
				t.Fatal(err)
			}
		}
		if i%3 == 2 {
			day = day.AddDate(0, 0, 1)
		}
	}
	return r
}

func TestUsageCountsWhatIsReached(t *testing.T) {
	r := busyRepo(t)
	o := newOracle(t, r)
	for name, by := range map[string]func(engine.Info) string{
		"snapshot": func(info engine.Info) string { return info.ID.String() },
		"source":   func(info engine.Info) string { return info.Manifest.Source },
		"label":    func(info engine.Info) string { return info.Labels["team"] },
		"one":      func(engine.Info) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			members := map[string][]engine.ID{}
			for id, info := range o.infos {
				members[by(info)] = append(members[by(info)], id)
			}
			report, err := r.elsewhere().Usage(t.Context(), by)
			if err != nil || !report.Complete() {
				t.Fatalf("%+v, %v", report, err)
			}
			var unique engine.Weight
			for _, g := range report.Groups {
				ids := members[g.Name]
				set := o.union(ids)
				rest := o.union(o.others(ids))
				want := engine.Usage{Name: g.Name, Snapshots: len(ids), Logical: o.logical(ids), Total: o.weigh(set, nil), Unique: o.weigh(set, rest)}
				if g != want {
					t.Errorf("%q: %+v, want %+v", g.Name, g, want)
				}
				if sum := g.Unique.Stored + g.Shared().Stored; sum != g.Total.Stored {
					t.Errorf("%q: unique and shared are %d of %d", g.Name, sum, g.Total.Stored)
				}
				unique.Blobs, unique.Bytes, unique.Stored = unique.Blobs+g.Unique.Blobs, unique.Bytes+g.Unique.Bytes, unique.Stored+g.Unique.Stored
			}
			all := slices.Collect(maps.Keys(o.infos))
			want := engine.Usage{Snapshots: len(all), Logical: o.logical(all), Total: o.weigh(o.union(all), nil), Unique: unique}
			if report.Whole != want || len(report.Groups) != len(members) || report.Unreferenced != (engine.Weight{}) {
				t.Errorf("whole %+v, want %+v; %d groups; unreferenced %+v", report.Whole, want, len(report.Groups), report.Unreferenced)
			}
		})
	}
}

func TestWouldFreeIsWhatOnlyTheyReach(t *testing.T) {
	r := busyRepo(t)
	o := newOracle(t, r)
	all := sortedIDs(slices.Collect(maps.Keys(o.infos)))
	random := rand.New(rand.NewPCG(5, 6))
	for i := range 20 {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		ids := all[:i%(len(all)+1)]
		freed, err := r.WouldFree(t.Context(), ids...)
		if err != nil {
			t.Fatal(err)
		}
		if want := o.weigh(o.union(ids), o.union(o.others(ids))); freed.Weight != want || !freed.Complete() {
			t.Errorf("%d snapshots would free %+v, want %+v", len(ids), freed, want)
		}
	}
	if _, err := r.WouldFree(t.Context(), engine.ID{1}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// What forgetting would free is what a collection then frees, but for what packs
// and segments add.
func TestCollectionFreesWhatWasSaid(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 8 {
		h.save()
	}
	h.r.collect(thorough)
	plan := h.r.planForget(engine.ForgetOptions{Policy: keep(retention.Rules{Last: 2})})
	freed, err := h.r.WouldFree(t.Context(), plan.Goes()...)
	if err != nil {
		t.Fatal(err)
	}
	before := h.r.size("packs/")
	if _, err := h.r.Forget(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	usage, err := h.r.Usage(t.Context(), func(engine.Info) string { return "" })
	if err != nil || usage.Unreferenced != freed.Weight {
		t.Errorf("unreferenced %+v, want %+v, %v", usage.Unreferenced, freed.Weight, err)
	}
	h.r.collect(thorough)
	got := before - h.r.size("packs/")
	if diff := got - int64(freed.Stored); diff < 0 || diff > int64(freed.Stored)/10 {
		t.Errorf("%d bytes were freed, %d were expected", got, freed.Stored)
	}
}

func TestGrowthCountsEachBlobOnce(t *testing.T) {
	r := busyRepo(t)
	o := newOracle(t, r)
	for period, want := range map[retention.Period][]string{
		retention.Day: {"2026-01-03", "2026-01-04", "2026-01-05"}, retention.Week: {"2026-W01", "2026-W02"}, retention.Month: {"2026-01"},
	} {
		report, err := r.Growth(t.Context(), period)
		if err != nil || !report.Complete() {
			t.Fatal(err)
		}
		members := map[string][]engine.ID{}
		for id, info := range o.infos {
			name := period.Of(info.Manifest.Time.Time())
			members[name] = append(members[name], id)
		}
		var names []string
		var earlier []engine.ID
		for _, g := range report.Periods {
			names = append(names, g.Period)
			ids := members[g.Period]
			want := engine.Growth{Period: g.Period, Snapshots: len(ids), Logical: o.logical(ids), New: o.weigh(o.union(ids), o.union(earlier))}
			if g != want {
				t.Errorf("%+v, want %+v", g, want)
			}
			earlier = append(earlier, ids...)
		}
		if !slices.Equal(names, want) {
			t.Errorf("periods %q, want %q", names, want)
		}
	}
}

// Two machines that do not know of each other store the same: one copy counts.
func TestDuplicatesAreCountedApart(t *testing.T) {
	r := newRepo(t)
	dir := smallWorkspace(t)
	other := r.elsewhere()
	write(t, filepath.Dir(dir), map[string]string{"first/x": "x"})
	for _, r := range []*testRepo{r, other} { // both have read the index by now
		r.snapshot(filepath.Join(filepath.Dir(dir), "first"))
	}
	before, err := r.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := r.snapshot(dir)
	once, err := r.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := other.snapshot(dir)
	if first.NewBlobs == 0 || second.NewBlobs != first.NewBlobs {
		t.Fatalf("the second machine knew: %+v", second)
	}
	stats, err := r.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Blobs != once.Blobs || stats.UniqueBytes != once.UniqueBytes || once.Blobs != before.Blobs+first.NewBlobs {
		t.Errorf("blobs %d, before %d; bytes %d, before %d", stats.Blobs, once.Blobs, stats.UniqueBytes, once.UniqueBytes)
	}
	more := stats.Duplicates.Minus(once.Duplicates)
	if more.Blobs != first.NewBlobs || more.Bytes != first.NewBytes || more.Stored == 0 {
		t.Errorf("duplicates %+v, stored twice were %+v", more, first)
	}
	// A copy in a pack that a collection has condemned is none, whichever it is.
	keys := keysOf(t, r.store)
	for n, saved := range []*engine.SnapshotResult{first, second} {
		_, record, err := commit.Find(t.Context(), keys, saved.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		placeList(t, keys, n+1, "condemned", record.Packs...)
		again, err := r.Stats(t.Context())
		if err != nil || again.Blobs != stats.Blobs || again.Duplicates.Blobs != 0 || again.DeadPacks != uint64(len(record.Packs)) || again.DeadBytes == 0 {
			t.Errorf("stats %+v, before %+v, %v", again, stats, err)
		}
		placeList(t, keys, n+1, "final")
	}
}

func TestStatsNameWhatIsDamaged(t *testing.T) {
	h := newHistory(t, mem.New())
	a, b := h.save(), h.save()
	keys := keysOf(t, h.r.store)
	name := packfile.Name{7}
	if err := commit.MarkDamaged(t.Context(), keys, name); err != nil {
		t.Fatal(err)
	}
	key := objects(t, h.r.store, "snapshots/"+a.String())[0]
	object := read(t, h.r.store, key)
	object[len(object)/2] ^= 1
	put(t, h.r.store, key, object)
	stats, err := h.r.Stats(t.Context())
	if err != nil || !slices.Equal(stats.DamagedPacks, []packfile.Name{name}) || stats.Snapshots != 2 || len(stats.Unreadable) != 1 || stats.Unreadable[0].ID != a {
		t.Errorf("stats %+v, %v", stats, err)
	}
	usage, err := h.r.Usage(t.Context(), func(engine.Info) string { return "" })
	if err != nil || usage.Complete() || len(usage.Unreadable) != 1 || usage.Whole.Snapshots != 1 {
		t.Errorf("usage %+v, %v", usage, err)
	}
	// A pack that is gone takes trees with it, which are counted as missing.
	_, record, err := commit.Find(t.Context(), keys, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range record.Packs {
		remove(t, h.r.store, "packs/"+name.String())
	}
	usage, err = h.r.elsewhere().Usage(t.Context(), func(engine.Info) string { return "" })
	if err != nil || usage.Missing == 0 || usage.Complete() {
		t.Errorf("usage %+v, %v", usage, err)
	}
}

// Statistics are read-only, and stop when they are told to.
func TestStatsChangeNothing(t *testing.T) {
	r := busyRepo(t)
	before := objects(t, r.store, "")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ask := range map[string]func(context.Context) error{
		"stats": func(ctx context.Context) error { _, err := r.Stats(ctx); return err },
		"usage": func(ctx context.Context) error {
			_, err := r.Usage(ctx, func(engine.Info) string { return "" })
			return err
		},
		"growth": func(ctx context.Context) error { _, err := r.Growth(ctx, retention.Day); return err },
		"free":   func(ctx context.Context) error { _, err := r.WouldFree(ctx); return err },
	} {
		if err := ask(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := ask(cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: after the end: %v", name, err)
		}
	}
	if after := objects(t, r.store, ""); !slices.Equal(before, after) {
		t.Errorf("objects %v, before %v", after, before)
	}
}
