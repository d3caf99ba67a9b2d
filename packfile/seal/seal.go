// Package seal compresses and encrypts one unit, and opens it again,
// authenticated.
//
// A unit is whatever the store sees as one opaque run of bytes: a frame, a pack
// footer, an index segment, a snapshot. Every unit has a key of its own, derived
// from the repository key and a salt stored with the unit, so that no nonce is
// ever used twice under one key. The salt is a keyed hash of kernel randomness
// and of what is encrypted: a virtual machine that is resumed twice from one
// image may repeat its random state, but then only equal plaintexts get equal
// salts.
//
// A [Sealer] is made from a repository key and is safe for concurrent use.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/snapctl/snapctl/packfile/wire"
	"github.com/zeebo/blake3"
)

// Unit says what a sealed run of bytes is. It is bound into the
// authentication, so that one unit can never pass for another. The values are
// part of the format; do not change.
type Unit uint8

// The units of a repository.
const (
	DataFrame Unit = 1
	TreeFrame Unit = 2
	Footer    Unit = 3
	Segment   Unit = 4
	Snapshot  Unit = 5
	Pending   Unit = 6
	Config    Unit = 7
	Label     Unit = 8
	Condemned Unit = 9
	Final     Unit = 10
	Tombstone Unit = 11
	Intent    Unit = 12
	Damage    Unit = 13
	Remote    Unit = 14
	Probe     Unit = 15
	Verified  Unit = 16
)

var unitNames = [...]string{
	DataFrame: "data frame", TreeFrame: "tree frame", Footer: "pack footer", Segment: "index segment",
	Snapshot: "snapshot", Pending: "pending snapshot", Config: "config", Label: "label", Condemned: "condemned list",
	Final: "final list", Tombstone: "tombstone", Intent: "intent", Damage: "damage record",
	Remote: "remote", Probe: "probe of the store", Verified: "record of what was verified",
}

func (u Unit) String() string {
	if int(u) < len(unitNames) && unitNames[u] != "" {
		return unitNames[u]
	}
	return fmt.Sprintf("unit %d", uint8(u))
}

// A sealed unit. Integers are little endian. Part of the format; do not change.
//
//	offset  bytes  content
//	0       32     salt
//	32      n      AES-256-GCM of the body, nonce of 12 zero bytes
//	32+n    16     GCM tag; additional data = family (16) || unit (1)
//
// The key is BLAKE3-derive-key("snapctl v0 unit key", secret (32) || salt ||
// family || unit || name). How a writer makes the salt is not part of the format. The
// name is empty but for a sealer that At returned.
//
// The body:
//
//	0       1      method: 0 stored, 1 zstd
//	1       4      length of the content in bytes
//	5       n-5    the content as the method says
const (
	saltSize   = 32
	tagSize    = 16
	bodyHeader = 1 + 4

	methodStored = 0
	methodZstd   = 1
)

// Overhead is how many bytes longer than its content an incompressible unit is.
const Overhead = saltSize + bodyHeader + tagSize

// MaxContent is the longest content of a unit in bytes.
const MaxContent = 64 << 20

// ErrDamaged says that a unit is not what was sealed under this key: it was
// altered, cut, or belongs to another repository, to another unit or under another
// name.
var ErrDamaged = wire.ErrDamaged

// Key is the secret of a repository. Family binds the units to the repositories
// that share their chunker and id key; it is not secret.
type Key struct {
	Secret [32]byte
	Family [16]byte
}

// Sealer seals and opens the units of one repository.
type Sealer struct {
	key      Key
	name     string // see At
	saltKey  [32]byte
	encoder  *zstd.Encoder
	decoder  *zstd.Decoder
	randomly func([]byte)
}

// Level is the effort of compression.
type Level int

// The levels of compression, by klauspost/compress names.
const (
	Default Level = iota // a good ratio at the speed of a disk
	Fastest
	Better
)

func (l Level) zstd() zstd.EncoderLevel {
	switch l {
	case Fastest:
		return zstd.SpeedFastest
	case Better:
		return zstd.SpeedBetterCompression
	}
	return zstd.SpeedDefault
}

// window bounds the back references of the compressor, hence its memory: about
// 2 x window for each unit that is compressed at the same time.
const window = 2 << 20

// New returns the sealer of a repository. Close need not be called.
func New(key Key, level Level) *Sealer {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level.zstd()), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constants
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxContent),
		zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err)
	}
	s := &Sealer{key: key, encoder: encoder, decoder: decoder, randomly: func(b []byte) { rand.Read(b) }}
	blake3.DeriveKey("snapctl v0 salt", key.Secret[:], s.saltKey[:])
	return s
}

// At returns the sealer of the unit that lies under a name, in all else like s: what it
// seals opens under no other name. Packs and segments, whose names are their hashes, need
// none.
func (s *Sealer) At(name string) *Sealer {
	at := *s
	at.name = name
	return &at
}

