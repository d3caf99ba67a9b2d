package engine_test

import (
	"errors"
	"hash/crc64"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func checksum(b []byte) uint64 { return crc64.Checksum(b, crc64.MakeTable(crc64.ECMA)) }

func TestAWorkspaceComesBack(t *testing.T) {
	r := newRepo(t)
	dir := workspace(t)
	before := describe(t, dir)
	saved := r.snapshot(dir)
	if saved.Counts.Symlinks != 2 || saved.Counts.Others != 1 || saved.NewBlobs == 0 || saved.Unchanged {
		t.Errorf("result %+v", saved)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	restored := r.elsewhere().restore(saved.Snapshot)
	same(t, before, describe(t, restored))
	again := r.snapshot(restored)
	if again.Root != saved.Root {
		t.Errorf("a snapshot of the restored copy has root %v, want %v", again.Root, saved.Root)
	}
	if again.NewBlobs != 0 || again.NewPacks != 0 {
		t.Errorf("the restored copy stored %d blobs in %d packs", again.NewBlobs, again.NewPacks)
	}
	r.clean()
}

func TestNothingChanged(t *testing.T) {
	counted := fault.New(mem.New())
	r := initRepo(t, counted)
	dir := workspace(t)
	first := r.snapshot(dir)
	puts := counted.Counts("")[fault.Put]
	second := r.snapshot(dir)
	if !second.Unchanged || second.Snapshot == first.Snapshot || second.Root != first.Root || second.Parent != first.Snapshot {
		t.Errorf("second snapshot %+v", second)
	}
	if got := counted.Counts("")[fault.Put] - puts; got != 2 {
		t.Errorf("%d objects put, want a pending object and a snapshot", got)
	}
	puts = counted.Counts("")[fault.Put]
	third, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: dir, SkipUnchanged: true})
	if err != nil || !third.Skipped || third.Snapshot != second.Snapshot {
		t.Errorf("skip unchanged: %+v, %v", third, err)
	}
	if got := counted.Counts("")[fault.Put] - puts; got != 0 {
		t.Errorf("%d objects put although nothing changed", got)
	}
}

func TestSmallChangeStoresLittle(t *testing.T) {
	r := newRepo(t)
	dir := workspace(t)
	first := r.snapshot(dir)
	write(t, dir, map[string]string{"many/file007": "changed"})
	second := r.snapshot(dir)
	// The file, its directory and the root directory; all in one mixed pack.
	if second.NewBlobs > 4 || second.NewPacks != 1 || second.Parent != first.Snapshot {
		t.Errorf("second snapshot %+v", second)
	}
	same(t, describe(t, dir), describe(t, r.elsewhere().restore(second.Snapshot)))
}

