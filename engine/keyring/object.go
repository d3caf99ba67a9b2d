package keyring

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/packfile/wire"
	"github.com/zeebo/blake3"
)

// A key object. Its name is keys/<id>, where the id is the first 16 bytes of
// the BLAKE3 hash of the object in lower-case hexadecimal digits, so that damage
// shows without a key. Numbers are varints in their shortest form, strings have
// their length in front (see package wire). Magic and version stay where they
// are in every later version. Part of the format; do not change.
//
//	8 bytes   "SNAP-KEY"
//	1 byte    format version: 0
//	1 byte    kind: 1 passphrase, 2 x25519, 3 plugin, 4 plain, 5 hybrid
//	16 bytes  repository id
//	16 bytes  fingerprint: first 16 bytes of BLAKE3 derive-key, context
//	          "snapctl v0 key fingerprint", of data key || id key
//	16 bytes  random: no two key objects have one name
//	varint    creation time, seconds since 1970-01-01T00:00:00Z, at most 253402300799
//	string    recipient, as age prints it, at most 4096 bytes of the characters
//	          '!' to '~' without 'A' to 'Z'; empty for passphrase and plain
//	string    comment, at most 256 bytes of UTF-8 without U+0000 to U+001F, U+007F to
//	          U+009F, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069
//	rest      the content as an age file (binary, age-encryption.org/v1); for
//	          kind plain the content itself
//
// The content:
//
//	32 bytes  BLAKE3 hash of everything before the rest
//	32 bytes  data key
//	32 bytes  id key
//
// The hash binds the wrapped keys to the repository id and to the description
// of the holder: a key object that was edited or moved to another repository
// does not open.
const (
	magic       = "SNAP-KEY"
	contentSize = 96

	// MaxObject is the longest key object in bytes. An age file for one
	// post-quantum recipient has about 2 KiB.
	MaxObject = 64 << 10

	maxSecond = 253402300799 // 9999-12-31T23:59:59Z
)

// ID names a key object.
type ID [16]byte

// String is the 32 lower-case hexadecimal digits of id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads what String prints. Its error wraps ErrInvalid.
func ParseID(s string) (ID, error) {
	var id ID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) || hex.EncodeToString(b) != s {
		return ID{}, fmt.Errorf("%w: %q is not a key id of 32 hexadecimal digits", ErrInvalid, s)
	}
	return ID(b), nil
}

func idOf(object []byte) ID {
	sum := blake3.Sum256(object)
	return ID(sum[:len(ID{})])
}

// Object is a key object: its description and the wrapped material.
type Object struct {
	Info
	Random  [16]byte // makes the name of the object unique
	Wrapped []byte   // an age file, or for kind Plain the content in the clear
}

// header encodes everything before the wrapped content.
func (o *Object) header() []byte {
	b := append(make([]byte, 0, 128), magic...)
	b = append(b, config.Version, byte(o.Kind))
	b = append(b, o.Repository[:]...)
	b = append(b, o.Fingerprint[:]...)
	b = append(b, o.Random[:]...)
	b = binary.AppendUvarint(b, uint64(o.Created.Unix()))
	b = wire.AppendString(b, o.Recipient)
	return wire.AppendString(b, o.Comment)
}

// Encode returns the canonical encoding. It ignores the ID.
func (o *Object) Encode() []byte { return append(o.header(), o.Wrapped...) }

// DecodeObject is the inverse of Encode: what it accepts, Encode turns into the
// same bytes. It computes the ID. Errors wrap ErrDamaged or
// config.ErrNewerVersion.
func DecodeObject(b []byte) (*Object, error) {
	if len(b) > MaxObject {
		return nil, fmt.Errorf("key object: %w: longer than %d bytes", ErrDamaged, MaxObject)
	}
	d := wire.NewDecoder("key object", b)
	if string(d.Bytes(len(magic))) != magic {
		d.Fail("it does not start with %q", magic)
	}
	if v := d.Byte(); v > config.Version {
		return nil, &config.VersionError{Object: "key " + idOf(b).String(), Version: int(v), Known: config.Version}
	}
	o := &Object{Info: Info{ID: idOf(b), Kind: Kind(d.Byte())}}
	if !o.Kind.valid() {
		d.Fail("unknown %v", o.Kind)
	}
	copy(o.Repository[:], d.Bytes(len(o.Repository)))
	copy(o.Fingerprint[:], d.Bytes(len(o.Fingerprint)))
	copy(o.Random[:], d.Bytes(len(o.Random)))
	o.Created = time.Unix(int64(d.Uvarint(maxSecond)), 0).UTC()
	o.Recipient = string(d.String(MaxRecipient))
	o.Comment = string(d.String(MaxComment))
	o.Wrapped = bytes.Clone(d.Bytes(d.Len()))
	if d.Err() == nil {
		failOn(d, checkRecipient(o.Kind, o.Recipient), checkComment(o.Comment))
	}
	if o.Kind == Plain && len(o.Wrapped) != contentSize {
		d.Fail("plain content of %d bytes", len(o.Wrapped))
	}
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return o, nil
}

func failOn(d *wire.Decoder, errs ...error) {
	for _, err := range errs {
		if err != nil {
			d.Fail("%v", err)
		}
	}
}

func (o *Object) content(m Material) []byte {
	hash := blake3.Sum256(o.header())
	content := append(make([]byte, 0, contentSize), hash[:]...)
	content = append(content, m.Data[:]...)
	return append(content, m.ID[:]...)
}

// material reads unwrapped content and checks that it belongs to the object.
func (o *Object) material(content []byte) (Material, error) {
	var m Material
	d := wire.NewDecoder("key "+o.ID.String(), content)
	hash := blake3.Sum256(o.header())
	if !bytes.Equal(d.Bytes(len(hash)), hash[:]) {
		d.Fail("it was edited or belongs to another repository")
	}
	copy(m.Data[:], d.Bytes(len(m.Data)))
	copy(m.ID[:], d.Bytes(len(m.ID)))
	if d.Err() == nil && m.Fingerprint() != o.Fingerprint {
		d.Fail("the material has another fingerprint")
	}
	if err := d.Finish(); err != nil {
		return Material{}, err
	}
	return m, nil
}
