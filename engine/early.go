package engine

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// early is what Open began before it knew that it would be needed. The zero early is
// nothing.
type early struct {
	answers *ahead

	// The local index of the repository that is expected; not if that is empty.
	repository string
	db         *index.DB
	dbErr      error
}

// openEarly asks for all that Open needs at once, and for what a snapshot needs
// next, and opens the local index meanwhile. These may pass each other:
//
//   - The config and the key. The repository that was at the place last is a guess,
//     and so is its key. The object of the key names the repository that it is for,
//     which is compared with the config before the key is used.
//   - The config and the listing of the index. The listing says what lies in the
//     store, whichever repository that is. Nothing of it is believed: a segment is
//     read later, with the key of the config.
//   - The listing and the local index. If that is opened later, it may know a segment
//     that was put since. To Sync that looks like a segment that is gone, for which it
//     takes a second listing before it forgets anything.
//   - The listing and the view (step W1), in either order. What a collection took
//     after the view was read is found in step W5, whatever the index said.
func openEarly(ctx context.Context, store objectstore.Store, opts OpenOptions) (*early, error) {
	e := new(early)
	var opening sync.WaitGroup
	var others []question
	if repository, key, ok := readPlace(opts); ok {
		others = append(others, objectAhead(keyring.Prefix+key.String(), keyring.MaxObject))
		if opts.ForSnapshot {
			e.repository = repository
			opening.Go(func() { e.db, e.dbErr = openSharedIndex(filepath.Join(opts.StateDir, repository), repository) })
		}
	}
	if opts.ForSnapshot {
		others = append(others, listingAhead(index.Prefix))
	}
	var err error
	e.answers, err = askAhead(ctx, store, objectAhead(config.Object, config.MaxSize), others...)
	opening.Wait()
	if err != nil {
		e.discard(opts.Events)
	}
	return e, err
}

// settle keeps of what was begun what is of use in the repository.
func (e *early) settle(repository config.ID, events Events) {
	if e.repository != repository.String() {
		e.discard(events)
	}
}

// sharedIndex hands the local index over, once, if it was opened.
func (e *early) sharedIndex() (db *index.DB, opened bool, err error) {
	db, opened, err = e.db, e.repository != "", e.dbErr
	e.repository, e.db, e.dbErr = "", nil, nil
	return db, opened, err
}

// discard closes the local index if nobody took it.
func (e *early) discard(events Events) {
	if db, opened, err := e.sharedIndex(); opened && err == nil {
		events.warn("close", "local index", db.Close())
	}
}

// openSharedIndex opens the local index in a folder of local state.
func openSharedIndex(folder, repository string) (*index.DB, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return index.Open(filepath.Join(folder, "index"), repository, index.Options{})
}

// placeFile is where it is noted which repository lies at the place; the folder is
// empty if nowhere.
func placeFile(opts OpenOptions) (folder, name string) {
	if opts.StateDir == "" || opts.Place == "" {
		return "", ""
	}
	hash := blake3.Sum256([]byte(opts.Place))
	return filepath.Join(opts.StateDir, placesFolder), hex.EncodeToString(hash[:16])
}

// readPlace returns the repository that was opened at the place last, and the key
// that opened it last.
func readPlace(opts OpenOptions) (repository string, key keyring.ID, ok bool) {
	folder, name := placeFile(opts)
	repository = string(readState(folder, name, opts.Events))
	if id, err := hex.DecodeString(repository); err != nil || len(id) != len(config.ID{}) {
		return "", key, false
	}
	key, err := keyring.ParseID(string(readState(filepath.Join(opts.StateDir, repository), keyFile, opts.Events)))
	return repository, key, err == nil
}

// rememberPlace notes which repository lies at the place, unless that is noted.
func rememberPlace(repository config.ID, opts OpenOptions) {
	folder, name := placeFile(opts)
	if string(readState(folder, name, opts.Events)) != repository.String() {
		writeState(folder, name, []byte(repository.String()), opts.Events)
	}
}
