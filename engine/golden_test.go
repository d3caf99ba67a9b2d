package engine_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

var update = flag.Bool("update", false, "write the golden repository anew; only for a new format version")

// The golden repositories, one of each format version, stay readable for ever.
var golden = []string{"v0"}

// TestGoldenRepositories opens repositories that older programs wrote, verifies
// every byte, and restores what they hold.
func TestGoldenRepositories(t *testing.T) {
	for _, version := range golden {
		t.Run(version, func(t *testing.T) {
			dir := filepath.Join("testdata", "golden", version)
			if *update {
				writeGolden(t, dir)
			}
			copied := filepath.Join(t.TempDir(), "repo")
			if err := os.CopyFS(copied, os.DirFS(filepath.Join(dir, "repo"))); err != nil {
				t.Fatal(err)
			}
			r := openGolden(t, copied)
			r.clean()
			infos, err := r.List(t.Context(), engine.Filter{})
			if err != nil || len(infos) != 2 {
				t.Fatalf("%d snapshots, %v", len(infos), err)
			}
			for i, name := range []string{"first", "second"} {
				want, err := os.ReadFile(filepath.Join(dir, name+".txt"))
				if err != nil {
					t.Fatal(err)
				}
				got := describe(t, r.restore(infos[i].ID))
				same(t, strings.Split(strings.TrimSuffix(string(want), "\n"), "\n"), got)
			}
			if labels := infos[1].Labels; labels["kept"] != "yes" || labels["added"] != "later" || labels["removed"] != "" {
				t.Errorf("labels %v", labels)
			}
			for _, object := range []string{"gc/0000000001/condemned", "gc/0000000001/final", "verified", "remotes/elsewhere"} {
				read(t, r.store, object)
			}
			if remotes, err := r.Remotes(t.Context()); err != nil || len(remotes) != 1 || remotes[0].Place != "/elsewhere" {
				t.Errorf("remotes %v, %v", remotes, err)
			}
			forgotten, err := r.Forgotten(t.Context())
			if err != nil || len(forgotten) != 1 {
				t.Fatalf("%d forgotten snapshots, %v", len(forgotten), err)
			}
			if _, err := r.UndoForget(t.Context(), forgotten[0].ID); err != nil {
				t.Fatal(err)
			}
			r.restore(forgotten[0].ID)
			// What an old program wrote, a new one goes on with.
			if again := r.snapshot(r.restore(infos[1].ID)); again.Root != infos[1].Manifest.Root || again.NewBlobs != 0 {
				t.Errorf("the restored tree has root %v and %d new blobs, want %v and none", again.Root, again.NewBlobs, infos[1].Manifest.Root)
			}
		})
	}
}

func openGolden(t *testing.T, dir string) *testRepo {
	t.Helper()
	store, err := file.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return (&testRepo{t: t, state: t.TempDir()}).open(store)
}

// writeGolden makes a repository that uses every feature of the format.
func writeGolden(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	store, err := file.Create(filepath.Join(dir, "repo"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	state := t.TempDir()
	repo, err := engine.Init(t.Context(), store, engine.InitOptions{
		OpenOptions: engine.OpenOptions{StateDir: state, Tool: "golden"}, Holders: []keyring.Holder{keyring.NewPlain()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	workspace := workspace(t)
	var large strings.Builder // cut into chunks, but small once it is compressed
	for i := range 60_000 {
		fmt.Fprintf(&large, "line %d of a large file\n", i*7919)
	}
	write(t, workspace, map[string]string{"large.bin": large.String()})
	var ids []engine.ID
	for _, name := range []string{"first", "second"} {
		write(t, workspace, map[string]string{"changes": name, ".snapignore": "*.log\n", "left.log": "out"})
		result, err := repo.Snapshot(t.Context(), engine.SnapshotOptions{
			Path: workspace, Source: "host:/workspace", Labels: map[string]string{"kept": "yes", "removed": "soon"},
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, result.Snapshot)
		lines := slices.DeleteFunc(describe(t, workspace), func(line string) bool { return strings.HasPrefix(line, `"left.log"`) })
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := repo.Label(t.Context(), ids[1], map[string]string{"added": "later"}, []string{"removed"}); err != nil {
		t.Fatal(err)
	}
	if err := repo.SetRemote(t.Context(), engine.Remote{Name: "elsewhere", Place: "/elsewhere"}); err != nil {
		t.Fatal(err)
	}
	// Of two that are forgotten, a collection has taken one; the other can be had back.
	r := (&testRepo{t: t, state: t.TempDir()}).open(store)
	for _, name := range []string{"collected", "forgotten"} {
		write(t, workspace, map[string]string{"changes": name})
		r.forget(r.snapshot(workspace).Snapshot)
		if name == "collected" {
			r.collect(thorough)
		}
	}
	r.clean()
	for _, name := range []string{"reserve", ".lock"} { // no part of the format
		if err := os.Remove(filepath.Join(dir, "repo", name)); err != nil {
			t.Fatal(err)
		}
	}
}
