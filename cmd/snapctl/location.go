package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

var urlScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// repoPath returns the directory of the repository: --repo, SNAPCTL_REPO, or
// the user's own one.
func (c *cli) repoPath() (string, error) {
	place := c.globals.repo
	if place == "" {
		place = c.env.get(envRepo)
	}
	if place == "" {
		dir, err := c.env.userDir(envDataHome, ".local/share")
		if err != nil {
			return "", &usageError{err: fmt.Errorf("no repository is named, and %w", err), hint: "say where it is with --repo or " + envRepo}
		}
		return filepath.Join(dir, "repo"), nil
	}
	if urlScheme.MatchString(place) {
		return "", &usageError{
			err:  fmt.Errorf("repository %s: object stores are not supported by this build yet", place),
			hint: "give the path of a directory; one whose name looks like a URL needs ./ in front",
		}
	}
	return place, nil
}

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

// openOptions are the options of engine.Open that do not depend on keys.
func (c *cli) openOptions() engine.OpenOptions {
	return engine.OpenOptions{StateDir: c.stateDir(), Events: c.talk.events(), Tool: "snapctl " + buildVersion().Version}
}

// withRepository opens the repository for the time of do.
func (c *cli) withRepository(ctx context.Context, do func(*engine.Repository) error) error {
	return c.withStore(ctx, func(_ *file.Store, repo *engine.Repository) error { return do(repo) })
}

// withStore is withRepository for who also cares for the directory it is in.
func (c *cli) withStore(ctx context.Context, do func(*file.Store, *engine.Repository) error) (err error) {
	path, err := c.repoPath()
	if err != nil {
		return err
	}
	store, err := openStore(path)
	if err != nil {
		return err
	}
	defer store.Close()
	repo, err := c.unlock(ctx, store)
	if err != nil {
		return atPlace(path, err)
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

// openStore opens the directory of a repository. A path that leads to no
// directory is no repository.
func openStore(path string) (*file.Store, error) {
	store, err := file.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w: %w", engine.ErrNoRepository, err)
	}
	return store, err
}

// tidy removes what killed processes left in the directory of the repository a day
// ago or more. Writers do it, after their work: one listing of a folder that is
// mostly empty.
func (c *cli) tidy(ctx context.Context, store *file.Store) {
	if _, err := store.RemoveStaleTemp(ctx); err != nil {
		c.talk.warn("remove stale temporary files of the repository: %v", err)
	}
}

// atPlace names the place in an error about the repository as a whole.
func atPlace(path string, err error) error {
	return fmt.Errorf("%s: %w", path, err)
}
