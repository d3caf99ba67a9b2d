// Package blob names content.
//
// A blob is a piece of plaintext: a chunk of file data, an encoded tree node, a
// manifest. Its [ID] is the keyed BLAKE3-256 hash of that plaintext, under a key
// of the repository family and of the blob's [Kind]. Equal content has equal
// ids within a family, whoever wrote it, and ids tell the store nothing about
// the content. Because each kind has its own key, a data blob can never be
// taken for a tree node, whatever bytes a hostile workspace holds.
//
// BLAKE3 is by O'Connor, Aumasson, Neves and Wilcox-O'Hearn; the
// implementation is zeebo/blake3.
package blob

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/zeebo/blake3"
)

// IDSize is the length of an ID in bytes.
const IDSize = 32

// ID names one blob. The zero ID names none.
type ID [IDSize]byte

// Kind says what a blob holds. The values are part of the format; do not change.
type Kind uint8

// The kinds of blobs.
const (
	Data     Kind = 1 // a chunk of file content, or a large xattr value
	Tree     Kind = 2 // an encoded tree node, content list or link list
	Manifest Kind = 3 // an encoded manifest: its id is the snapshot id; never in a pack
)

// Valid reports whether k may appear in a pack.
func (k Kind) Valid() bool { return k == Data || k == Tree }

func (k Kind) String() string {
	switch k {
	case Data:
		return "data"
	case Tree:
		return "tree"
	case Manifest:
		return "manifest"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ErrBadID says that a text is not an ID.
var ErrBadID = errors.New("not a blob id")

// ParseID reads the 64 lower-case hexadecimal digits that String prints.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*IDSize {
		return ID{}, fmt.Errorf("%w: %d characters, want %d", ErrBadID, len(s), 2*IDSize)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("%w: %q", ErrBadID, s)
	}
	if id.String() != s { // upper-case digits: one name has one spelling
		return ID{}, fmt.Errorf("%w: %q is not in lower case", ErrBadID, s)
	}
	return id, nil
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether id names no blob.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders ids by their bytes.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// Namer computes ids. It is safe for concurrent use.
type Namer struct {
	kinds [Manifest + 1]sync.Pool // of *blake3.Hasher, one keyed state per kind
}

// NewNamer returns the namer of a repository family. idKey is the family's
// secret: two repositories agree on ids exactly if they share it.
func NewNamer(idKey [32]byte) *Namer {
	n := new(Namer)
	for kind := Data; kind <= Manifest; kind++ {
		var key [32]byte
		blake3.DeriveKey("snapctl v0 blob id "+kind.String(), idKey[:], key[:])
		n.kinds[kind].New = func() any {
			h, err := blake3.NewKeyed(key[:])
			if err != nil {
				panic(err) // only for a key that is not 32 bytes long
			}
			return h
		}
	}
	return n
}

// ID names plaintext. It does not keep plaintext.
func (n *Namer) ID(kind Kind, plaintext []byte) ID {
	pool := &n.kinds[kind]
	h := pool.Get().(*blake3.Hasher)
	h.Reset()
	h.Write(plaintext)
	var id ID
	h.Sum(id[:0])
	pool.Put(h)
	return id
}
