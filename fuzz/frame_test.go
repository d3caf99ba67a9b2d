package fuzz_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/zeebo/blake3"
)

var (
	frameKey    = seal.Key{Secret: [32]byte{1}, Family: [16]byte{2}}
	frameSealer = seal.New(frameKey, seal.Fastest)
)

func mustBeDamaged(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, packfile.ErrDamaged) {
		t.Errorf("error %v does not wrap ErrDamaged", err)
	}
}

// addGolden seeds a target with the files of a package's testdata.
func addGolden(f *testing.F, pattern string) {
	f.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		f.Fatalf("no golden files at %s: %v", pattern, err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// mustAllocate fails if f allocates more than limit bytes.
func mustAllocate(t *testing.T, limit uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > limit {
		t.Errorf("%d bytes allocated, more than %d", n, limit)
	}
}

// FuzzFrameOpen opens arbitrary bytes, which nobody made with the key: none opens.
// The seeds are units of another repository.
func FuzzFrameOpen(f *testing.F) {
	golden, err := os.ReadFile("../packfile/seal/testdata/stored.v0")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:seal.Overhead])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		content, err := frameSealer.Open(nil, seal.DataFrame, bytes.Clone(sealed), seal.MaxContent)
		if err == nil {
			t.Errorf("%x opens to %x", sealed, content)
		}
		mustBeDamaged(t, err)
	})
}

// FuzzFrameBody seals arbitrary bodies, as somebody who has the key could, and
// opens them: whatever they announce, no more is allocated than the limit.
func FuzzFrameBody(f *testing.F) {
	const limit = 1 << 20
	f.Add([]byte{0, 5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'})
	f.Add([]byte{0, 255, 255, 255, 255, 'h'})
	f.Add([]byte{2, 0, 0, 0, 0})
	for _, body := range []string{
		"0105000000" + "28b52ffd0400290000" + "68656c6c6f" + "1234abcd",               // wrong checksum
		"0105000000" + "28b52ffd2005290000" + "68656c6c6f",                            // "hello"
		"0100000200" + "28b52ffd0050" + "03001078",                                    // 128 KiB of "x"
		"0100000200" + "28b52ffd0098" + "03001078",                                    // window of 512 MiB
		"0100000200" + "28b52ffd00ff" + "03001078",                                    // window of 3.75 TiB
		"0100000200" + "28b52ffdc0500000000000000040" + "03001078",                    // content size of 4 EB
		"0100001000" + "28b52ffd0050" + "02001078020010780200107802001078" + "030010", // cut
	} {
		b, err := hex.DecodeString(body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sealed := sealBody(body)
		mustAllocate(t, 4*limit, func() {
			content, err := frameSealer.Open(nil, seal.DataFrame, sealed, limit)
			if err != nil {
				mustBeDamaged(t, err)
			} else if len(content) > limit {
				t.Errorf("opened %d bytes", len(content))
			}
		})
	})
}

// sealBody encrypts a body as the format says, whatever it holds.
func sealBody(body []byte) []byte {
	salt := blake3.Sum256(body)
	material := append(append([]byte(nil), frameKey.Secret[:]...), salt[:]...)
	material = append(append(material, frameKey.Family[:]...), byte(seal.DataFrame))
	var key [32]byte
	blake3.DeriveKey("snapctl v0 unit key", material, key[:])
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead.Seal(salt[:], make([]byte, 12), body, append(frameKey.Family[:], byte(seal.DataFrame)))
}

// FuzzFrameSeal seals and opens any content, then flips a bit of it.
func FuzzFrameSeal(f *testing.F) {
	f.Add([]byte("content"), uint32(0))
	f.Add(bytes.Repeat([]byte("again "), 1000), uint32(300))
	f.Add([]byte(nil), uint32(52*8))
	f.Fuzz(func(t *testing.T, content []byte, bit uint32) {
		content = content[:min(len(content), 8<<10)] // longer ones only take longer
		b := packfile.NewFrameBuilder(blob.Data)
		namer := blob.NewNamer([32]byte{1})
		b.Add(namer.ID(blob.Data, content), content)
		sealed := b.Seal(nil, frameSealer)
		frame := packfile.Frame{Kind: blob.Data, Blobs: sealed.Blobs}
		got, err := frame.Open(nil, frameSealer, bytes.Clone(sealed.Bytes))
		if err != nil || !bytes.Equal(got, content) || frame.Verify(namer, got) != nil {
			t.Fatalf("opened %x, %v; want %x", got, err, content)
		}
		altered := sealed.Bytes
		altered[int(bit)/8%len(altered)] ^= 1 << (bit % 8)
		_, err = frame.Open(nil, frameSealer, altered)
		mustBeDamaged(t, err)
	})
}
