package index

import (
	"context"
	"errors"
	"fmt"
	"github.com/snapctl/snapctl/index/localdb"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options adjust a DB. The zero value is good for repositories of any size.
type Options struct {
	// CacheSize is the memory for blocks of the database in bytes; 40 MiB if
	// it is 0. The filters of ten million blobs take 13 MB of it.
	CacheSize int64
}

// Stats says how much a DB knows.
type Stats struct {
	Packs    int
	Segments int
	Blobs    int // copies, about: a pack that holds a blob twice counts it twice
}

// DB is the local index of one repository. It is safe for concurrent use.
type DB struct {
	dir    string
	disk   vfs.FS
	fs     *localdb.FS // disk, until something fails
	pebble *pebble.DB
	opts   *pebble.Options
	limits loadLimits
	sync   *pebble.WriteOptions // how commits are made durable
	unlock func() error
	failed *localdb.Failure
	packs  packCache
	stats  atomic.Pointer[state]

	// epoch counts the changes that readers have to see. It moves after the
	// change is in the database: who loads an epoch sees what it counts.
	epoch   atomic.Uint64
	readers atomic.Int64

	// syncing holds a token while one Sync, or Close, runs.
	syncing chan struct{}

	mu     sync.Mutex // guards state, and orders commits; held over local commits, never over requests
	state  state
	closed bool
}

// Open opens the index of a repository in a directory, which it creates if
// needed. A database that is damaged, or of another repository or another
// version of this program, is discarded: it starts empty. ErrBusy says that
// it is open already, here or in another process.
func Open(dir, repositoryID string, opts Options) (*DB, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &Error{Op: "open index", Object: dir, Err: err}
	}
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, &Error{Op: "open index", Object: dir, Err: err}
	}
	db, err := open(vfs.Default, filepath.Join(dir, "db"), repositoryID, tune(opts))
	if err != nil {
		return nil, &Error{Op: "open index", Object: dir, Err: errors.Join(err, lock.Close())}
	}
	db.unlock = lock.Close
	return db, nil
}

// open opens the database in dir, which nobody else uses.
func open(fs vfs.FS, dir, repositoryID string, opts *pebble.Options) (*DB, error) {
	db, err := openOnce(fs, dir, repositoryID, opts)
	if err == nil || isEnvironment(err) {
		return db, err
	}
	if err := fs.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("discard unusable database: %w", err)
	}
	return openOnce(fs, dir, repositoryID, opts)
}

func openOnce(fs vfs.FS, dir, repositoryID string, opts *pebble.Options) (*DB, error) {
	failed := localdb.NewFailure()
	db := &DB{dir: dir, disk: fs, fs: localdb.NewFS(fs, failed), failed: failed, limits: defaultLimits, sync: pebble.Sync,
		unlock: func() error { return nil }, syncing: make(chan struct{}, 1)}
	if opts.DisableWAL {
		db.sync = pebble.NoSync
	}
	db.packs.init()
	tuned := *opts
	tuned.FS, tuned.Logger = db.fs, db.failed
	tuned.EventListener = db.failed.Listener()
	tuned.EnsureDefaults()
	db.opts = &tuned
	err := db.failed.Catch(func() (err error) {
		if err = db.fs.RemoveAll(db.loadDir()); err != nil {
			return err
		}
		db.pebble, err = pebble.Open(dir, db.opts)
		return err
	})
	if err == nil {
		err = db.bind(repositoryID)
	}
	if err != nil {
		return nil, errors.Join(err, db.shut())
	}
	return db, nil
}

// errForeign makes open discard a database.
var errForeign = errors.New("database belongs to another repository")

// bind checks that the database is of this repository, and claims it if it is
// empty.
func (db *DB) bind(repositoryID string) error {
	identity, err := db.get(identityKey)
	if err != nil {
		return err
	}
	if identity == nil {
		return db.claim(repositoryID)
	}
	if string(identity) != string(encodeIdentity(repositoryID)) {
		return errForeign
	}
	record, err := db.get(stateKey)
	if err != nil {
		return err
	}
	s, err := decodeState(record)
	if err != nil {
		return err
	}
	db.publish(s)
	return nil
}

func (db *DB) claim(repositoryID string) error {
	it, err := db.pebble.NewIter(nil)
	if err != nil {
		return err
	}
	empty := !it.First()
	if err := it.Close(); err != nil {
		return err
	}
	if !empty {
		return errForeign
	}
	db.publish(state{})
	return db.update(context.Background(), func(c *change) error {
		return c.batch.Set(identityKey, encodeIdentity(repositoryID), nil)
	})
}

// Close closes the database, after a Sync that runs. Readers have to be closed
// before: if any is not, Close fails and the database stays open. For a
// database that failed it returns ErrFailed, too.
func (db *DB) Close() error {
	db.syncing <- struct{}{} // wait for a running Sync
	defer func() { <-db.syncing }()
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil
	}
	if n := db.readers.Load(); n > 0 {
		return &Error{Op: "close index", Object: db.dir, Err: fmt.Errorf("%d readers are open", n)}
	}
	db.closed = true
	if err := db.shut(); err != nil {
		return &Error{Op: "close index", Object: db.dir, Err: err}
	}
	return nil
}

// shut closes Pebble and gives the lock back. After a panic inside of Pebble
// its locks may be held for ever, so it is left alone, and so is the lock on
// the directory: its goroutines may still be there. A database with damaged
// files is discarded.
func (db *DB) shut() error {
	var err error
	if db.pebble != nil && !db.failed.Panicked() {
		err = db.failed.Guard(db.pebble.Close)
	}
	if db.failed.Panicked() {
		return db.failed.Err()
	}
	if db.failed.Damaged() {
		err = errors.Join(err, db.disk.RemoveAll(db.dir))
	}
	return errors.Join(err, db.unlock())
}

// Known says how much the database knows. It costs nothing.
func (db *DB) Known() Stats {
	s := db.stats.Load()
	return Stats{Packs: int(s.packs), Segments: int(s.segments), Blobs: int(s.blobs)}
}

// loadDir holds the files of a bulk load until they are part of the database.
func (db *DB) loadDir() string { return db.fs.PathJoin(db.fs.PathDir(db.dir), "load") }

// get returns a copy of a record, nil if there is none.
func (db *DB) get(key []byte) (value []byte, err error) {
	err = db.failed.Catch(func() error {
		v, closer, err := db.pebble.Get(key)
		if err == pebble.ErrNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		value = append([]byte{}, v...)
		return closer.Close()
	})
	return value, err
}
