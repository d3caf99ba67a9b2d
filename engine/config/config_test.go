package config

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"github.com/restic/chunker"
	"github.com/snapctl/snapctl/engine/chunk"
	"github.com/snapctl/snapctl/packfile/seal"
)

// secret is the data key of all configs in these tests, golden ones included.
var secret = [32]byte{1, 2, 3, 4, 5, 6, 7, 8}

func sealer(family ID) *seal.Sealer {
	return seal.New(seal.Key{Secret: secret, Family: family}, seal.Default)
}

func newConfig(t *testing.T) Config {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func encode(t *testing.T, c Config) []byte {
	t.Helper()
	b, err := c.Encode(sealer(c.Family))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	c := newConfig(t)
	for _, level := range levels {
		c.Level = level
		b := encode(t, c)
		if got, err := ReadHeader(b); err != nil || got != c.Header {
			t.Errorf("ReadHeader = %+v, %v, want %+v", got, err, c.Header)
		}
		before := bytes.Clone(b)
		if got, err := Open(b, sealer(c.Family)); err != nil || got != c {
			t.Errorf("Open = %+v, %v, want %+v", got, err, c)
		}
		if !bytes.Equal(b, before) {
			t.Error("Open changed its input")
		}
	}
}

func TestHeaderCanBeReadFromAPrefix(t *testing.T) {
	c := newConfig(t)
	if got, err := ReadHeader(encode(t, c)[:headerSize]); err != nil || got != c.Header {
		t.Errorf("ReadHeader = %+v, %v, want %+v", got, err, c.Header)
	}
}

func TestNewDrawsAnotherRepositoryEachTime(t *testing.T) {
	a, b := newConfig(t), newConfig(t)
	if a.Repository == b.Repository || a.Family == b.Family || a.Chunking.Polynomial == b.Chunking.Polynomial {
		t.Errorf("two new configs share an id or the polynomial: %+v, %+v", a, b)
	}
	if a.Repository == a.Family {
		t.Error("repository id and family id are equal")
	}
}

func TestSiblingSharesTheFamily(t *testing.T) {
	c := newConfig(t)
	s := c.Sibling()
	if s.Family != c.Family || s.Chunking != c.Chunking {
		t.Errorf("sibling %+v of %+v has another family or chunking", s, c)
	}
	if s.Repository == c.Repository {
		t.Error("sibling has the same repository id")
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

// TestGoldenConfigOpens holds a file that must open for ever.
func TestGoldenConfigOpens(t *testing.T) {
	b, err := os.ReadFile("testdata/v0/config")
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Header: Header{
			Repository: ID{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
			Family:     ID{0xb0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
			Created:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		},
		Chunking: Chunking{Polynomial: 0x3DA3358B4DC173, Min: 262144, Max: 4194304, AverageBits: 20},
		PackSize: 16777216, FrameSize: 1048576, Level: seal.Better,
	}
	if got, err := Open(b, sealer(want.Family)); err != nil || got != want {
		t.Errorf("Open = %+v, %v, want %+v", got, err, want)
	}
}

func TestParametersOutOfBoundsAreInvalid(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"no repository":     func(c *Config) { c.Repository = ID{} },
		"no family":         func(c *Config) { c.Family = ID{} },
		"before 1970":       func(c *Config) { c.Created = time.Unix(-1, 0) },
		"after 9999":        func(c *Config) { c.Created = time.Unix(maxSecond+1, 0) },
		"no polynomial":     func(c *Config) { c.Chunking.Polynomial = 0 },
		"reducible":         func(c *Config) { c.Chunking.Polynomial = 1<<53 | 1<<52 },
		"low degree":        func(c *Config) { c.Chunking.Polynomial = 0b111 },
		"tiny chunks":       func(c *Config) { c.Chunking.Min = minChunk - 1 },
		"min above max":     func(c *Config) { c.Chunking.Min = c.Chunking.Max + 1 },
		"huge chunks":       func(c *Config) { c.Chunking.Max = maxChunk + 1 },
		"few bits":          func(c *Config) { c.Chunking.AverageBits = minBits - 1 },
		"many bits":         func(c *Config) { c.Chunking.AverageBits = maxBits + 1 },
		"tiny packs":        func(c *Config) { c.PackSize = minPack - 1 },
		"huge packs":        func(c *Config) { c.PackSize = maxPack + 1 },
		"tiny frames":       func(c *Config) { c.FrameSize = minFrame - 1 },
		"huge frames":       func(c *Config) { c.PackSize, c.FrameSize = maxPack, maxFrame+1 },
		"frames over packs": func(c *Config) { c.PackSize, c.FrameSize = minPack, minPack+1 },
		"negative level":    func(c *Config) { c.Level = -1 },
		"unknown level":     func(c *Config) { c.Level = seal.Better + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			c := newConfig(t)
			spoil(&c)
			if _, err := c.Encode(sealer(c.Family)); !errors.Is(err, ErrInvalid) {
				t.Errorf("Encode = %v, want ErrInvalid", err)
			}
			// A hostile writer that has the key encodes it all the same.
			object := appendHeader(nil, c.Header)
			content := c.appendParameters(bytes.Clone(object))
			object = sealer(c.Family).Seal(object, seal.Config, content, content)
			if got, err := Open(object, sealer(c.Family)); !errors.Is(err, ErrDamaged) {
				t.Errorf("Open = %+v, %v, want ErrDamaged", got, err)
			}
		})
	}
}

func TestBoundsAreAllowed(t *testing.T) {
	c := newConfig(t)
	c.Chunking.Min, c.Chunking.Max, c.Chunking.AverageBits = minChunk, minChunk, minBits
	c.PackSize, c.FrameSize = minPack, minFrame
	if got, err := Open(encode(t, c), sealer(c.Family)); err != nil || got != c {
		t.Errorf("smallest parameters: %+v, %v", got, err)
	}
	c.Chunking.Min, c.Chunking.Max, c.Chunking.AverageBits = maxChunk, maxChunk, maxBits
	c.PackSize, c.FrameSize = maxPack, maxFrame
	if got, err := Open(encode(t, c), sealer(c.Family)); err != nil || got != c {
		t.Errorf("largest parameters: %+v, %v", got, err)
	}
}

func TestAnyFlippedBitIsFound(t *testing.T) {
	c := newConfig(t)
	good := encode(t, c)
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			header, err := ReadHeader(bad)
			if err != nil {
				continue // found already
			}
			if got, err := Open(bad, sealer(header.Family)); err == nil {
				t.Fatalf("bit %d of byte %d flipped: opens as %+v", bit, i, got)
			}
		}
	}
}

