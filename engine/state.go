package engine

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zeebo/blake3"

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
// and beside the folders of the repositories:
//
//	places/<hash>  the id of the repository that was opened at a place last
//
// Each saves requests and none is needed. Behind its content a file has the BLAKE3 of
// it: the view decides what is safe to rely on. A file that cannot be read, or makes no
// sense, counts as absent.
const (
	viewFile     = "view"
	keyFile      = "key"
	placesFolder = "places"
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
	file, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		events.warn("read local state", filepath.Join(folder, name), err)
	}
	end := max(len(file)-stateSum, 0)
	if sum := blake3.Sum256(file[:end]); !bytes.Equal(file[end:], sum[:]) {
		return nil
	}
	return file[:end]
}

const stateSum = 32 // bytes

// writeState replaces a file of a folder of local state, all at once.
func writeState(folder, name string, content []byte, events Events) {
	if folder == "" {
		return
	}
	path, sum := filepath.Join(folder, name), blake3.Sum256(content)
	events.warn("write local state", path, replaceFile(path, slices.Concat(content, sum[:])))
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
			r.mu.Lock()
			defer r.mu.Unlock()
			r.known, r.knownAt, r.writtenAt = view, info.ModTime(), info.ModTime()
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

// keepView makes a view the one to begin with. One that is the same is written only
// when what is written has used up half of its age: it names every pack that was ever
// deleted, 32 MB for a million of them.
func (r *Repository) keepView(view commit.View) {
	r.mu.Lock()
	now := time.Now()
	written := view.Equal(r.known) && isRecent(r.writtenAt, viewAge/2)
	r.known, r.knownAt = view, now
	if !written {
		r.writtenAt = now
	}
	r.mu.Unlock()
	if !written {
		writeState(r.state, viewFile, view.Encode(), r.opts.Events)
	}
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
	switch early := r.early.answers; {
	case recent:
		return db, nil
	case early != nil && isRecent(early.asked, indexAge):
		return r.syncIndex(ctx, early, early.asked)
	}
	return r.index(ctx)
}
