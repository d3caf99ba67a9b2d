package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// sealBody encrypts a body that no Seal would make.
func sealBody(s *Sealer, body []byte) []byte {
	salt := make([]byte, saltSize)
	return append(salt, s.aead(DataFrame, salt).Seal(nil, zeroNonce[:], body, s.additional(DataFrame))...)
}

func body(method byte, length uint32, payload []byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{method}, length), payload...)
}

// runs is a zstd frame of n blocks, each of which repeats one byte 128 Ki times.
// header follows the magic number.
func runs(header []byte, n int) []byte {
	b := append([]byte{0x28, 0xb5, 0x2f, 0xfd}, header...)
	for i := range n {
		block := uint32(128<<10)<<3 | 1<<1 // size, type RLE
		if i == n-1 {
			block |= 1 // last
		}
		b = append(b, byte(block), byte(block>>8), byte(block>>16), 'x')
	}
	return b
}

// The header's descriptor says which fields follow: 0x00 a window, 0x20 a single
// segment with its size in one byte, 0xc0 a window and a size of eight bytes.
var (
	window1MiB   = []byte{0x00, 10 << 3}
	window512MiB = []byte{0x00, 19 << 3}
	window3TiB   = []byte{0x00, 31<<3 | 7}
	announces4EB = append([]byte{0xc0, 10 << 3}, 0, 0, 0, 0, 0, 0, 0, 0x40)
	dictionary   = []byte{0x01, 10 << 3, 77}
)

func TestBombs(t *testing.T) {
	s := New(testKey, Default)
	encoder, _ := zstd.NewWriter(nil)
	hello := encoder.EncodeAll([]byte("hello"), nil)
	tests := map[string][]byte{
		"512 MiB out of 16 KiB":           body(methodZstd, 1<<20, runs(window1MiB, 4096)),
		"512 MiB, all of them announced":  body(methodZstd, 512<<20, runs(window1MiB, 4096)),
		"64 MiB and a byte announced":     body(methodZstd, MaxContent+1, runs(window1MiB, 513)),
		"window of 512 MiB":               body(methodZstd, 128<<10, runs(window512MiB, 1)),
		"window of 3 TiB":                 body(methodZstd, 128<<10, runs(window3TiB, 1)),
		"frame announces 4 EB":            body(methodZstd, 128<<10, runs(announces4EB, 1)),
		"frame of a dictionary":           body(methodZstd, 128<<10, runs(dictionary, 1)),
		"one byte more than announced":    body(methodZstd, 4, hello),
		"one byte less than announced":    body(methodZstd, 6, hello),
		"two frames":                      body(methodZstd, 5, append(bytes.Clone(hello), hello...)),
		"cut frame":                       body(methodZstd, 5, hello[:len(hello)-1]),
		"no frame":                        body(methodZstd, 5, nil),
		"stored, more than announced":     body(methodStored, 4, []byte("hello")),
		"stored, less than announced":     body(methodStored, 6, []byte("hello")),
		"stored, 2^32-1 bytes announced":  body(methodStored, 1<<32-1, []byte("hello")),
		"zstd, 2^32-1 bytes announced":    body(methodZstd, 1<<32-1, hello),
		"unknown method":                  body(2, 5, hello),
		"nothing of something compressed": body(methodZstd, 0, hello),
	}
	for name, b := range tests {
		t.Run(name, func(t *testing.T) {
			sealed := sealBody(s, b)
			allocated := allocation(func() {
				if got, err := s.Open(nil, DataFrame, sealed, 32<<20); !errors.Is(err, ErrDamaged) || len(got) > 0 {
					t.Errorf("opened %d bytes, %v; want ErrDamaged", len(got), err)
				}
			})
			if allocated > 4<<20 {
				t.Errorf("%d bytes allocated to refuse a unit of %d", allocated, len(sealed))
			}
		})
	}
}

// An honest frame that compresses extremely well opens, in the memory that its
// content takes: twice that under the race detector.
func TestOpenAllocatesWhatIsAnnounced(t *testing.T) {
	s := New(testKey, Default)
	sealed := sealBody(s, body(methodZstd, 8<<20, runs(window1MiB, 64)))
	allocated := allocation(func() {
		if got, err := s.Open(nil, DataFrame, sealed, 8<<20); err != nil || len(got) != 8<<20 {
			t.Errorf("opened %d bytes, %v", len(got), err)
		}
	})
	if allocated > 20<<20 {
		t.Errorf("%d bytes allocated for 8 MiB", allocated)
	}
}

func allocation(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
