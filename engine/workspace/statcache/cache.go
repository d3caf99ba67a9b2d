package statcache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/index/localdb"
	"github.com/snapctl/snapctl/packfile/blob"
)

// ErrBusy says that another process, or another Cache of this one, holds the
// database. The walk goes without a cache then.
var ErrBusy = errors.New("stat cache is in use")

// Identity is what the records depend on. A cache of another identity is
// discarded when it is opened.
type Identity struct {
	Repository string // identity of the repository whose blobs the records name
	Chunking   string // parameters under which files were cut
	Policy     string // fingerprint of the rules about what is stored
	Root       string // path of the tree
}

// Base is a published snapshot, the last one that was taken with this cache.
type Base struct {
	Snapshot blob.ID
	Dir      blob.ID // node of its root directory
	Opaque   []byte  // whatever the caller needs to tell whether the snapshot is complete
}

// Cache is an open stat cache. Its methods are safe for concurrent use, and so
// are different sessions.
type Cache struct {
	lock     *os.File
	db       *pebble.DB
	identity Identity
	base     Base
	based    bool
	reliable bool   // no boot since base was written
	empty    bool   // there were no records when it was opened
	dir      string // of the database
	failed   *localdb.Failure
}

// Open opens the cache in the directory dir, which it makes if it is missing,
// and discards what it holds if that is damaged or belongs to another identity.
// It takes a few milliseconds and about 10 MiB while open.
func Open(dir string, id Identity) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open stat cache: %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("open stat cache: %w", err)
	}
	c := &Cache{lock: lock, identity: id}
	if err := c.open(filepath.Join(dir, "db")); err != nil {
		lock.Close()
		return nil, fmt.Errorf("open stat cache: %w", err)
	}
	return c, nil
}

// lockFile takes the lock that goes with an open file, so that a killed process
// leaves none.
func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrBusy
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// open opens the database, or makes a new one if that fails or finds something
// else than records of this identity.
func (c *Cache) open(dir string) error {
	c.dir = dir
	if _, err := os.Stat(dir); err == nil && c.openPresent() {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	var err error
	if c.db, err = c.openDB(); err != nil {
		return err
	}
	c.empty = true
	return c.store(Base{}, false)
}

// openPresent reports whether what is there could be opened and is usable.
func (c *Cache) openPresent() bool {
	db, err := c.openDB()
	if err != nil {
		return false
	}
	c.db = db
	if err := c.load(); err == nil {
		return true
	}
	c.failed.Guard(c.db.Close) // whatever it says, the database is discarded
	return false
}

// openDB keeps everything small: a cache is opened for every snapshot, also for
// those that take a tenth of a second.
func (c *Cache) openDB() (*pebble.DB, error) {
	c.failed = localdb.NewFailure()
	options := &pebble.Options{
		FS:                          localdb.NewFS(unsynced{vfs.Default}, c.failed),
		FormatMajorVersion:          pebble.FormatNewest,
		CacheSize:                   4 << 20,
		MemTableSize:                4 << 20,
		MaxOpenFiles:                64,
		Logger:                      c.failed,
		EventListener:               c.failed.Listener(),
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		MemTableStopWritesThreshold: 4,
	}
	options.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	options.Levels[0].BlockSize = 32 << 10
	var db *pebble.DB
	err := c.failed.Catch(func() (err error) {
		db, err = pebble.Open(c.dir, options)
		return err
	})
	if err != nil && db != nil && !c.failed.Panicked() { // opened, and found damaged
		err = errors.Join(err, c.failed.Guard(db.Close))
	}
	return db, err
}

// Base returns the last published snapshot, if there is one.
func (c *Cache) Base() (Base, bool) { return c.base, c.based }

// TrustedDir returns the node from which records may be believed if the base
// snapshot is complete; zero if none may: there is no base, or the machine was
// booted since it was written.
func (c *Cache) TrustedDir() blob.ID {
	if !c.based || !c.reliable {
		return blob.ID{}
	}
	return c.base.Dir
}

// Commit makes a published snapshot the base. All sessions of the walk that
// produced it are closed.
func (c *Cache) Commit(base Base) error {
	base.Opaque = bytes.Clone(base.Opaque)
	if err := c.store(base, true); err != nil {
		return fmt.Errorf("commit stat cache: %w", err)
	}
	c.base, c.based, c.reliable = base, true, bootID() != ""
	return nil
}

// flushAt is how much log is worth a table: the next Open replays what is left.
const flushAt = 512 << 10

// Close releases the cache.
func (c *Cache) Close() error {
	defer c.lock.Close()
	if c.failed.Panicked() {
		return fmt.Errorf("close stat cache: %w", c.failed.Err())
	}
	var err error
	if c.failed.Err() == nil && c.db.Metrics().WAL.Size > flushAt {
		err = c.failed.Catch(c.db.Flush)
	}
	err = errors.Join(err, c.failed.Guard(c.db.Close))
	if c.failed.Damaged() {
		err = os.RemoveAll(c.dir)
	}
	if err != nil {
		return fmt.Errorf("close stat cache: %w", err)
	}
	return nil
}
