// Package commit is the publish protocol: how a snapshot becomes visible, all
// at once and for good, while any number of other writers publish and
// collectors delete, without locks and without trusting clocks.
//
// The steps of a writer; docs/format.md has the objects:
//
//	W1  read the dead lists of gc/: the view ([ReadView])
//	W2  reuse blobs only from packs in no dead list of the view
//	W3  put packs, then index segments that name them
//	W4  put pending/<session> with the complete manifest
//	W5  list gc/ from the view on; what new dead lists took is stored again;
//	    until a listing shows nothing new
//	W6  put-if-absent snapshots/<id>/<session>: the commit point
//	W7  delete pending/<session>
//
// W2 and W3 belong to the caller; [Publish] does W4 to W7. A snapshot is visible
// only after W6, and only then is success reported. A session is a fresh random
// name for each attempt: no two attempts ever write one object.
//
// The package also reads what is published ([List], [Load]) and keeps the labels
// that were given later ([Labels], [AddLabels]).
package commit

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/packfile/wire"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Errors that callers tell apart.
var (
	// ErrLost says that this attempt cannot be published: a collector expired
	// it, or a blob that a collector took could not be had again. A new attempt
	// can succeed.
	ErrLost = errors.New("attempt was overtaken by a collection; start over")
	// ErrNotFound says that there is no such snapshot.
	ErrNotFound = errors.New("no such snapshot")
	// ErrCondemnedUnknown says that a condemned list is damaged. The next collection
	// settles that nothing of it is deleted.
	ErrCondemnedUnknown = errors.New("which packs are about to be deleted is not known")
	// ErrUnneeded says of a damaged object that another one stands in for it.
	ErrUnneeded = errors.New("nothing is lost with it")
	// ErrForeign says that an object has no name of ours. It does no harm.
	ErrForeign = errors.New("not an object of a repository")
	// ErrDamaged says that a stored object is not what was written.
	ErrDamaged = wire.ErrDamaged
)

// Repo is the part of a repository that the protocol works on.
type Repo struct {
	Store  objectstore.Store
	Sealer *seal.Sealer
	Namer  *blob.Namer
}

// Session names one attempt to publish.
type Session string

// NewSession draws a fresh name of 128 random bits.
func NewSession() Session {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return Session(hex.EncodeToString(b[:]))
}

// The keys of the protocol.
const (
	pendingPrefix  = "pending/"
	snapshotPrefix = "snapshots/"
	gcPrefix       = "gc/"
	labelPrefix    = "labels/"
)

func pendingKey(s Session) string { return pendingPrefix + string(s) }

func snapshotKey(id blob.ID, s Session) string {
	return snapshotPrefix + id.String() + "/" + string(s)
}

// maxObject bounds the objects of the protocol in bytes before they are read.
const maxObject = seal.MaxContent + seal.Overhead

// failed names the object that an error is about, unless the store did.
func failed(key string, err error) error {
	var stored *objectstore.Error
	if errors.As(err, &stored) {
		return err
	}
	return fmt.Errorf("%s: %w", key, err)
}