func TestForkIsMetadataOnly(t *testing.T) {
	counted := fault.New(mem.New())
	r := initRepo(t, counted)
	saved := r.snapshot(workspace(t))
	packs := counted.Counts("packs/")
	fork, err := r.Fork(t.Context(), saved.Snapshot, engine.ForkOptions{Labels: map[string]string{"branch": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if fork.Manifest.Root != saved.Root || fork.Manifest.Parent != saved.Snapshot || fork.Labels["branch"] != "x" {
		t.Errorf("fork %+v", fork)
	}
	if now := counted.Counts("packs/"); now[fault.Put] != packs[fault.Put] || now[fault.Get] != packs[fault.Get] {
		t.Errorf("packs were touched: %v, before %v", now, packs)
	}
	same(t, describe(t, r.restore(saved.Snapshot)), describe(t, r.restore(fork.ID)))
}

func TestResolve(t *testing.T) {
	r := newRepo(t)
	dir := workspace(t)
	first, second := r.snapshot(dir), r.snapshot(dir)
	for _, tc := range []struct {
		name   string
		filter engine.Filter
		want   engine.ID
		err    error
	}{
		{name: first.Snapshot.String(), want: first.Snapshot},
		{name: first.Snapshot.String()[:12], want: first.Snapshot},
		{name: "latest", want: second.Snapshot},
		{name: "latest", filter: engine.Filter{Source: "/elsewhere"}, err: engine.ErrNotFound},
		{name: "abc", err: engine.ErrNotFound},
		{name: "xyzxyz", err: engine.ErrNotFound},
		{name: "../../", err: engine.ErrNotFound},
	} {
		id, err := r.Resolve(t.Context(), tc.name, tc.filter)
		if id != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("Resolve(%q) = %v, %v; want %v, %v", tc.name, id, err, tc.want, tc.err)
		}
	}
}

func TestManifestTimesFollowParentage(t *testing.T) {
	r := newRepo(t)
	dir := workspace(t)
	first := r.snapshot(dir)
	info, err := r.Show(t.Context(), first.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	slow := r.options()
	slow.Now = func() time.Time { return info.Manifest.Time.Time().Add(-26 * time.Hour) }
	r.close()
	behind, err := engine.Open(t.Context(), r.store, slow)
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close()
	second, err := behind.Snapshot(t.Context(), engine.SnapshotOptions{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	later, err := behind.Show(t.Context(), second.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if !later.Manifest.Time.Time().After(info.Manifest.Time.Time()) {
		t.Errorf("child at %v, parent at %v", later.Manifest.Time.Time(), info.Manifest.Time.Time())
	}
}

func TestDiffNamesWhatChanged(t *testing.T) {
	r := newRepo(t)
	dir := workspace(t)
	a := r.snapshot(dir)
	for _, err := range []error{
		os.Remove(filepath.Join(dir, "empty")),
		os.Chmod(filepath.Join(dir, "many/file001"), 0o600),
		os.Remove(filepath.Join(dir, "fifo")),
		os.Mkdir(filepath.Join(dir, "fifo"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, map[string]string{"many/file002": "new", "added/x": "x"})
	want := []string{
		"added added", "added added/x", "removed empty", "changed fifo type",
		"changed many/file001 mode", "changed many/file002 content",
	}
	collect := func(into *[]string) func(engine.Change) error {
		return func(c engine.Change) error {
			line := string(c.Action) + " " + c.Path
			for _, name := range c.Aspects.Names() {
				if name != "time" {
					line += " " + name
				}
			}
			*into = append(*into, line)
			return nil
		}
	}
	var onDisk, stored []string
	stats, err := r.DiffDir(t.Context(), a.Snapshot, engine.SnapshotOptions{Path: dir}, engine.DiffOptions{}, collect(&onDisk))
	if err != nil || !slices.Equal(onDisk, want) {
		t.Errorf("with a directory: %q, %v; want %q", onDisk, err, want)
	}
	if stats.Added != 2 || stats.Removed != 1 || stats.Changed != 3 || stats.SkippedTrees == 0 {
		t.Errorf("stats %+v", stats)
	}
	b := r.snapshot(dir)
	if _, err := r.Diff(t.Context(), a.Snapshot, b.Snapshot, engine.DiffOptions{}, collect(&stored)); err != nil || !slices.Equal(stored, want) {
		t.Errorf("with a snapshot: %q, %v; want %q", stored, err, want)
	}
	var below []string
	if _, err := r.Diff(t.Context(), a.Snapshot, b.Snapshot, engine.DiffOptions{Path: "added"}, collect(&below)); err != nil || !slices.Equal(below, want[:2]) {
		t.Errorf("below a path: %q, %v", below, err)
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := engine.Open(t.Context(), mem.New(), engine.OpenOptions{}); !errors.Is(err, engine.ErrNoRepository) {
		t.Errorf("empty store: %v", err)
	}
	r := newRepo(t)
	if _, err := engine.Init(t.Context(), r.store, engine.InitOptions{Holders: []keyring.Holder{keyring.NewPlain()}}); !errors.Is(err, engine.ErrExists) {
		t.Errorf("second init: %v", err)
	}
	if _, err := engine.Open(t.Context(), r.store, engine.OpenOptions{}); !errors.Is(err, engine.ErrWrongKey) {
		t.Errorf("no credentials: %v", err)
	}
}

// Nobody makes another repository over the packs of one that lost its config.
func TestLostConfig(t *testing.T) {
	r := newRepo(t)
	r.snapshot(smallWorkspace(t))
	remove(t, r.store, "config")
	if _, err := engine.Open(t.Context(), r.store, r.options()); !errors.Is(err, engine.ErrNoRepository) || !errors.Is(err, engine.ErrConfigGone) {
		t.Errorf("open: %v", err)
	}
	before := objects(t, r.store, "")
	if _, err := engine.Init(t.Context(), r.store, engine.InitOptions{Holders: []keyring.Holder{keyring.NewPlain()}}); !errors.Is(err, engine.ErrConfigGone) {
		t.Errorf("init: %v", err)
	}
	if after := objects(t, r.store, ""); !slices.Equal(before, after) {
		t.Errorf("init changed %v to %v", before, after)
	}
}

func TestExcludedIsReported(t *testing.T) {
	r := newRepo(t)
	dir := t.TempDir()
	write(t, dir, map[string]string{"keep": "k", "cache/x": "x", "a.log": "l", ".snapignore": "*.log\n"})
	result, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: dir, Exclude: []string{"cache/"}})
	if err != nil {
		t.Fatal(err)
	}
	if result.Counts.Excluded != 2 || len(result.Omissions) != 2 || result.Omissions[0].Class != manifest.Excluded || result.Omissions[0].Reason == "" {
		t.Errorf("left out: %d, %+v", result.Counts.Excluded, result.Omissions)
	}
	restored := r.restore(result.Snapshot)
	for _, name := range []string{"cache", "a.log"} {
		if _, err := os.Lstat(filepath.Join(restored, name)); !isNotExist(err) {
			t.Errorf("%s was restored: %v", name, err)
		}
	}
}
