package explore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/gc"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// ground is a repository as a scenario finds it, and the machines that use it.
type ground struct {
	t     *testing.T
	store *mem.Store
	temp  string

	empty    *mem.Store // as it was in the beginning
	id       config.ID
	family   config.ID
	material keyring.Material
}

// repo is the repository as the protocol sees it. What a sealer is made of belongs to
// the bubble in which it was made, so each has its own.
func (g *ground) repo(store objectstore.Store) commit.Repo {
	return commit.Repo{
		Store: store, Namer: blob.NewNamer(g.material.ID),
		Sealer: seal.New(seal.Key{Secret: g.material.Data, Family: g.family}, seal.Default),
	}
}

var insecure = engine.Credentials{Insecure: true}

// newGround makes an empty repository, the same in every run, whose packs are small
// so that memory for them is, too.
func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{t: t, store: mem.New(), temp: tempDir(t)}
	random := newRandom(t)
	random.begin("ground", 0)
	g.world(func(ctx context.Context) error {
		cfg, err := config.New()
		if err != nil {
			return err
		}
		cfg.PackSize, cfg.FrameSize = 1<<20, 1<<20
		g.material, g.id, g.family = keyring.NewMaterial(), cfg.Repository, cfg.Family
		if _, err := keyring.Create(ctx, g.store, cfg.Repository, g.material, keyring.NewPlain()); err != nil {
			return err
		}
		object, err := cfg.Encode(g.repo(g.store).Sealer)
		if err != nil {
			return err
		}
		_, err = g.store.Put(ctx, config.Object, bytes.NewReader(object), objectstore.PutOptions{})
		return errors.Join(err, commit.KeepReserve(ctx, g.store))
	})
	g.empty = g.store.Clone()
	return g
}

