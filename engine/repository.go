package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Repository is an open repository. Close it when done. Its methods are safe
// for concurrent use.
type Repository struct {
	store    objectstore.Store
	config   config.Config
	material keyring.Material
	sealer   *seal.Sealer
	namer    *blob.Namer
	opts     OpenOptions
	state    string // folder of the local state of this repository; empty if there is none

	mu      sync.Mutex // guards the following, which are opened when first needed
	db      *index.DB
	locator *locator
	packs   packStores
	fetch   *fetch.Fetcher
	synced  time.Time   // when the index was last brought up to date
	known   commit.View // as it was at knownAt
	knownAt time.Time
	// writtenAt is when local state got it; zero until this process reads or writes it.
	writtenAt time.Time

	// retired are indexes that failed; who used them may not have noticed yet.
	retired []retiredIndex

	early *early // what Open began
}

type retiredIndex struct {
	db      *index.DB
	locator *locator
}

// Init makes a repository in an empty store and opens it. ErrExists if there is
// one already. The config object is put last: until then there is no repository.
func Init(ctx context.Context, store objectstore.Store, opts InitOptions) (*Repository, error) {
	r, err := initialize(ctx, store, opts)
	return r, failed("init", "", err)
}

func initialize(ctx context.Context, store objectstore.Store, opts InitOptions) (*Repository, error) {
	if len(opts.Holders) == 0 {
		return nil, errors.New("nobody could open the repository: give at least one holder of a key")
	}
	_, err := store.Stat(ctx, config.Object)
	if err == nil {
		return nil, ErrExists
	}
	if !errors.Is(err, objectstore.ErrNotExist) {
		return nil, err
	}
	packs, err := hasPacks(ctx, store)
	if err != nil {
		return nil, err
	}
	if packs { // a new one would make what is there unreadable for good
		return nil, fmt.Errorf("%w: %w", ErrNoRepository, ErrConfigGone)
	}
	cfg, material, err := newIdentity(opts)
	if err != nil {
		return nil, err
	}
	keys, err := keyring.Create(ctx, store, cfg.Repository, material, opts.Holders...)
	if err != nil {
		return nil, err
	}
	writeState(stateFolder(opts.OpenOptions, cfg.Repository), keyFile, []byte(keys[0].ID.String()), opts.Events)
	rememberPlace(cfg.Repository, opts.OpenOptions)
	r := newRepository(store, cfg, material, opts.OpenOptions)
	object, err := cfg.Encode(r.sealer)
	if err != nil {
		return nil, err
	}
	_, err = store.Put(ctx, config.Object, bytes.NewReader(object), objectstore.PutOptions{IfAbsent: true})
	if errors.Is(err, objectstore.ErrExist) { // perhaps by our own put, whose answer was lost
		var stored []byte
		if stored, err = objectstore.ReadAll(ctx, store, config.Object, config.MaxSize); err == nil && !bytes.Equal(stored, object) {
			err = ErrExists
		}
	}
	if err != nil {
		return nil, err
	}
	r.opts.Events.warn("init", "reserve", commit.KeepReserve(ctx, store)) // a collection puts it too
	return r, nil
}

// newIdentity draws the ids and secrets of a repository, those of a family of its
// own or those of a sibling.
func newIdentity(opts InitOptions) (config.Config, keyring.Material, error) {
	cfg, err := config.New()
	if err != nil {
		return cfg, keyring.Material{}, err
	}
	material := keyring.NewMaterial()
	cfg.Level = opts.Compression
	if like := opts.Like; like != nil {
		cfg = like.config.Sibling()
		material.ID = like.material.ID
		if opts.Compression != CompressDefault {
			cfg.Level = opts.Compression
		}
	}
	return cfg, material, nil
}

// Open opens the repository in a store. ErrNoRepository if there is none,
// ErrWrongKey if no credential opens it, ErrNewerVersion if this program is too
// old for it.
func Open(ctx context.Context, store objectstore.Store, opts OpenOptions) (*Repository, error) {
	r, err := open(ctx, store, opts)
	return r, failed("open", "repository", err)
}