func TestAnyTruncationIsFound(t *testing.T) {
	c := newConfig(t)
	good := encode(t, c)
	for n := range good {
		if got, err := Open(good[:n], sealer(c.Family)); err == nil {
			t.Fatalf("cut to %d of %d bytes: opens as %+v", n, len(good), got)
		}
	}
	if _, err := Open(append(bytes.Clone(good), 0), sealer(c.Family)); !errors.Is(err, ErrDamaged) {
		t.Errorf("one byte too many: %v, want ErrDamaged", err)
	}
	if _, err := Open(append(bytes.Clone(good), make([]byte, MaxSize)...), sealer(c.Family)); !errors.Is(err, ErrDamaged) {
		t.Errorf("too long: %v, want ErrDamaged", err)
	}
}

func TestContentThatIsNotCanonicalIsDamaged(t *testing.T) {
	c := newConfig(t)
	header := appendHeader(nil, c.Header)
	good := c.appendParameters(bytes.Clone(header))
	padded := bytes.Replace(good, binary.AppendUvarint(nil, 4<<20), []byte{0x80, 0x80, 0x80, 0x82, 0x00}, 1)
	for name, content := range map[string][]byte{
		"a byte too many":   append(bytes.Clone(good), 0),
		"a byte too few":    good[:len(good)-1],
		"padded number":     padded,
		"unknown level":     append(bytes.Clone(good[:len(good)-1]), 3),
		"huge number":       append(bytes.Clone(good[:headerSize+8]), binary.AppendUvarint(nil, math.MaxUint64)...),
		"header of another": append(appendHeader(nil, c.Sibling().Header), good[headerSize:]...),
		"nothing":           nil,
	} {
		object := sealer(c.Family).Seal(bytes.Clone(header), seal.Config, content, content)
		if got, err := Open(object, sealer(c.Family)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %+v, %v, want ErrDamaged", name, got, err)
		}
	}
}

