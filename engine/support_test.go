package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// insecure opens repositories that tests make: what wraps the key is tested in
// package keyring.
var insecure = engine.Credentials{Insecure: true}

// testRepo is a repository in a store, with local state in a folder of its own.
type testRepo struct {
	*engine.Repository
	t     *testing.T
	store objectstore.Store
	state string
}

func initRepo(t *testing.T, store objectstore.Store) *testRepo {
	t.Helper()
	r := &testRepo{t: t, store: store, state: t.TempDir()}
	repo, err := engine.Init(t.Context(), store, engine.InitOptions{OpenOptions: r.options(), Holders: []keyring.Holder{keyring.NewPlain()}})
	if err != nil {
		t.Fatal(err)
	}
	r.Repository = repo
	t.Cleanup(r.close)
	return r
}

func newRepo(t *testing.T) *testRepo { return initRepo(t, mem.New()) }

func (r *testRepo) options() engine.OpenOptions {
	warning := func(w engine.Warning) { r.t.Logf("warning: %s %s: %v", w.Op, w.Object, w.Err) }
	return engine.OpenOptions{Credentials: insecure, StateDir: r.state, Tool: "test", Events: engine.Events{Warning: warning}}
}

func (r *testRepo) close() {
	if r.Repository == nil {
		return
	}
	if err := r.Repository.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
	r.Repository = nil
}

// reopen opens the repository again through another store, as another process
// would, with the same local state.
func (r *testRepo) reopen(store objectstore.Store) *testRepo {
	r.t.Helper()
	r.close()
	return r.open(store)
}

func (r *testRepo) open(store objectstore.Store) *testRepo {
	r.t.Helper()
	other := &testRepo{t: r.t, store: store, state: r.state}
	repo, err := engine.Open(r.t.Context(), store, other.options())
	if err != nil {
		r.t.Fatal(err)
	}
	other.Repository = repo
	r.t.Cleanup(other.close)
	return other
}

// elsewhere opens the repository as another machine would: without local state.
func (r *testRepo) elsewhere() *testRepo {
	r.t.Helper()
	other := &testRepo{t: r.t, store: r.store, state: r.t.TempDir()}
	return other.open(r.store)
}

func (r *testRepo) snapshot(dir string) *engine.SnapshotResult {
	r.t.Helper()
	result, err := r.Snapshot(r.t.Context(), engine.SnapshotOptions{Path: dir})
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

func (r *testRepo) restore(id engine.ID) string {
	r.t.Helper()
	target := filepath.Join(r.t.TempDir(), "restored")
	if _, err := r.Restore(r.t.Context(), id, engine.RestoreOptions{Target: target}); err != nil {
		r.t.Fatal(err)
	}
	return target
}

// clean fails the test if a check that reads everything finds anything that is
// not harmless.
func (r *testRepo) clean() *engine.CheckReport {
	r.t.Helper()
	report, err := r.Check(r.t.Context(), engine.CheckOptions{ReadData: 1})
	if err != nil {
		for _, p := range report.Problems {
			r.t.Logf("%s %s: %v %v", p.What, p.Object, p.Err, p.Affected)
		}
		r.t.Fatalf("check: %v", err)
	}
	return report
}

// write makes files below dir from a map of paths to contents.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[name]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// workspace makes a tree with one of everything.
func workspace(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	random := rand.New(rand.NewPCG(1, 2))
	large := make([]byte, 6<<20)
	for i := range large {
		large[i] = byte(random.Uint32())
	}
	files := map[string]string{"large.bin": string(large), "empty": "", "bin/run": "#!/bin/sh\n", "a/b/c/deep": "deep"}
	for i := range 300 {
		files[fmt.Sprintf("many/file%03d", i)] = strings.Repeat(fmt.Sprintf("line %d of a small file\n", i), i)
	}
	files["not utf-8 \xff"], files["a\nb"] = "odd", "newline"
	write(t, dir, files)
	for _, do := range []error{
		os.Mkdir(filepath.Join(dir, "emptydir"), 0o700),
		os.Chmod(filepath.Join(dir, "bin/run"), 0o755),
		os.Symlink("many/file001", filepath.Join(dir, "link")),
		os.Symlink("/nowhere", filepath.Join(dir, "dangling")),
		os.Link(filepath.Join(dir, "a/b/c/deep"), filepath.Join(dir, "hard")),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600),
		os.Truncate(filepath.Join(dir, "sparse"), 64<<20),
	} {
		if do != nil {
			t.Fatal(do)
		}
	}
	return dir
}

// describe lists a tree: what stat(2) says of each path, and its content.
func describe(t *testing.T, dir string) []string {
	t.Helper()
	var lines []string
	inodes := map[uint64]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		st := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%q %v %d:%d %v", rel, info.Mode(), st.Uid, st.Gid, info.ModTime().UnixNano())
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d bytes %x", len(content), checksum(content))
			if st.Nlink > 1 {
				if inodes[st.Ino] == "" {
					inodes[st.Ino] = rel
				}
				line += " = " + inodes[st.Ino]
			}
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(lines)
	return lines
}

// same fails the test if two trees differ.
func same(t *testing.T, want, got []string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("lost: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("added: %s", line)
		}
	}
}

// objects lists the keys of a store below a prefix.
func objects(t *testing.T, store objectstore.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for info, err := range store.List(context.Background(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