func open(ctx context.Context, store objectstore.Store, opts OpenOptions) (*Repository, error) {
	early, err := openEarly(ctx, store, opts)
	if err != nil {
		return nil, err
	}
	cfg, material, err := identify(ctx, early.answers, opts)
	if err != nil {
		early.discard(opts.Events)
		return nil, onceThere(ctx, store, err)
	}
	early.settle(cfg.Repository, opts.Events)
	rememberPlace(cfg.Repository, opts)
	r := newRepository(store, cfg, material, opts)
	r.early = early
	return r, nil
}

// onceThere tells a repository that lost its config from a place where none ever was.
func onceThere(ctx context.Context, store objectstore.Store, err error) error {
	if !errors.Is(err, ErrNoRepository) {
		return err
	}
	if packs, listing := hasPacks(ctx, store); listing == nil && packs {
		return fmt.Errorf("%w: %w", err, ErrConfigGone)
	}
	return err
}

// hasPacks reports whether there are packs of a repository.
func hasPacks(ctx context.Context, store objectstore.Store) (bool, error) {
	for _, err := range store.List(ctx, ingest.PackPrefix, "") {
		return err == nil, err
	}
	return false, nil
}

// identify reads which repository there is, and unlocks its secrets.
func identify(ctx context.Context, store objectstore.Store, opts OpenOptions) (config.Config, keyring.Material, error) {
	object, err := objectstore.ReadAll(ctx, store, config.Object, config.MaxSize)
	if errors.Is(err, objectstore.ErrNotExist) {
		return config.Config{}, keyring.Material{}, ErrNoRepository
	}
	if err != nil {
		return config.Config{}, keyring.Material{}, err
	}
	header, err := config.ReadHeader(object)
	if errors.Is(err, config.ErrNotConfig) {
		return config.Config{}, keyring.Material{}, fmt.Errorf("%w: %w", ErrNoRepository, err)
	}
	if err != nil {
		return config.Config{}, keyring.Material{}, err
	}
	material, err := unlock(ctx, store, header.Repository, opts)
	if err != nil {
		return config.Config{}, keyring.Material{}, err
	}
	cfg, err := config.Open(object, newSealer(material, header.Family, seal.Default))
	return cfg, material, err
}

func newRepository(store objectstore.Store, cfg config.Config, material keyring.Material, opts OpenOptions) *Repository {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Events = opts.Events.inTurn()
	r := &Repository{
		store: store, config: cfg, material: material, opts: opts, early: new(early),
		sealer: newSealer(material, cfg.Family, cfg.Level),
		namer:  blob.NewNamer(material.ID),
	}
	r.state = stateFolder(opts, cfg.Repository)
	return r
}

func newSealer(material keyring.Material, family config.ID, level seal.Level) *seal.Sealer {
	return seal.New(seal.Key{Secret: material.Data, Family: family}, level)
}

// ID names the repository: 32 hexadecimal digits.
func (r *Repository) ID() string { return r.config.Repository.String() }

// Close closes the local state. The repository must not be used afterwards.
func (r *Repository) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.early.discard(r.opts.Events)
	if r.db == nil {
		return nil
	}
	for _, old := range r.retired {
		_, _ = old.locator.close(), old.db.Close() // that they failed was told
	}
	err := errors.Join(r.locator.close(), r.packs.close())
	closed := r.db.Close()
	if errors.Is(closed, index.ErrFailed) { // it is a cache, and repairs itself
		r.opts.Events.warn("close local state", r.state, closed)
		closed = nil
	}
	err = errors.Join(err, closed)
	r.db, r.locator, r.fetch, r.synced, r.retired = nil, nil, nil, time.Time{}, nil
	return failed("close", "index", err)
}

// protocol is the repository as the publish protocol sees it.
func (r *Repository) protocol() commit.Repo {
	return commit.Repo{Store: r.store, Sealer: r.sealer, Namer: r.namer}
}

