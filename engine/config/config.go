// Package config is the codec of a repository's config object: who the
// repository is, and the parameters that all its writers must agree on.
//
// The object has a part that anyone can read (version, ids, creation time:
// [ReadHeader]) and a sealed part with everything else ([Open]). The sealed part
// repeats the open one, so an edited header does not open. [New] draws a new
// repository; [Config.Sibling] another one of the same family, which can
// exchange snapshots with it without chunking or hashing anything again.
//
// A config never changes once it is written.
package config

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/restic/chunker"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/packfile/wire"
)

// Object is the key of the config in the store.
const Object = "config"

// MaxSize is the longest config object in bytes: about ten times what version 0
// needs. What is longer is not read.
const MaxSize = 4 << 10

// Errors that callers tell apart. ErrNewerVersion comes as a *VersionError.
var (
	// ErrNotConfig says that the bytes are no config object at all.
	ErrNotConfig = errors.New("not the config of a snapctl repository")
	// ErrDamaged says that a config was altered, cut, or sealed under another
	// repository key.
	ErrDamaged = wire.ErrDamaged
	// ErrInvalid says that a parameter is out of its bounds.
	ErrInvalid = errors.New("invalid repository parameter")
)

// ID names a repository or a family of repositories. It is random and not secret.
type ID [16]byte

// String is the 32 hexadecimal digits of id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

func newID() ID {
	var id ID
	rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	return id
}

// Header is what a config says without a key. It is not authenticated before
// Open has succeeded.
type Header struct {
	Repository ID
	Family     ID        // repositories of one family share ids and chunking
	Created    time.Time // UTC, whole seconds
}

// Config is everything that the writers of a repository agree on.
type Config struct {
	Header
	Chunking Chunking
	// PackSize is the length in bytes at which a pack is finished, 1 to 256 MiB.
	PackSize uint32
	// FrameSize is the length of plaintext in bytes at which a frame is
	// sealed, 64 KiB to 16 MiB, not more than PackSize. With a chunk of at
	// most 16 MiB on top a frame stays below the 32 MiB of its format.
	FrameSize uint32
	// Level is the effort of compression of all packs.
	Level seal.Level
}

// Chunking says where files are cut, in the terms of restic/chunker. Two
// repositories deduplicate against each other only if it is the same in both.
type Chunking struct {
	Polynomial  chunker.Pol // irreducible, of degree 53
	Min         uint32      // bytes, 4 KiB to Max; a shorter file is one chunk
	Max         uint32      // bytes, at most 16 MiB
	AverageBits uint        // 10 to 26: behind Min a cut comes every 2^AverageBits bytes
}

// The bounds of the parameters. They limit what a damaged or hostile config can
// make a reader allocate.
const (
	degree = 53 // of the polynomials that restic/chunker draws

	minChunk  = 4 << 10
	maxChunk  = 16 << 20
	minBits   = 10
	maxBits   = 26
	minPack   = 1 << 20
	maxPack   = 256 << 20
	minFrame  = 64 << 10
	maxFrame  = 16 << 20
	maxSecond = 253402300799 // 9999-12-31T23:59:59Z, the last second that RFC 3339 can print
)

// New draws the ids and the polynomial of a repository in a family of its own,
// with the default parameters; the chunking is that of package chunk.
func New() (Config, error) {
	polynomial, err := chunker.RandomPolynomial()
	if err != nil {
		return Config{}, fmt.Errorf("draw a chunker polynomial: %w", err)
	}
	return Config{
		Header:    Header{Repository: newID(), Family: newID(), Created: now()},
		Chunking:  Chunking{Polynomial: polynomial, Min: 512 << 10, Max: 4 << 20, AverageBits: 19},
		PackSize:  16 << 20,
		FrameSize: 2 << 20,
		Level:     seal.Default,
	}, nil
}

// Sibling draws another repository of the same family, with the same
// parameters. It needs the same id key, and a data key of its own.
func (c Config) Sibling() Config {
	c.Repository, c.Created = newID(), now()
	return c
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// Validate checks that every parameter is in its bounds. Its error wraps
// ErrInvalid.
func (c Config) Validate() error {
	p := c.Chunking
	switch {
	case c.Repository == ID{} || c.Family == ID{}:
		return invalid("an id is zero")
	case c.Created.Unix() < 0 || c.Created.Unix() > maxSecond:
		return invalid("created at %d seconds since 1970", c.Created.Unix())
	case p.Polynomial.Deg() != degree || !p.Polynomial.Irreducible():
		return invalid("polynomial %v is not irreducible of degree %d", p.Polynomial, degree)
	case p.Min < minChunk || p.Min > p.Max || p.Max > maxChunk:
		return invalid("chunks of %d to %d bytes, allowed are %d to %d", p.Min, p.Max, minChunk, maxChunk)
	case p.AverageBits < minBits || p.AverageBits > maxBits:
		return invalid("average chunk of 2^%d bytes, allowed are 2^%d to 2^%d", p.AverageBits, minBits, maxBits)
	case c.PackSize < minPack || c.PackSize > maxPack:
		return invalid("packs of %d bytes, allowed are %d to %d", c.PackSize, minPack, maxPack)
	case c.FrameSize < minFrame || c.FrameSize > min(maxFrame, c.PackSize):
		return invalid("frames of %d bytes, allowed are %d to %d", c.FrameSize, minFrame, min(maxFrame, c.PackSize))
	case c.Level < seal.Default || c.Level > seal.Better:
		return invalid("compression level %d", c.Level)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
