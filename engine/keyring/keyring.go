// Package keyring keeps the keys of a repository in the repository, each
// wrapped for one holder.
//
// What opens a repository is its [Material]: two random secrets that never
// change. For every [Holder] there is one key object with the material, wrapped
// with filippo.io/age for a passphrase, an age recipient or an age plugin, so
// that holders come and go ([Add], [Remove], [Rotate]) and no data is rewritten.
// [Unlock] tries the [Credentials] it is given on all key objects.
//
// A holder of the kind Plain has the material in the clear. The data of such a
// repository is sealed like any other, but the key lies next to it: it keeps
// nobody out. Unlock uses such a key only if the credentials allow it.
//
// Removing a holder does not take back what they know: whoever has unlocked a
// repository once can keep its material. And age recipients do not authenticate
// the sender: who can write to the store and knows a recipient can replace the
// whole repository by one of their own. A program that remembers the
// [Fingerprint] of the material notices.
//
// The functions keep no state and are safe for concurrent use, also by several
// processes on one repository.
package keyring

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/snapctl/snapctl/packfile/wire"
	"github.com/zeebo/blake3"
)

// Errors that callers tell apart.
var (
	// ErrWrongKey says that no credential opens the repository. The message
	// tells what was tried, and which holders there are.
	ErrWrongKey = errors.New("no credential opens the repository")
	// ErrLastKey says that a key was not removed because nobody could open
	// the repository afterwards.
	ErrLastKey = errors.New("it is the last key of the repository")
	// ErrDamaged says that a key object is not what was written, or belongs to
	// another repository.
	ErrDamaged = wire.ErrDamaged
	// ErrInvalid says that a passphrase, identity, recipient or comment cannot
	// be used.
	ErrInvalid = errors.New("invalid key")
)

// Material is the secret of a repository. Printing it with package fmt shows
// its fingerprint only.
type Material struct {
	Data [32]byte // the secret of seal.Key; every repository has its own
	ID   [32]byte // the key of blob.NewNamer; shared by a family
}

// NewMaterial draws the secrets of a repository in a family of its own.
func NewMaterial() Material {
	var m Material
	rand.Read(m.ID[:]) // never fails: crypto/rand ends the program instead
	return m.Sibling()
}

// Sibling draws the secrets of another repository of the same family.
func (m Material) Sibling() Material {
	rand.Read(m.Data[:])
	return m
}

// Fingerprint tells one material from another without giving it away.
type Fingerprint [16]byte

// String is the 32 hexadecimal digits of f.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// Fingerprint is the first half of a BLAKE3 key derived from both secrets. It
// stands in every key object: 512 random bits cannot be guessed from it.
func (m Material) Fingerprint() Fingerprint {
	var f Fingerprint
	blake3.DeriveKey("snapctl v0 key fingerprint", append(m.Data[:], m.ID[:]...), f[:])
	return f
}

// Format keeps the secrets out of logs, whatever the verb.
func (m Material) Format(s fmt.State, _ rune) {
	io.WriteString(s, "material "+m.Fingerprint().String())
}
