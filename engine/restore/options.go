package restore

import (
	"context"
	"runtime"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Source gives the blobs of a repository. It is safe for concurrent use; a
// *fetch.Fetcher is one.
type Source interface {
	// Node returns a tree blob, verified. Its bytes are not changed.
	Node(ctx context.Context, id blob.ID) ([]byte, error)
	// Blob returns any blob, verified.
	Blob(ctx context.Context, kind blob.Kind, id blob.ID) ([]byte, error)
	// Blobs reads many blobs, in an order of its choice. deliver is called once
	// for each, from several goroutines, with its index in ids and either its
	// verified bytes, which are only valid during the call, or the reason why it
	// cannot be had. An error of deliver ends the read and is returned.
	Blobs(ctx context.Context, kind blob.Kind, ids []blob.ID, deliver func(i int, plaintext []byte, err error) error) error
	// Name computes the id of plaintext.
	Name(kind blob.Kind, plaintext []byte) blob.ID
}

// Snapshot is what to restore.
type Snapshot struct {
	Root  blob.ID // of the root node
	Links blob.ID // of the list of hard-link groups; zero if there is none
	// Bytes is the size of all files, holes included, as the manifest counts
	// them; 0 if unknown. It only spares a look at the whole tree: if it fits
	// into the free space of the target, nothing is added up beforehand.
	Bytes uint64
}

// Options say where and how to restore. The zero value, but for Target, is a
// complete restore that leaves extra files alone.
type Options struct {
	// Target is the directory that becomes the root of the snapshot. If it
	// does not exist, it appears when the restore is complete; its parent has
	// to exist.
	Target string
	// Paths restores only these files and directories, named by their paths
	// below the root; they keep their place. Empty: everything.
	Paths []string
	// Delete removes what the snapshot lacks, within Paths.
	Delete bool
	// Rescan compares files by content, not by size and mtime.
	Rescan bool
	// Known, if not nil, says what the files in Target held when they were
	// last seen.
	Known Known

	Owner Owner
	// MapOwner, if not nil, turns stored owners into those to restore.
	MapOwner func(uid, gid uint32) (mappedUID, mappedGID uint32)
	Special  Special
	// Privileged restores setuid and setgid bits of files and
	// security.capability attributes. The setgid bit of a directory gives no
	// privilege, it hands the group on, and is always restored.
	Privileged bool
	// Sync flushes the target's filesystem before Run returns.
	Sync bool

	// Workers is how many goroutines compare and write at a time; 0 means as
	// many as processors, at most 8.
	Workers  int
	Limits   Limits
	Progress func(Progress) // may be nil; never called twice at a time; must not block

	hook func(step, path string) // of tests: called before each step that changes the target
}

// Owner says who owns what is restored.
type Owner uint8

// The owner policies.
const (
	OwnerAuto   Owner = iota // stored owners if the effective user is root, else the caller
	OwnerStored              // stored owners; what cannot be given away is reported as failed
	OwnerCaller              // whoever creates files here
)

// Special says what to do about FIFOs, sockets and device nodes.
type Special uint8

// The policies for special files.
const (
	SpecialSkipDevices Special = iota // make FIFOs and sockets, report devices as skipped
	SpecialAll                        // make everything
	SpecialNone                       // report all of them as skipped
)

// Limits bound what a snapshot may ask for, so that a hostile one cannot
// exhaust the host. 0 means the default.
type Limits struct {
	MaxEntries uint64 // files, directories, links, ...; default 1<<28
	MaxBytes   uint64 // to write; default: what is free in the target's filesystem
	MaxDepth   int    // nested directories; default 1<<14
}

// Known remembers files as they were when their content was read, as a stat
// cache does. A nil Known knows nothing.
type Known interface {
	// Dir returns what is known of the files in the directory at path below
	// the root, by name. It may be called from several goroutines.
	Dir(ctx context.Context, path string) (map[string]KnownFile, error)
}

// KnownFile is the state of a file together with the content that it had then.
// While inode, size and both times are the same, the content is too.
type KnownFile struct {
	Inode   uint64
	Size    uint64
	MTime   manifest.Time
	CTime   manifest.Time
	Content manifest.Content
}

// Progress is how far a restore is.
type Progress struct {
	Entries uint64 // looked at so far
	Files   uint64 // written so far
	Bytes   uint64 // of content written so far
	Current string // a path that was worked on just now
}

const (
	defaultMaxEntries = 1 << 28
	defaultMaxDepth   = 1 << 14
	maxWorkers        = 8
)

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), maxWorkers)
	}
	if o.Limits.MaxEntries == 0 {
		o.Limits.MaxEntries = defaultMaxEntries
	}
	if o.Limits.MaxDepth == 0 {
		o.Limits.MaxDepth = defaultMaxDepth
	}
	return o
}
