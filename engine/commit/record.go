package commit

import (
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/packfile/wire"
)

// Record is the content of a published snapshot: the manifest, by which it has
// its id, and beside it the packs of this repository that hold its blobs.
type Record struct {
	Manifest *manifest.Manifest
	// Packs holds every pack that a restore needs, and perhaps more, sorted. It
	// makes "is everything still there" a set intersection.
	Packs []packfile.Name
}

// ID returns the snapshot id: the id of the encoded manifest.
func (r Record) ID(namer *blob.Namer) blob.ID {
	return namer.ID(blob.Manifest, r.Manifest.Encode())
}

// The content of snapshots/<id>/<session> and of pending/<session>. Part of the
// format; do not change.
//
//	string  encoded manifest
//	list    of packs, see EncodeNames

// Encode returns the canonical encoding.
func (r Record) Encode() []byte {
	return appendNames(wire.AppendString(nil, r.Manifest.Encode()), r.Packs)
}

// DecodeRecord is the inverse of Encode. Errors wrap ErrDamaged.
func DecodeRecord(b []byte) (Record, error) {
	d := wire.NewDecoder("snapshot", b)
	encoded := d.String(manifest.MaxManifest)
	packs := decodeNames(d)
	if err := d.Finish(); err != nil {
		return Record{}, err
	}
	m, err := manifest.Decode(encoded)
	if err != nil {
		return Record{}, err
	}
	return Record{Manifest: m, Packs: packs}, nil
}

// A tombstone stands at the key of a snapshot that was forgotten, or of an
// attempt that expired. Its content tells which, and so does its length, so that a
// listing shows it; any record is longer, since it holds a root id, which does not
// compress. Part of the format; do not change.
//
//	1     forgotten
//	2, 2  expired
var (
	forgotten = []byte{1}
	expired   = []byte{2, 2}
)

const (
	forgottenSize = seal.Overhead + 1
	expiredSize   = seal.Overhead + 2
)

// State says what stands at the key of a snapshot.
type State uint8

// The states of a snapshot's key, as its length shows them.
const (
	StatePublished State = iota + 1
	StateForgotten
	StateExpired
)

func stateOf(size int64) State {
	switch size {
	case forgottenSize:
		return StateForgotten
	case expiredSize:
		return StateExpired
	}
	return StatePublished
}
