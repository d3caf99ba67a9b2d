package config

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/restic/chunker"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/packfile/wire"
)

// A config object. Integers are little endian. Magic and version stay where
// they are in every later version. Part of the format; do not change.
//
//	offset  bytes  content
//	0       8      "SNAPCONF"
//	8       1      format version: 0
//	9       7      zero
//	16      16     repository id, not zero
//	32      16     family id, not zero
//	48      8      creation time, seconds since 1970-01-01T00:00:00Z
//	56      n      sealed unit "config" (see package seal), to the end
//
// The content of the sealed unit. Numbers are varints in their shortest form
// (see package wire).
//
//	56 bytes  the first 56 bytes of the object again
//	8 bytes   chunker polynomial, little endian
//	varint    shortest chunk, bytes
//	varint    longest chunk, bytes
//	varint    average bits of the chunker
//	varint    target size of a pack, bytes
//	varint    target size of a frame, bytes
//	1 byte    compression level: 0 default, 1 fastest, 2 better
const (
	magic      = "SNAPCONF"
	headerSize = 56
)

// levels holds the compression levels at the byte that stands for them.
var levels = [...]seal.Level{seal.Default, seal.Fastest, seal.Better}

// Encode returns the config object, sealed by a sealer that has the key of the
// repository and the family id of the config. Parameters out of bounds are
// ErrInvalid.
func (c Config) Encode(sealer *seal.Sealer) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	object := appendHeader(make([]byte, 0, 2*headerSize+seal.Overhead+64), c.Header)
	content := c.appendParameters(bytes.Clone(object))
	return sealer.Seal(object, seal.Config, content, content), nil
}

func appendHeader(b []byte, h Header) []byte {
	b = append(b, magic...)
	b = append(b, Version, 0, 0, 0, 0, 0, 0, 0)
	b = append(b, h.Repository[:]...)
	b = append(b, h.Family[:]...)
	return binary.LittleEndian.AppendUint64(b, uint64(h.Created.Unix()))
}

func (c Config) appendParameters(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Chunking.Polynomial))
	b = binary.AppendUvarint(b, uint64(c.Chunking.Min))
	b = binary.AppendUvarint(b, uint64(c.Chunking.Max))
	b = binary.AppendUvarint(b, uint64(c.Chunking.AverageBits))
	b = binary.AppendUvarint(b, uint64(c.PackSize))
	b = binary.AppendUvarint(b, uint64(c.FrameSize))
	for code, level := range levels {
		if level == c.Level {
			b = append(b, byte(code))
		}
	}
	return b
}

// ReadHeader reads the open part of a config object, of which b may be a
// prefix. Errors are ErrNotConfig, ErrNewerVersion and ErrDamaged.
func ReadHeader(b []byte) (Header, error) {
	if !bytes.HasPrefix(b, []byte(magic)) {
		return Header{}, fmt.Errorf("%w: it does not start with %q", ErrNotConfig, magic)
	}
	d := wire.NewDecoder("config", b[len(magic):])
	if v := d.Byte(); v > Version {
		return Header{}, &VersionError{Object: "repository", Version: int(v), Known: Version}
	}
	if !bytes.Equal(d.Bytes(7), make([]byte, 7)) {
		d.Fail("reserved header bytes are not zero")
	}
	h := Header{Repository: decodeID(d), Family: decodeID(d)}
	var seconds uint64
	if raw := d.Bytes(8); len(raw) == 8 {
		seconds = binary.LittleEndian.Uint64(raw)
	}
	if seconds > maxSecond {
		d.Fail("created at %d seconds since 1970", seconds)
	}
	if d.Err() != nil {
		return Header{}, d.Err()
	}
	h.Created = time.Unix(int64(seconds), 0).UTC()
	return h, nil
}

func decodeID(d *wire.Decoder) ID {
	var id ID
	copy(id[:], d.Bytes(len(id)))
	if id == (ID{}) {
		d.Fail("zero id")
	}
	return id
}

// Open reads a whole config object with a sealer that has the key of the
// repository and the family id that ReadHeader told. Errors are ErrNotConfig,
// ErrNewerVersion and ErrDamaged. It does not change b.
func Open(b []byte, sealer *seal.Sealer) (Config, error) {
	if len(b) > MaxSize {
		return Config{}, fmt.Errorf("config: %w: longer than %d bytes", ErrDamaged, MaxSize)
	}
	header, err := ReadHeader(b)
	if err != nil {
		return Config{}, err
	}
	content, err := sealer.Open(nil, seal.Config, bytes.Clone(b[headerSize:]), MaxSize)
	if err != nil {
		return Config{}, err
	}
	d := wire.NewDecoder("config", content)
	if !bytes.Equal(d.Bytes(headerSize), b[:headerSize]) {
		d.Fail("the open header is not the sealed one")
	}
	c := decodeParameters(d)
	c.Header = header
	if err := d.Finish(); err != nil {
		return Config{}, err
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("config: %w: %w", ErrDamaged, err)
	}
	return c, nil
}

func decodeParameters(d *wire.Decoder) Config {
	var c Config
	if raw := d.Bytes(8); len(raw) == 8 {
		c.Chunking.Polynomial = chunker.Pol(binary.LittleEndian.Uint64(raw))
	}
	c.Chunking.Min = uint32(d.Uvarint(maxChunk))
	c.Chunking.Max = uint32(d.Uvarint(maxChunk))
	c.Chunking.AverageBits = uint(d.Uvarint(maxBits))
	c.PackSize = uint32(d.Uvarint(maxPack))
	c.FrameSize = uint32(d.Uvarint(maxFrame))
	code := d.Byte()
	if int(code) >= len(levels) {
		d.Fail("unknown compression level %d", code)
		return c
	}
	c.Level = levels[code]
	return c
}
