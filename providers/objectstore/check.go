package objectstore

import (
	"errors"
	"fmt"
)

// Within cuts the range to an object of size bytes: the answer has the same
// offset and the exact number of bytes to read, which may be 0. ErrRange if
// the range is negative or starts past the last byte. Offset 0 is always in
// range, so that a whole empty object can be read.
func (r Range) Within(size int64) (Range, error) {
	if r.Offset < 0 || r.Length < 0 {
		return Range{}, fmt.Errorf("%w: offset %d, length %d", ErrRange, r.Offset, r.Length)
	}
	if r.Offset > 0 && r.Offset >= size {
		return Range{}, fmt.Errorf("%w: offset %d of %d bytes", ErrRange, r.Offset, size)
	}
	rest := size - r.Offset
	if r.Length == 0 || r.Length > rest {
		r.Length = rest
	}
	return r, nil
}

// Validate refuses options that contradict each other.
func (o PutOptions) Validate() error {
	if o.IfAbsent && o.IfMatch != "" {
		return errors.New("put is conditional on both absence and an etag")
	}
	return nil
}
