// Package wire reads and writes the canonical binary encoding that every codec
// of the format is made of: numbers are LEB128 varints in their shortest form,
// byte strings carry their length in front. Each value has one encoding, so
// that what decodes re-encodes to identical bytes, and every length is checked
// against a bound and against the bytes at hand before anything is allocated.
//
// Writers append with [encoding/binary] and [AppendString]; readers use a
// [Decoder].
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrDamaged says that stored bytes are not what was written.
var ErrDamaged = errors.New("damaged")

// AppendString appends the length of s and its bytes.
func AppendString[T string | []byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// Decoder reads one encoded value after the other. It keeps the first error;
// after that every read returns a zero value, so that callers check once, by
// Finish, or before they act on a count.
type Decoder struct {
	what string
	rest []byte
	err  error
}

// NewDecoder reads from b. what names the encoded thing in errors.
func NewDecoder(what string, b []byte) *Decoder { return &Decoder{what: what, rest: b} }

// Fail records that the value is malformed. Only the first failure counts.
func (d *Decoder) Fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: %w: %s", d.what, ErrDamaged, fmt.Sprintf(format, args...))
	}
	d.rest = nil
}

// Check records a broken rule: that the decoded value is not one that a writer
// would have encoded. A nil error is none.
func (d *Decoder) Check(rule error) {
	if rule != nil {
		d.Fail("%v", rule)
	}
}

// Err returns the first failure. It wraps ErrDamaged.
func (d *Decoder) Err() error { return d.err }

// Len is the number of bytes that were not read yet.
func (d *Decoder) Len() int { return len(d.rest) }

// Finish returns the first failure; bytes left over are one.
func (d *Decoder) Finish() error {
	if len(d.rest) > 0 {
		d.Fail("%d bytes too many", len(d.rest))
	}
	return d.err
}

// Uvarint reads a number of at most limit.
func (d *Decoder) Uvarint(limit uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.rest)
	switch {
	case n == 0:
		d.Fail("cut short")
	case n < 0 || n > 1 && d.rest[n-1] == 0: // beyond 64 bits, or padded
		d.Fail("not a number in its shortest form")
	case v > limit:
		d.Fail("%d is larger than %d", v, limit)
	default:
		d.rest = d.rest[n:]
		return v
	}
	return 0
}

// Varint reads a signed number (zigzag).
func (d *Decoder) Varint() int64 {
	u := d.Uvarint(math.MaxUint64)
	return int64(u>>1) ^ -int64(u&1)
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if b := d.Bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// Bytes reads exactly n bytes. The result lies in the decoder's input; it is
// nil after a failure.
func (d *Decoder) Bytes(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.rest) {
		d.Fail("cut short")
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// String reads a byte string of at most limit bytes. The result lies in the
// decoder's input.
func (d *Decoder) String(limit int) []byte {
	n := d.Uvarint(uint64(limit))
	return d.Bytes(int(n))
}

// Count reads the number of elements that follow. Each takes at least size
// bytes, so a count that the rest cannot hold is a failure, and a caller may
// allocate that many elements.
func (d *Decoder) Count(size int) int {
	n := d.Uvarint(math.MaxUint64)
	if n > uint64(len(d.rest)/size) {
		d.Fail("%d elements announced in %d bytes", n, len(d.rest))
		return 0
	}
	return int(n)
}
