package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/snapctl/snapctl/packfile/wire"
)

// FuzzWire reads values as the bytes of shape say, and writes them again.
func FuzzWire(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, []byte{0x80, 0x01, 0x03, 0x07, 2, 'a', 'b'})
	f.Add([]byte{0, 0}, []byte{0x80, 0x00})
	f.Add([]byte{0}, bytes.Repeat([]byte{0xff}, 10))
	f.Add([]byte{3}, append(bytes.Repeat([]byte{0xff}, 9), 1))
	f.Fuzz(func(t *testing.T, shape, b []byte) {
		d := wire.NewDecoder("fuzz", b)
		var again []byte
		for _, op := range shape {
			switch op % 4 {
			case 0:
				again = binary.AppendUvarint(again, d.Uvarint(math.MaxUint64))
			case 1:
				again = binary.AppendVarint(again, d.Varint())
			case 2:
				again = append(again, d.Byte())
			case 3:
				again = wire.AppendString(again, d.String(math.MaxInt))
			}
			if d.Err() != nil {
				mustBeDamaged(t, d.Err())
				return
			}
		}
		if d.Finish() == nil && !bytes.Equal(again, b) {
			t.Errorf("% x re-encodes to % x", b, again)
		}
	})
}