// Seal appends the sealed content to dst and returns the longer slice. identity
// determines the content: the ids of the blobs of a frame, the content itself
// for other units; the salt takes it. Content longer than MaxContent panics: the
// caller decides sizes, so that is a mistake of the program.
func (s *Sealer) Seal(dst []byte, unit Unit, identity, content []byte) []byte {
	if len(content) > MaxContent {
		panic("seal: content is longer than MaxContent")
	}
	start := len(dst)
	dst = slices.Grow(dst, Overhead+len(content)+maxExpansion(len(content)))
	dst = appendBody(dst[:start+saltSize], content, s.encoder)
	dst = slices.Grow(dst, tagSize) // so that the body is encrypted in place
	salt, body := dst[start:start+saltSize], dst[start+saltSize:]
	s.salt(salt[:0], identity, body)
	s.aead(unit, salt).Seal(body[:0], zeroNonce[:], body, s.additional(unit))
	return dst[:len(dst)+tagSize]
}

// maxExpansion is how much longer than its n bytes of content zstd can make a
// frame: a header of at most 14 bytes and 3 bytes for each block of 128 KiB.
func maxExpansion(n int) int { return 14 + 3*(1+n>>17) }

// appendBody appends method, length and the shorter of the compressed and the
// stored content. It compresses all content to see: a cheap look first would
// save next to nothing, since the compressor passes over what does not compress
// at 2.5 GB/s (in a workspace where that was 21 percent of the bytes, it took
// 1.2 percent of the time).
func appendBody(dst, content []byte, encoder *zstd.Encoder) []byte {
	start := len(dst)
	dst = append(dst, methodZstd)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(content)))
	dst = encoder.EncodeAll(content, dst)
	if len(dst)-start-bodyHeader < len(content) {
		return dst
	}
	dst = dst[:start+bodyHeader]
	dst[start] = methodStored
	return append(dst, content...)
}

// Open authenticates sealed and appends its content to dst. Content longer than
// limit bytes is refused before it is allocated. sealed is overwritten, and must
// not overlap dst. After an error, which wraps ErrDamaged, dst is as long as it
// was.
func (s *Sealer) Open(dst []byte, unit Unit, sealed []byte, limit int) ([]byte, error) {
	if len(sealed) < Overhead {
		return dst, fmt.Errorf("%v: %w: only %d bytes long", unit, ErrDamaged, len(sealed))
	}
	salt, text := sealed[:saltSize], sealed[saltSize:]
	body, err := s.aead(unit, salt).Open(text[:0], zeroNonce[:], text, s.additional(unit))
	if err != nil {
		return dst, fmt.Errorf("%v: %w: authentication failed", unit, ErrDamaged)
	}
	dst, err = appendContent(dst, body, max(0, min(limit, MaxContent)), s.decoder)
	if err != nil {
		return dst, fmt.Errorf("%v: %w: %w", unit, ErrDamaged, err)
	}
	return dst, nil
}

func appendContent(dst, body []byte, limit int, decoder *zstd.Decoder) ([]byte, error) {
	method, length, payload := body[0], binary.LittleEndian.Uint32(body[1:]), body[bodyHeader:]
	if uint64(length) > uint64(limit) {
		return dst, fmt.Errorf("content of %d bytes is longer than %d", length, limit)
	}
	switch method {
	case methodStored:
		if len(payload) != int(length) {
			return dst, fmt.Errorf("%d bytes stored, %d announced", len(payload), length)
		}
		return append(dst, payload...), nil
	case methodZstd:
		start := len(dst)
		dst = slices.Grow(dst, int(length))
		out, err := decoder.DecodeAll(payload, dst[:start:start+int(length)])
		if err != nil {
			return dst, fmt.Errorf("decompress: %w", err)
		}
		if len(out) != start+int(length) {
			return dst, fmt.Errorf("%d bytes decompressed, %d announced", len(out)-start, length)
		}
		// Not out: its capacity was cut, and the caller may want to use dst again.
		return dst[:len(out)], nil
	}
	return dst, fmt.Errorf("unknown method %d", method)
}

// zeroNonce is safe because no key seals two bodies.
var zeroNonce [12]byte

// salt appends a salt that two units share only if they were given the same
// randomness and have the same body. The identity determines a stored body. It
// does not determine a compressed one, which depends on the level and on the
// version of the compressor too, so that is hashed itself: 1 to 2 percent of the
// time that compressing it took. To hash a stored body as well would add half to
// the time of sealing it (1 MiB: 0.3 ms to 0.7).
func (s *Sealer) salt(dst, identity, body []byte) []byte {
	var random [32]byte
	s.randomly(random[:])
	h, err := blake3.NewKeyed(s.saltKey[:])
	if err != nil {
		panic(err) // only for a key that is not 32 bytes long
	}
	h.Write(random[:])
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(identity))))
	h.Write(identity)
	if body[0] == methodStored {
		body = body[:bodyHeader]
	}
	h.Write(body)
	return h.Sum(dst)
}

func (s *Sealer) aead(unit Unit, salt []byte) cipher.AEAD {
	material := make([]byte, 0, len(s.key.Secret)+saltSize+len(s.key.Family)+1+len(s.name))
	material = append(append(material, s.key.Secret[:]...), salt...)
	material = append(append(material, s.key.Family[:]...), byte(unit))
	material = append(material, s.name...)
	var key [32]byte
	blake3.DeriveKey("snapctl v0 unit key", material, key[:])
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // only for a key of another length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

func (s *Sealer) additional(unit Unit) []byte {
	return append(append(make([]byte, 0, len(s.key.Family)+1), s.key.Family[:]...), byte(unit))
}