func TestSealedPartOfAnotherRepositoryIsDamaged(t *testing.T) {
	c := newConfig(t)
	a, b := encode(t, c), encode(t, c.Sibling()) // the same key and family: only the header differs
	mixed := append(bytes.Clone(a[:headerSize]), b[headerSize:]...)
	if got, err := Open(mixed, sealer(c.Family)); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open = %+v, %v, want ErrDamaged", got, err)
	}
}

func TestWrongKeyAndWrongUnitDoNotOpen(t *testing.T) {
	c := newConfig(t)
	other := seal.New(seal.Key{Secret: [32]byte{9}, Family: c.Family}, seal.Default)
	if _, err := Open(encode(t, c), other); !errors.Is(err, ErrDamaged) {
		t.Errorf("another key: %v, want ErrDamaged", err)
	}
	header := appendHeader(nil, c.Header)
	content := c.appendParameters(bytes.Clone(header))
	object := sealer(c.Family).Seal(header, seal.Label, content, content)
	if _, err := Open(object, sealer(c.Family)); !errors.Is(err, ErrDamaged) {
		t.Errorf("another unit: %v, want ErrDamaged", err)
	}
}

func TestNewerVersionSaysWhichOneItIs(t *testing.T) {
	b := encode(t, newConfig(t))
	b[len(magic)] = 7
	for _, object := range [][]byte{b, b[:len(magic)+1]} { // a later header may have another length
		_, err := ReadHeader(object)
		var newer *VersionError
		if !errors.As(err, &newer) || !errors.Is(err, ErrNewerVersion) || newer.Version != 7 || newer.Known != Version {
			t.Fatalf("ReadHeader = %v, want a VersionError of version 7", err)
		}
		const want = "repository has format version 7, this program knows up to 0: update snapctl"
		if err.Error() != want {
			t.Errorf("message %q, want %q", err, want)
		}
	}
	if _, err := Open(b, sealer(ID{})); !errors.Is(err, ErrNewerVersion) {
		t.Errorf("Open = %v, want ErrNewerVersion", err)
	}
}

func TestOtherThingsAreNotConfigs(t *testing.T) {
	for _, other := range []string{"", "SNAP", "SNAPPACK", "{\"version\": 2}", "SNAPCONE0000000000000000000000"} {
		if _, err := ReadHeader([]byte(other)); !errors.Is(err, ErrNotConfig) {
			t.Errorf("ReadHeader(%q) = %v, want ErrNotConfig", other, err)
		}
	}
	if _, err := ReadHeader([]byte(magic)); !errors.Is(err, ErrDamaged) {
		t.Errorf("ReadHeader(magic alone) = %v, want ErrDamaged", err)
	}
}

// TestChunkingIsThatOfThePackageChunk holds the defaults and the bounds to those
// of the package that cuts.
func TestChunkingIsThatOfThePackageChunk(t *testing.T) {
	params := func(c Chunking) chunk.Params {
		return chunk.Params{Polynomial: uint64(c.Polynomial), Min: int(c.Min), Max: int(c.Max), AvgBits: int(c.AverageBits)}
	}
	c := newConfig(t).Chunking
	want := chunk.Params{Polynomial: uint64(c.Polynomial), Min: chunk.DefaultMin, Max: chunk.DefaultMax, AvgBits: chunk.DefaultAvgBits}
	if got := params(c); got != want {
		t.Errorf("default chunking is %+v, want %+v", got, want)
	}
	for _, bits := range []uint{minBits, maxBits} {
		for _, size := range []uint32{minChunk, maxChunk} {
			c.Min, c.Max, c.AverageBits = size, size, bits
			if err := params(c).Check(); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}

// TestChunkerTakesTheBounds runs the chunker with the smallest chunks allowed:
// below its window of 64 bytes it would misbehave.
func TestChunkerTakesTheBounds(t *testing.T) {
	c := newConfig(t)
	data := make([]byte, 1<<16)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	ch := chunker.NewWithBoundaries(bytes.NewReader(data), c.Chunking.Polynomial, minChunk, minChunk)
	ch.SetAverageBits(minBits)
	total := 0
	for {
		piece, err := ch.Next(nil)
		if err != nil {
			break
		}
		total += int(piece.Length)
	}
	if total != len(data) {
		t.Errorf("chunks hold %d of %d bytes", total, len(data))
	}
}
