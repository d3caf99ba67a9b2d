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
	cfg, material, err := newIdentity(opts)
	if err != nil {
		return nil, err
	}
	keys, err := keyring.Create(ctx, store, cfg.Repository, material, opts.Holders...)
	if err != nil {
		return nil, err
	}
	writeState(stateFolder(opts.OpenOptions, cfg.Repository), keyFile, []byte(keys[0].ID.String()), opts.Events)
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
	object, err := objectstore.ReadAll(ctx, store, config.Object, config.MaxSize)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, ErrNoRepository
	}
	if err != nil {
		return nil, err
	}
	header, err := config.ReadHeader(object)
	if errors.Is(err, config.ErrNotConfig) {
		return nil, fmt.Errorf("%w: %w", ErrNoRepository, err)
	}
	if err != nil {
		return nil, err
	}
	material, err := unlock(ctx, store, header.Repository, opts)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Open(object, newSealer(material, header.Family, seal.Default))
	if err != nil {
		return nil, err
	}
	return newRepository(store, cfg, material, opts), nil
}

func newRepository(store objectstore.Store, cfg config.Config, material keyring.Material, opts OpenOptions) *Repository {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	r := &Repository{
		store: store, config: cfg, material: material, opts: opts,
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
	if r.db == nil {
		return nil
	}
	err := errors.Join(r.locator.close(), r.packs.close(), r.db.Close())
	r.db, r.locator, r.fetch, r.synced = nil, nil, nil, time.Time{}
	return failed("close", "index", err)
}

// protocol is the repository as the publish protocol sees it.
func (r *Repository) protocol() commit.Repo {
	return commit.Repo{Store: r.store, Sealer: r.sealer, Namer: r.namer}
}

// index returns the local index, brought up to date with the repository.
func (r *Repository) index(ctx context.Context) (*index.DB, error) {
	db, err := r.openIndex()
	if err != nil {
		return nil, err
	}
	stats, err := db.Sync(ctx, r.store, r.sealer)
	if err != nil {
		return nil, err
	}
	for _, damaged := range stats.Damaged {
		r.opts.Events.warn("read index", "", damaged)
	}
	r.mu.Lock()
	r.synced = time.Now()
	r.mu.Unlock()
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
	db, err := r.openSharedIndex()
	if err != nil { // another process has it, or the folder cannot be used
		if !errors.Is(err, index.ErrBusy) {
			r.opts.Events.warn("use local state", r.state, err)
		}
		db, err = r.openPrivateIndex()
	}
	if err != nil {
		return nil, err
	}
	r.db = db
	r.locator = &locator{db: db}
	r.packs = r.openPackStores()
	r.fetch = fetch.New(fetch.Config{Store: r.packs.data, TreeStore: r.packs.trees, Sealer: r.sealer, Namer: r.namer, Locator: r.locator})
	return db, nil
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
	parent := fmt.Sprintf("/tmp/snapctl-%d", os.Geteuid())
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("local state: %w", err)
	}
	if err := checkPrivate(parent); err != nil {
		return nil, fmt.Errorf("local state: %w", err)
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

func (r *Repository) openSharedIndex() (*index.DB, error) {
	if r.state == "" {
		return nil, index.ErrBusy
	}
	if err := os.MkdirAll(r.state, 0o700); err != nil {
		return nil, fmt.Errorf("local state: %w", err)
	}
	return index.Open(filepath.Join(r.state, "index"), r.ID(), index.Options{})
}
