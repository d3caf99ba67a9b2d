package engine

import (
	"time"

	"filippo.io/age"

	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
)

// ID names a snapshot.
type ID = blob.ID

// Credentials open a repository. The zero value opens none: one without
// encryption needs Insecure, so that it cannot take the place of another.
type Credentials = keyring.Credentials

// OpenOptions say how to open a repository.
type OpenOptions struct {
	Credentials Credentials
	// StateDir is the folder of local state: the index and the stat caches of
	// all repositories. Everything in it can be rebuilt. Empty: nothing is kept,
	// and every process reads the index anew, into a private folder below /tmp.
	StateDir string
	// Place is what the caller calls the store, such as its URL. With it and local
	// state, Open asks for the config and for the key that opened the place last at
	// the same time. Empty: for one after the other.
	Place string
	// ForSnapshot says that a snapshot comes next: Open asks for the listing of the
	// index too, which that needs. It is good for a minute.
	ForSnapshot bool
	// CacheBytes is how much of the packs that are read is kept below StateDir,
	// for a store at the end of a network: 0 is nothing, otherwise at least 256
	// MiB. Tree blobs have a cache of the same size beside it, which keeps also
	// those that are written.
	CacheBytes int64
	// VerifyUploads asks the store for the size of each new pack before a
	// snapshot is published: one request a pack. It finds stores that acknowledge
	// what they do not keep.
	VerifyUploads bool
	Events        Events
	// Tool is written into snapshots: name and version of the program.
	Tool string
	// Now is the clock of manifests; nil is time.Now.
	Now func() time.Time
}

// InitOptions say how to make a repository.
type InitOptions struct {
	OpenOptions
	// Holders are who can open it; at least one.
	Holders []keyring.Holder
	// Compression is the effort that all writers of the repository spend.
	Compression Compression
	// Like makes the repository a sibling of another one, so that they can push
	// and pull: it names blobs and cuts files in the same way. Its data is
	// encrypted under a key of its own. Compression is then the other's unless it
	// is set.
	Like *Repository
}

// Compression is an effort of compression. On a workspace of sources, fastest
// takes two thirds of the time of default and 7 percent more space, better twice
// the time and 5 percent less.
type Compression = seal.Level

// The efforts of compression.
const (
	CompressDefault = seal.Default
	CompressFastest = seal.Fastest
	CompressBetter  = seal.Better
)

// SnapshotOptions say what to save and how. The zero value, but for Path, saves
// everything.
type SnapshotOptions struct {
	Path   string // root of the workspace
	Source string // what to call it; empty: Path, absolute
	Labels map[string]string
	Parent ID // zero: the newest snapshot of the source that this machine took

	Exclude     []string // patterns in the syntax of gitignore, relative to the root
	GitIgnore   bool     // honour .gitignore files and .git/info/exclude
	CacheDirTag bool     // leave out directories tagged by CACHEDIR.TAG
	OneFS       bool     // stay on the filesystem of the root
	Xattrs      []string // names or prefixes ending in "." to keep beyond the default list

	Consistency manifest.Consistency // zero: Live
	Rescan      bool                 // read every file, trust no cache
	Sync        bool                 // flush the filesystem first
	// SkipUnchanged returns the parent, without writing, if nothing changed.
	SkipUnchanged bool
	DryRun        bool // read and count, write nothing
	Workers       int  // 0: as many as processors, at most 8
}

// SnapshotResult is what a snapshot did. Fields are only ever added.
type SnapshotResult struct {
	Snapshot    ID
	Root        ID
	Parent      ID
	Counts      manifest.Counts
	Omissions   []manifest.Omission
	Consistency manifest.Consistency
	ReadBytes   uint64 // of file content read
	ReadFiles   uint64 // files whose content was read
	NewBytes    uint64 // of blobs that the repository lacked, before compression
	NewBlobs    uint64
	StoredBytes uint64 // of objects written
	NewPacks    int
	Unchanged   bool // root and links equal the parent's
	Skipped     bool // nothing was written: Snapshot is the parent
	Duration    time.Duration
}

// Partial reports whether something that should be in the snapshot is not.
func (r *SnapshotResult) Partial() bool { return r.Counts.Unreadable > 0 || r.Counts.Torn > 0 }

// ForkOptions say how a fork differs from its origin.
type ForkOptions struct {
	Labels map[string]string // replace the origin's
	Source string            // empty: the origin's
}

// Info describes one snapshot of a listing.
type Info struct {
	ID       ID
	Manifest *manifest.Manifest
	Labels   map[string]string // initial and later ones together
}

// Filter narrows a listing. The zero value lets everything through.
type Filter struct {
	Labels map[string]string // each must be there; an empty value matches any value
	Source string            // equal, or a suffix after ":" such as the bare path
	After  time.Time
	Before time.Time
	Newest int // keep only so many, the newest; 0: all
}

// KeyInfo describes a key of a repository.
type KeyInfo = keyring.Info

// Identity is an age identity that can open a repository.
type Identity = age.Identity
