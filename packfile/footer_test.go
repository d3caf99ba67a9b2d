package packfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"pgregory.net/rapid"
)

func drawFrames(t *rapid.T) (frames []Frame, frameBytes int64) {
	n := rapid.IntRange(0, 8).Draw(t, "frames")
	offset := uint32(headerSize)
	for range n {
		f := Frame{
			Kind:   rapid.SampledFrom([]blob.Kind{blob.Data, blob.Tree}).Draw(t, "kind"),
			Offset: offset,
			Length: rapid.Uint32Range(seal.Overhead, 40<<20).Draw(t, "length"),
		}
		for i := range rapid.IntRange(1, 20).Draw(t, "blobs") {
			f.Blobs = append(f.Blobs, Blob{ID: blob.ID{1, byte(i)}, Length: rapid.Uint32Range(0, 1<<20).Draw(t, "blob")})
		}
		offset += f.Length
		frames = append(frames, f)
	}
	return frames, int64(offset) - headerSize
}

func TestFooterRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frames, frameBytes := drawFrames(t)
		encoded := EncodeFooter(frames)
		decoded, err := DecodeFooter(encoded, frameBytes)
		if err != nil || len(decoded) != len(frames) || len(frames) > 0 && !reflect.DeepEqual(decoded, frames) {
			t.Fatalf("decoded %v, %v; want %v", decoded, err, frames)
		}
		for _, other := range []int64{frameBytes - 1, frameBytes + 1, -1, math.MaxInt64, math.MinInt64, 1<<32 + frameBytes} {
			if _, err := DecodeFooter(encoded, other); !errors.Is(err, ErrDamaged) {
				t.Fatalf("frames of %d bytes fill %d: %v", frameBytes, other, err)
			}
		}
	})
}

// Whatever a changed footer decodes to, it encodes to the same bytes.
func TestFooterIsCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frames, frameBytes := drawFrames(t)
		b := EncodeFooter(frames)
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			b[at] = rapid.Byte().Draw(t, "byte")
		case 1:
			b = append(b[:at], b[at+1:]...)
		case 2:
			b = append(b[:at], append([]byte{rapid.Byte().Draw(t, "byte")}, b[at:]...)...)
		}
		decoded, err := DecodeFooter(b, frameBytes)
		if err == nil && !bytes.Equal(EncodeFooter(decoded), b) {
			t.Fatalf("% x encodes to % x", b, EncodeFooter(decoded))
		}
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatalf("error %v does not wrap ErrDamaged", err)
		}
	})
}

func TestMalformedFooters(t *testing.T) {
	number := func(v uint64) []byte { return binary.AppendUvarint(nil, v) }
	id := append([]byte{1}, make([]byte, blob.IDSize-1)...)
	footer := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	blobs := func(n int, length uint64) []byte { return bytes.Repeat(append(number(length), id...), n) }
	valid := footer(number(1), []byte{1}, number(100), number(1), blobs(1, 10))
	if _, err := DecodeFooter(valid, 100); err != nil {
		t.Fatal(err)
	}
	tests := map[string][]byte{
		"nothing":                         nil,
		"frame is missing":                number(1),
		"2^63 frames":                     footer(number(1<<63), valid[1:]),
		"unknown kind":                    footer(number(1), []byte{0}, valid[2:]),
		"manifest":                        footer(number(1), []byte{3}, valid[2:]),
		"frame shorter than its overhead": footer(number(2), []byte{1}, number(52), number(1), blobs(1, 10), []byte{1}, number(48), number(1), blobs(1, 10)),
		"frame longer than a pack":        footer(number(1), []byte{1}, number(MaxSize+1), number(1), blobs(1, 10)),
		"frame of 2^32+100 bytes":         footer(number(1), []byte{1}, number(1<<32+100), number(1), blobs(1, 10)),
		"frame without blobs":             footer(number(1), []byte{1}, number(100), number(0)),
		"2^62 blobs":                      footer(number(1), []byte{1}, number(100), number(1<<62), blobs(1, 10)),
		"blob of 2^32+10 bytes":           footer(number(1), []byte{1}, number(100), number(1), blobs(1, 1<<32+10)),
		"blob longer than a frame":        footer(number(1), []byte{1}, number(100), number(1), blobs(1, MaxFrameContent+1)),
		"blobs longer than a frame":       footer(number(1), []byte{1}, number(100), number(2), blobs(2, MaxFrameContent/2+1)),
		"zero id":                         footer(number(1), []byte{1}, number(100), number(1), number(10), make([]byte, blob.IDSize)),
		"padded number":                   footer([]byte{0x81, 0x00}, valid[1:]),
		"bytes behind the end":            append(bytes.Clone(valid), 0),
		"too few frame bytes":             footer(number(1), []byte{1}, number(99), number(1), blobs(1, 10)),
		"too many frame bytes":            footer(number(1), []byte{1}, number(101), number(1), blobs(1, 10)),
	}
	for name, b := range tests {
		t.Run(name, func(t *testing.T) {
			if frames, err := DecodeFooter(b, 100); !errors.Is(err, ErrDamaged) || frames != nil {
				t.Errorf("decoded %v, %v; want ErrDamaged", frames, err)
			}
		})
	}
}

