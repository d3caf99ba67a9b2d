// Package index answers which pack holds a blob.
//
// The index of a repository is a set of segments in its object store: sealed
// objects that describe packs, written once, never changed ([WriteSegments],
// [DecodeSegment]). Many small segments are merged into few large ones by a
// [Plan]; a lost index is made again from the footers of the packs ([Rebuild]).
//
// A [DB] is a local copy of those segments, sorted by blob id in a Pebble
// database. It is only a cache: [DB.Sync] brings it up to date, and a database
// that is damaged or belongs to another repository is discarded when it is
// opened. Packs that were uploaded but that no segment names yet are kept in it
// too ([DB.AddPacks]), so that the next attempt of an interrupted session finds
// them. A [Reader] looks blobs up, in microseconds, with memory bounded whatever
// the size of the repository.
//
// A DB is safe for concurrent use; a Reader belongs to one goroutine.
package index

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/index/localdb"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
)

// Errors that callers tell apart.
var (
	// ErrDamaged says that a segment is not what its name or the key promise.
	ErrDamaged = seal.ErrDamaged
	// ErrBusy says that another process, or another DB of this one, has the
	// database open.
	ErrBusy = errors.New("index is in use by another process")
	// ErrChanging says that segments vanished during every attempt to read
	// them. It is retryable.
	ErrChanging = errors.New("index was changed again and again while it was read")
	// ErrFailed says that the local database met an error that it cannot go
	// on after. It has to be closed; opened again, it repairs itself.
	ErrFailed = localdb.ErrFailed
)

// Error says which operation failed, on what, and why.
type Error struct {
	Op     string // a verb: "open", "read segment", "describe pack", ...
	Object string // a directory, or the key of an object
	Err    error
}

func (e *Error) Error() string { return e.Op + " " + e.Object + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// SegmentName names a segment: the BLAKE3-256 hash of the whole sealed object.
type SegmentName [32]byte

// ParseSegmentName reads the 64 lower-case hexadecimal digits that String prints.
func ParseSegmentName(s string) (SegmentName, error) {
	id, err := blob.ParseID(s)
	if err != nil {
		return SegmentName{}, fmt.Errorf("segment name: %w", err)
	}
	return SegmentName(id), nil
}

func (n SegmentName) String() string { return hex.EncodeToString(n[:]) }

// Key is the key of the segment in the object store.
func (n SegmentName) Key() string { return Prefix + n.String() }

// SegmentInfo describes a segment.
type SegmentInfo struct {
	Name  SegmentName
	Size  int64           // bytes of the sealed object
	Packs []packfile.Name // that it describes, ascending; not filled in by listings
}

// PackSet is a set of packs. The nil set is empty.
type PackSet map[packfile.Name]struct{}

// Has reports whether the pack is in the set.
func (s PackSet) Has(name packfile.Name) bool {
	if len(s) == 0 {
		return false
	}
	_, ok := s[name]
	return ok
}
