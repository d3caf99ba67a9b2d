package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// What a process leaves for the next one in the folder of the local state, beside
// the index and the stat caches:
//
//	view  the collector's records as the last snapshot saw them (commit.View)
//	key   the id of the key object that opened the repository last
//
// Each saves requests and none is needed. A file that cannot be read, or makes
// no sense, counts as absent.
const (
	viewFile = "view"
	keyFile  = "key"
)

// stateFolder is where the local state of a repository is kept; empty if nowhere.
func stateFolder(opts OpenOptions, repository config.ID) string {
	if opts.StateDir == "" {
		return ""
	}
	return filepath.Join(opts.StateDir, repository.String())
}

// readState returns the content of a file of a folder of local state; nil if
// there is none.
func readState(folder, name string, events Events) []byte {
	if folder == "" {
		return nil
	}
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		events.warn("read local state", filepath.Join(folder, name), err)
	}
	return content
}

// writeState replaces a file of a folder of local state, all at once.
func writeState(folder, name string, content []byte, events Events) {
	if folder == "" {
		return
	}
	path := filepath.Join(folder, name)
	events.warn("write local state", path, replaceFile(path, content))
}

func replaceFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name())
	}
	return err
}

// view returns what is known of the collector's records (step W1): from an
// earlier snapshot of this process, or of this machine, or else by a listing.
func (r *Repository) view(ctx context.Context) (commit.View, error) {
	r.mu.Lock()
	known, recent := r.known, isRecent(r.knownAt, viewAge)
	r.mu.Unlock()
	if recent {
		return known, nil
	}
	if info, err := os.Stat(filepath.Join(r.state, viewFile)); err == nil && r.state != "" && isRecent(info.ModTime(), viewAge) {
		if view, err := commit.DecodeView(readState(r.state, viewFile, r.opts.Events)); err == nil {
			return view, nil
		}
	}
	return r.freshView(ctx)
}

// Ages of what is known, in the time of this machine. They decide about costs
// only. An open repository need not know what others stored within indexAge: it
// may be stored twice. A view is used for viewAge: behind a collection it costs a
// walk through the tree at the end of the snapshot (see Rescue), so it should be
// older than that collection rarely.
const (
	indexAge = time.Minute
	viewAge  = time.Hour
)

func isRecent(at time.Time, age time.Duration) bool { return time.Since(at).Abs() < age }

// freshView reads the records anew: for an attempt that an older view misled.
func (r *Repository) freshView(ctx context.Context) (commit.View, error) {
	view, err := commit.ReadView(ctx, r.protocol(), commit.View{})
	if err == nil {
		r.keepView(view)
	}
	return view, err
}

// keepView makes a view the one to begin with. It is written also if it is the
// same, since its age counts.
func (r *Repository) keepView(view commit.View) {
	r.mu.Lock()
	r.known, r.knownAt = view, time.Now()
	r.mu.Unlock()
	writeState(r.state, viewFile, view.Encode(), r.opts.Events)
}

// unlock opens the material of a repository, by one request if the key that
// opened it last still does.
func unlock(ctx context.Context, store objectstore.Store, repository config.ID, opts OpenOptions) (keyring.Material, error) {
	folder := stateFolder(opts, repository)
	last, err := keyring.ParseID(string(readState(folder, keyFile, opts.Events)))
	if err == nil {
		if material, _, err := keyring.UnlockKey(ctx, store, repository, last, opts.Credentials); err == nil {
			return material, nil
		}
	}
	material, info, err := keyring.Unlock(ctx, store, repository, opts.Credentials)
	if err == nil {
		writeState(folder, keyFile, []byte(info.ID.String()), opts.Events)
	}
	return material, err
}

// recentIndex is index for a snapshot in a repository that stays open: what
// others stored in the last minutes need not be known, it may be stored twice.
func (r *Repository) recentIndex(ctx context.Context) (*index.DB, error) {
	r.mu.Lock()
	db := r.db
	recent := db != nil && isRecent(r.synced, indexAge)
	r.mu.Unlock()
	if recent {
		return db, nil
	}
	return r.index(ctx)
}