// What a count announces is allocated only if the bytes to fill it are there.
func TestFooterAllocation(t *testing.T) {
	b := append(binary.AppendUvarint(nil, 1<<20/minFrameEntry), make([]byte, 1<<20)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := DecodeFooter(b, MaxSize)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 4<<20 {
		t.Errorf("%d bytes allocated for a footer of 1 MiB: %v", n, err)
	}
}

func TestReadFooterInOneOrTwoReads(t *testing.T) {
	blobsPerFooter := func(n int) []content {
		c := content{kind: blob.Data}
		for i := range n {
			c.blobs = append(c.blobs, fmt.Append(nil, i))
		}
		return []content{c}
	}
	for _, tc := range []struct{ blobs, reads int }{{1, 1}, {3000, 1}, {5000, 2}} {
		pack, object := buildPack(NewBuilder(nil), blobsPerFooter(tc.blobs))
		reads := 0
		got, err := ReadFooter(testSealer, pack.Name, pack.Size, func(offset, length int64) ([]byte, error) {
			reads++
			return readAt(object)(offset, length)
		})
		if err != nil || !reflect.DeepEqual(got, pack) {
			t.Errorf("%d blobs: %v", tc.blobs, err)
		}
		if reads != tc.reads {
			t.Errorf("%d blobs: %d reads, want %d", tc.blobs, reads, tc.reads)
		}
	}
}

func TestReadFooterOfBadObjects(t *testing.T) {
	pack, object := buildPack(NewBuilder(nil), smallContent)
	failed := errors.New("store is away")
	tests := []struct {
		name string
		size int64
		read func(offset, length int64) ([]byte, error)
		want error
	}{
		{"store fails", pack.Size, func(int64, int64) ([]byte, error) { return nil, failed }, failed},
		{"store returns nothing", pack.Size, func(int64, int64) ([]byte, error) { return nil, nil }, ErrDamaged},
		{"store returns too little", pack.Size, func(o, n int64) ([]byte, error) { return object[o : o+n-1], nil }, ErrDamaged},
		{"size is too small", headerSize + trailerSize, nil, ErrDamaged},
		{"size is negative", -1, nil, ErrDamaged},
		{"size is too large", MaxSize + 1, nil, ErrDamaged},
		{"size is one less", pack.Size - 1, readAt(object), ErrDamaged},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := ReadFooter(testSealer, pack.Name, tc.size, tc.read); !errors.Is(err, tc.want) {
				t.Errorf("ReadFooter = %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestReadFooterOfAnotherRepository(t *testing.T) {
	pack, object := buildPack(NewBuilder(nil), smallContent)
	other := seal.New(seal.Key{}, seal.Default)
	if got, err := ReadFooter(other, pack.Name, pack.Size, readAt(object)); !errors.Is(err, ErrDamaged) {
		t.Errorf("ReadFooter with another key = %v, %v; want ErrDamaged", got, err)
	}
}

// The trailer is not authenticated: a store can make it announce a footer as
// long as the pack. No more is read than a footer can have.
func TestReadFooterBoundsTheSecondRead(t *testing.T) {
	trailer := append(binary.LittleEndian.AppendUint32(nil, 512<<20), trailerMagic...)
	_, err := ReadFooter(testSealer, Name{}, MaxSize, func(offset, length int64) ([]byte, error) {
		if length > footerGuess {
			return nil, fmt.Errorf("asked for %d bytes", length)
		}
		return append(make([]byte, length-trailerSize), trailer...), nil
	})
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("ReadFooter = %v, want ErrDamaged", err)
	}
}
