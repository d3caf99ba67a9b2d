package statcache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

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
	reliable bool        // no boot since base was written
	broken   atomic.Bool // a write failed; nothing is written any more
	empty    bool        // there were no records when it was opened
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
	for _, err := os.Stat(dir); err == nil; {
		if c.db, err = openDB(dir); err != nil {
			break
		}
		if err = c.load(); err == nil {
			return nil
		}
		if err := c.db.Close(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	var err error
	if c.db, err = openDB(dir); err != nil {
		return err
	}
	c.empty = true
	return c.store(Base{}, false)
}

// openDB keeps everything small: a cache is opened for every snapshot, also for
// those that take a tenth of a second.
func openDB(dir string) (*pebble.DB, error) {
	options := &pebble.Options{
		FS:                          unsynced{vfs.Default},
		FormatMajorVersion:          pebble.FormatNewest,
		CacheSize:                   4 << 20,
		MemTableSize:                4 << 20,
		MaxOpenFiles:                64,
		Logger:                      silent{},
		DisableConsistencyCheck:     false,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		MemTableStopWritesThreshold: 4,
	}
	options.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	options.Levels[0].BlockSize = 32 << 10
	return pebble.Open(dir, options)
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
	if c.broken.Load() {
		return nil
	}
	if c.db.Metrics().WAL.Size > flushAt {
		if err := c.db.Flush(); err != nil {
			return errors.Join(fmt.Errorf("close stat cache: %w", err), c.db.Close())
		}
	}
	if err := c.db.Close(); err != nil {
		return fmt.Errorf("close stat cache: %w", err)
	}
	return nil
}

// silent drops what Pebble has to say; errors come back from calls.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}

// Fatalf must not return: Pebble has lost control of its files.
func (silent) Fatalf(format string, args ...any) {
	panic("stat cache: " + fmt.Sprintf(format, args...))
}
