package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/snapctl/snapctl/engine"
)

// stateDir returns where local state is kept. The default one is left out,
// which costs time only, where it cannot be made.
func (c *cli) stateDir() string {
	dir := c.globals.stateDir
	if dir == "" {
		dir = c.env.get(envStateDir)
	}
	if dir != "" {
		return dir
	}
	dir, err := c.env.userDir(envCacheHome, ".cache")
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		c.talk.detail("working without local state: %v", err)
		return ""
	}
	return dir
}

// openOptions are the options of engine.Open for a place, keys apart.
func (c *cli) openOptions(p place) (engine.OpenOptions, error) {
	opts := engine.OpenOptions{
		StateDir: c.stateDir(), Events: c.talk.events(), Tool: "snapctl " + buildVersion().Version,
		VerifyUploads: c.globals.network.verifyUploads, Now: repositoryClock,
	}
	if !p.isURL() {
		return opts, nil
	}
	opts.Place = string(p)
	var err error
	opts.CacheBytes, err = c.globals.network.cacheBytes()
	return opts, err
}

// opening changes how a repository is opened.
type opening func(*engine.OpenOptions)

func forSnapshot(opts *engine.OpenOptions) { opts.ForSnapshot = true }

// withRepository opens the repository for the time of do.
func (c *cli) withRepository(ctx context.Context, do func(*engine.Repository) error) error {
	return c.withStore(ctx, func(_ backing, repo *engine.Repository) error { return do(repo) })
}

// withStore is withRepository for who also cares for what it lies in.
func (c *cli) withStore(ctx context.Context, do func(backing, *engine.Repository) error, how ...opening) error {
	p, err := c.repoPlace()
	if err != nil {
		return err
	}
	return c.withPlace(ctx, p, c.globals.keys, do, how...)
}

// withPlace opens the repository at a place with keys for the time of do.
func (c *cli) withPlace(ctx context.Context, p place, keys keyOptions, do func(backing, *engine.Repository) error, how ...opening) (err error) {
	store, err := c.open(p)
	if err != nil {
		return err
	}
	defer func() {
		if traffic := store.traffic(); traffic != "" {
			c.talk.detail("%s: %s", p, traffic)
		}
		err = errors.Join(err, store.Close())
	}()
	repo, err := c.unlock(ctx, p, store, keys, how...)
	if err != nil {
		return atPlace(p, err)
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	return do(store, repo)
}

// withSnapshot opens the repository and finds the snapshot that snap names.
func (c *cli) withSnapshot(ctx context.Context, snap string, choose chooseOptions, do func(*engine.Repository, engine.ID) error) error {
	filter, err := choose.filter()
	if err != nil {
		return err
	}
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		id, err := repo.Resolve(ctx, snap, filter)
		if err != nil {
			return err
		}
		return do(repo, id)
	})
}

// tidy removes what killed processes left behind. Writers do it, after their work.
func (c *cli) tidy(ctx context.Context, store backing) {
	if err := store.tidy(ctx); err != nil {
		c.talk.warn("remove stale temporary files of the repository: %v", err)
	}
}

// atPlace names the place in an error about the repository as a whole.
func atPlace(p place, err error) error {
	return fmt.Errorf("%s: %w", p, err)
}