// index returns the local index, brought up to date with the repository.
func (r *Repository) index(ctx context.Context) (*index.DB, error) {
	return r.syncIndex(ctx, r.store, time.Now())
}

// syncIndex is index as a store shows it that was listed, or will be, at asked or
// later.
func (r *Repository) syncIndex(ctx context.Context, store objectstore.Store, asked time.Time) (*index.DB, error) {
	db, err := r.openIndex()
	if err != nil {
		return nil, err
	}
	stats, err := db.Sync(ctx, store, r.sealer)
	if errors.Is(err, index.ErrFailed) { // mostly its disk is full
		r.opts.Events.warn("use local state", r.state, err)
		if db, err = r.replaceIndex(db); err == nil {
			stats, err = db.Sync(ctx, r.store, r.sealer)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, damaged := range stats.Damaged {
		r.opts.Events.warn("read index", "", damaged)
	}
	r.mu.Lock()
	r.synced = asked
	locator := r.locator
	r.mu.Unlock()
	locator.renewed()
	return db, nil
}

// openIndex opens the local index when it is first needed. If another process
// has it, or there is no local state, a private one is filled from the
// repository.
func (r *Repository) openIndex() (*index.DB, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.db != nil {
		return r.db, nil
	}
	db, err := r.sharedIndex()
	if err != nil { // another process has it, or the folder cannot be used
		if !errors.Is(err, index.ErrBusy) {
			r.opts.Events.warn("use local state", r.state, err)
		}
		db, err = r.openPrivateIndex()
	}
	if err != nil {
		return nil, err
	}
	r.packs = r.openPackStores()
	r.useIndex(db)
	return db, nil
}

// replaceIndex takes a private index in place of one that failed, unless somebody
// has done so already.
func (r *Repository) replaceIndex(failed *index.DB) (*index.DB, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.db != failed {
		return r.db, nil
	}
	parent, err := privateTemp()
	if err != nil {
		return nil, err
	}
	db, err := index.OpenPrivate(parent, r.ID(), index.Options{})
	if err != nil {
		return nil, err
	}
	r.retired = append(r.retired, retiredIndex{r.db, r.locator})
	r.useIndex(db)
	return db, nil
}

// useIndex makes db the index that everybody asks. The caller holds mu.
func (r *Repository) useIndex(db *index.DB) {
	r.db = db
	r.locator = &locator{db: db, sync: func(ctx context.Context) (bool, error) {
		stats, err := db.Sync(ctx, r.store, r.sealer)
		return stats.Loaded+stats.Forgotten > 0, err
	}}
	r.fetch = fetch.New(fetch.Config{Store: r.packs.data, TreeStore: r.packs.trees, Sealer: r.sealer, Namer: r.namer, Locator: r.locator})
}

// openPrivateIndex prefers the folder of the local state, which may lie on a
// larger disk than /tmp.
func (r *Repository) openPrivateIndex() (*index.DB, error) {
	if r.state != "" {
		parent := filepath.Join(r.state, "private")
		if os.MkdirAll(parent, 0o700) == nil {
			if db, err := index.OpenPrivate(parent, r.ID(), index.Options{}); err == nil {
				return db, nil
			}
		}
	}
	parent, err := privateTemp()
	if err != nil {
		return nil, err
	}
	return index.OpenPrivate(parent, r.ID(), index.Options{})
}

// checkPrivate refuses a directory that others can enter, or made: below /tmp
// anybody may have been first.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory that only this user can enter", dir)
	}
	return nil
}

// sharedIndex opens the index that the processes of this machine share. The caller
// holds mu.
func (r *Repository) sharedIndex() (*index.DB, error) {
	if r.state == "" {
		return nil, index.ErrBusy
	}
	if db, opened, err := r.early.sharedIndex(); opened {
		return db, err
	}
	return openSharedIndex(r.state, r.ID())
}