// tempDir prefers memory: every run opens two databases, which flush their files.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "explore-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// world runs f while time stands still a day before a scenario begins.
func (g *ground) world(f func(ctx context.Context) error) {
	g.t.Helper()
	synctest.Test(g.t, func(t *testing.T) {
		time.Sleep(time.Until(epoch.Add(-24 * time.Hour)))
		if err := f(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// computer is what a machine keeps from run to run: a workspace and local state.
type computer struct {
	*ground
	name      string
	workspace string
	state     string
}

func (g *ground) computer(name string) *computer {
	g.t.Helper()
	c := &computer{ground: g, name: name, workspace: filepath.Join(g.temp, name, "workspace"), state: filepath.Join(g.temp, name, "state")}
	for _, dir := range []string{c.workspace, filepath.Join(c.state, g.id.String())} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			g.t.Fatal(err)
		}
	}
	return c
}

// write makes files of the workspace from pairs of name and content.
func (c *computer) write(pairs ...string) *computer {
	c.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if err := os.WriteFile(filepath.Join(c.workspace, pairs[i]), []byte(pairs[i+1]), 0o644); err != nil {
			c.t.Fatal(err)
		}
		at := time.Unix(1_600_000_000, 0)
		if err := os.Chtimes(filepath.Join(c.workspace, pairs[i]), at, at); err != nil {
			c.t.Fatal(err)
		}
	}
	at := time.Unix(1_600_000_000, 0)
	if err := os.Chtimes(c.workspace, at, at); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// options of a repository on a machine whose clock ticks whenever it is read, so
// that no two manifests are the same.
func options(state string) engine.OpenOptions {
	reads := 0
	now := func() time.Time {
		reads++
		return time.Now().Add(time.Duration(reads) * time.Millisecond)
	}
	return engine.OpenOptions{Credentials: insecure, StateDir: state, Tool: "explorer", Now: now}
}

// saved takes a snapshot before the scenario begins.
func (c *computer) saved() engine.ID {
	c.t.Helper()
	var id engine.ID
	newRandom(c.t).begin("saved "+c.name, len(c.keysBelow("")))
	c.world(func(ctx context.Context) error {
		repo, err := engine.Open(ctx, c.store, options(c.state))
		if err != nil {
			return err
		}
		result, err := repo.Snapshot(ctx, engine.SnapshotOptions{Path: c.workspace, Source: c.name, Workers: 1})
		if err == nil {
			id = result.Snapshot
		}
		return errors.Join(err, repo.Close())
	})
	return id
}

// apart runs f as if nobody had used the repository before, and then adds what was
// put to the rest: so two machines come to store the same content twice.
func (g *ground) apart(f func()) {
	g.t.Helper()
	all := g.store
	g.store = g.empty.Clone()
	f()
	mine := g.store
	g.store = all
	for info, err := range mine.List(g.t.Context(), "", "") {
		if err != nil {
			g.t.Fatal(err)
		}
		data, err := objectstore.ReadAll(g.t.Context(), mine, info.Key, 1<<30)
		if err == nil {
			_, err = all.Put(g.t.Context(), info.Key, bytes.NewReader(data), objectstore.PutOptions{})
		}
		if err != nil {
			g.t.Fatal(err)
		}
	}
}

// synced lets the machine know the index as it is now.
func (c *computer) synced() *computer {
	c.t.Helper()
	c.world(func(ctx context.Context) error {
		db, err := index.Open(filepath.Join(c.state, c.id.String(), "index"), c.id.String(), index.Options{})
		if err != nil {
			return err
		}
		_, err = db.Sync(ctx, c.store, c.repo(c.store).Sealer)
		return errors.Join(err, db.Close())
	})
	return c
}

// packs lists the packs in the store.
func (g *ground) packs() []packfile.Name {
	g.t.Helper()
	var names []packfile.Name
	for _, key := range g.keysBelow("packs/") {
		name, err := packfile.ParseName(strings.TrimPrefix(key, "packs/"))
		if err != nil {
			g.t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// condemned opens a generation whose collector died.
func (g *ground) condemned(packs ...packfile.Name) {
	g.t.Helper()
	newRandom(g.t).begin("condemned", len(g.keysBelow("")))
	g.world(func(ctx context.Context) error {
		_, err := commit.Condemn(ctx, g.repo(g.store), 0, packs)
		return err
	})
}

func (g *ground) keysBelow(prefix string) []string {
	g.t.Helper()
	var all []string
	for info, err := range g.store.List(context.Background(), prefix, "") {
		if err != nil {
			g.t.Fatal(err)
		}
		all = append(all, info.Key)
	}
	return all
}

// forgottenLately forgets a snapshot before the scenario begins.
func (g *ground) forgottenLately(id engine.ID) {
	g.t.Helper()
	newRandom(g.t).begin("forgotten", len(g.keysBelow("")))
	g.world(func(ctx context.Context) error {
		repo := g.repo(g.store)
		ref, _, err := commit.Find(ctx, repo, id)
		if err != nil {
			return err
		}
		return commit.Forget(ctx, repo, ref)
	})
}

// forgotten forgets a snapshot, past undoing.
func (g *ground) forgotten(id engine.ID) {
	g.t.Helper()
	g.forgottenLately(id)
	for _, key := range g.keysBelow("forgotten/") {
		if err := g.store.Delete(g.t.Context(), key); err != nil {
			g.t.Fatal(err)
		}
	}
}

// open opens the repository on the machine as it was left, on a copy of its state.
func (c *computer) open(ctx context.Context, store objectstore.Store) (*engine.Repository, func(), error) {
	state, err := os.MkdirTemp(c.temp, "run-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { os.RemoveAll(state) }
	if err := os.CopyFS(state, os.DirFS(c.state)); err != nil {
		remove()
		return nil, nil, err
	}
	views, _ := filepath.Glob(filepath.Join(state, "*", "view"))
	for _, view := range views { // as young as it was
		if err := os.Chtimes(view, epoch, epoch); err != nil {
			remove()
			return nil, nil, err
		}
	}
	repo, err := engine.Open(ctx, store, options(state))
	if err != nil {
		remove()
		return nil, nil, err
	}
	return repo, func() { repo.Close(); remove() }, nil
}

// retryable are the errors that say: try again.
func retryable(err error) bool {
	return errors.Is(err, engine.ErrRetry) || errors.Is(err, gc.ErrChanging)
}

// isFixed tells what nobody writes once a repository is there.
func isFixed(key string) bool {
	return key == config.Object || key == "guarantees" || key == "reserve" || strings.HasPrefix(key, "keys/")
}

func (g *ground) scenario(actors ...*Actor) *Scenario {
	return &Scenario{Actors: actors, Start: g.store, Fixed: isFixed, Keys: g.repo, May: retryable, Kinds: AllFaults}
}
