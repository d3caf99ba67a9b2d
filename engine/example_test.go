package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

// A workspace is saved, destroyed, and brought back.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	workspace := filepath.Join(dir, "workspace")
	check(os.MkdirAll(workspace, 0o755))
	check(os.WriteFile(filepath.Join(workspace, "notes.txt"), []byte("remember"), 0o644))

	store, err := file.Create(filepath.Join(dir, "repository"))
	check(err)
	defer store.Close()
	holder, err := keyring.NewPassphrase("correct horse battery staple")
	check(err)
	repo, err := engine.Init(ctx, store, engine.InitOptions{
		OpenOptions: engine.OpenOptions{StateDir: filepath.Join(dir, "state")},
		Holders:     []keyring.Holder{holder},
	})
	check(err)
	defer repo.Close()

	saved, err := repo.Snapshot(ctx, engine.SnapshotOptions{Path: workspace, Labels: map[string]string{"thread": "42"}})
	check(err)
	check(os.RemoveAll(workspace))
	receipt, err := repo.Restore(ctx, saved.Snapshot, engine.RestoreOptions{Target: workspace})
	check(err)

	content, err := os.ReadFile(filepath.Join(workspace, "notes.txt"))
	check(err)
	fmt.Printf("%d file restored: %s\n", receipt.Files, content)
	// Output: 1 file restored: remember
}

// exampleRepo is a repository with one snapshot of a small workspace.
func exampleRepo() (repo *engine.Repository, workspace string, saved *engine.SnapshotResult, done func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	workspace = filepath.Join(dir, "workspace")
	check(os.MkdirAll(filepath.Join(workspace, "src"), 0o755))
	check(os.WriteFile(filepath.Join(workspace, "src", "main.go"), []byte("package main\n"), 0o644))
	store, err := file.Create(filepath.Join(dir, "repository"))
	check(err)
	repo, err = engine.Init(ctx, store, engine.InitOptions{
		OpenOptions: engine.OpenOptions{StateDir: filepath.Join(dir, "state")},
		Holders:     []keyring.Holder{keyring.NewPlain()},
	})
	check(err)
	saved, err = repo.Snapshot(ctx, engine.SnapshotOptions{Path: workspace})
	check(err)
	return repo, workspace, saved, func() {
		check(repo.Close())
		check(store.Close())
		check(os.RemoveAll(dir))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	store, err := file.Create(dir)
	check(err)
	defer store.Close()
	_, err = engine.Open(ctx, store, engine.OpenOptions{})
	fmt.Println(errors.Is(err, engine.ErrNoRepository))
	// Output: true
}

// Nothing changed, so nothing is written.
func ExampleRepository_Snapshot() {
	repo, workspace, first, done := exampleRepo()
	defer done()
	again, err := repo.Snapshot(context.Background(), engine.SnapshotOptions{Path: workspace, SkipUnchanged: true})
	check(err)
	fmt.Println(again.Snapshot == first.Snapshot, again.Skipped, again.StoredBytes)
	// Output: true true 0
}

// A restore over an existing tree writes only what differs.
func ExampleRepository_Restore() {
	repo, workspace, saved, done := exampleRepo()
	defer done()
	check(os.WriteFile(filepath.Join(workspace, "scratch"), []byte("x"), 0o644))
	receipt, err := repo.Restore(context.Background(), saved.Snapshot, engine.RestoreOptions{Target: workspace, Delete: true})
	check(err)
	fmt.Println(receipt.Deleted, receipt.WrittenBytes)
	// Output: 1 0
}

// A fork is one small object: a new snapshot of an old root.
func ExampleRepository_Fork() {
	repo, _, saved, done := exampleRepo()
	defer done()
	fork, err := repo.Fork(context.Background(), saved.Snapshot, engine.ForkOptions{Labels: map[string]string{"branch": "experiment"}})
	check(err)
	fmt.Println(fork.Manifest.Root == saved.Root, fork.Manifest.Parent == saved.Snapshot, fork.Labels["branch"])
	// Output: true true experiment
}

func ExampleRepository_Diff() {
	ctx := context.Background()
	repo, workspace, first, done := exampleRepo()
	defer done()
	check(os.WriteFile(filepath.Join(workspace, "src", "main.go"), []byte("package main // edited\n"), 0o644))
	check(os.WriteFile(filepath.Join(workspace, "go.mod"), []byte("module x\n"), 0o644))
	second, err := repo.Snapshot(ctx, engine.SnapshotOptions{Path: workspace})
	check(err)
	stats, err := repo.Diff(ctx, first.Snapshot, second.Snapshot, engine.DiffOptions{}, func(c engine.Change) error {
		fmt.Println(c.Action, c.Path)
		return nil
	})
	check(err)
	fmt.Println(stats.Added, stats.Changed)
	// Output:
	// added go.mod
	// changed src/main.go
	// 1 1
}

// Progress and warnings go to Events; the library prints nothing.
func ExampleEvents() {
	events := engine.Events{
		Progress: func(p engine.Progress) { fmt.Fprintf(os.Stderr, "%s: %d files\n", p.Phase, p.Files) },
		Warning:  func(w engine.Warning) { fmt.Fprintf(os.Stderr, "%s %s: %v\n", w.Op, w.Object, w.Err) },
	}
	_ = engine.OpenOptions{Events: events}
}
