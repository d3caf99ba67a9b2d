// Package packfile lays frames into one self-describing object, a pack, and
// reads it back.
//
// A frame is up to about 2 MiB of consecutive blobs, compressed and sealed
// together: neighbours compress better together than alone, and a reader
// decodes each frame once. A [FrameBuilder] collects blobs and seals them into
// a [SealedFrame]; a [Builder] collects sealed frames and finishes a pack. The
// sealed footer of a pack names every blob in it, so that an index can be
// rebuilt from packs alone ([ReadFooter]).
//
// The [Name] of a pack is the BLAKE3 hash of the whole object: anyone can verify
// a pack without a key. The header holds 32 bytes that no other pack has, so that
// no two packs ever have one name, even with equal content. The collection
// protocol rests on that: a name is never reused.
//
// Builders belong to one goroutine each; the functions of the package are safe
// for concurrent use.
package packfile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/zeebo/blake3"
)

// A pack. Integers are little endian. Part of the format; do not change.
//
//	offset      bytes  content
//	0           8      "SNAPPACK"
//	8           1      format version: 0
//	9           7      zero
//	16          32     unique to the pack: how a writer draws it is not part of the format
//	48          f      sealed frames, one after the other
//	48+f        n      sealed footer, see footer.go
//	48+f+n      4      n
//	48+f+n+4    4      "KCAP"
const (
	magic        = "SNAPPACK"
	trailerMagic = "KCAP"
	version      = 0

	headerSize  = 48
	trailerSize = 8
)

// Bounds of the format. What is larger is damaged.
const (
	MaxSize         = 1 << 30  // of a pack, bytes
	MaxFrameContent = 32 << 20 // of the blobs of one frame together, bytes
)

// ErrDamaged says that bytes are not the pack, frame or blob they ought to be.
var ErrDamaged = seal.ErrDamaged

// Name names a pack. The zero Name names none.
type Name [32]byte

// ParseName reads the 64 lower-case hexadecimal digits that String prints.
func ParseName(s string) (Name, error) {
	id, err := blob.ParseID(s)
	if err != nil {
		return Name{}, fmt.Errorf("pack name: %w", err)
	}
	return Name(id), nil
}

func (n Name) String() string { return hex.EncodeToString(n[:]) }

// Compare orders names by their bytes.
func (n Name) Compare(other Name) int { return bytes.Compare(n[:], other[:]) }

// NameOf computes the name of a pack from its whole content.
func NameOf(object []byte) Name { return blake3.Sum256(object) }

// Pack describes a pack.
type Pack struct {
	Name   Name
	Size   int64 // bytes of the whole object
	Frames []Frame
}

// Frame describes one frame of a pack.
type Frame struct {
	Kind   blob.Kind
	Offset uint32 // of the sealed frame in the pack, bytes
	Length uint32 // of the sealed frame, bytes
	Blobs  []Blob // in the order of the content
}

// Blob is one blob of a frame.
type Blob struct {
	ID     blob.ID
	Length uint32 // of the plaintext, bytes
}

// ContentSize is the length of the frame's content in bytes.
func (f Frame) ContentSize() int {
	size := 0
	for _, b := range f.Blobs {
		size += int(b.Length)
	}
	return size
}

// Open decrypts the sealed bytes of the frame and appends its content to dst.
// The sealed bytes are overwritten. The blobs are not verified yet: see Verify.
func (f Frame) Open(dst []byte, sealer *seal.Sealer, sealed []byte) ([]byte, error) {
	content, err := sealer.Open(dst, frameUnit(f.Kind), sealed, f.ContentSize())
	if err != nil {
		return dst, err
	}
	if size := len(content) - len(dst); size != f.ContentSize() {
		return dst, fmt.Errorf("%v frame: %w: %d bytes of content, the footer says %d", f.Kind, ErrDamaged, size, f.ContentSize())
	}
	return content, nil
}

// Verify checks that each blob in the frame's content has its id.
func (f Frame) Verify(namer *blob.Namer, content []byte) error {
	if len(content) != f.ContentSize() {
		return fmt.Errorf("%v frame: %w: %d bytes of content, want %d", f.Kind, ErrDamaged, len(content), f.ContentSize())
	}
	for _, b := range f.Blobs {
		if err := VerifyBlob(namer, f.Kind, b.ID, content[:b.Length]); err != nil {
			return err
		}
		content = content[b.Length:]
	}
	return nil
}

// VerifyBlob checks that the plaintext of a blob has the id.
func VerifyBlob(namer *blob.Namer, kind blob.Kind, id blob.ID, plaintext []byte) error {
	if namer.ID(kind, plaintext) != id {
		return fmt.Errorf("%v blob %v: %w: content has another id", kind, id, ErrDamaged)
	}
	return nil
}

func frameUnit(kind blob.Kind) seal.Unit {
	if kind == blob.Tree {
		return seal.TreeFrame
	}
	return seal.DataFrame
}

// ErrNotPack says that an object is no pack at all.
var ErrNotPack = errors.New("not a pack")

// Verify checks a whole pack without a key: its name, header and trailer.
func Verify(name Name, object []byte) error {
	if NameOf(object) != name {
		return fmt.Errorf("pack %v: %w: content has another name", name, ErrDamaged)
	}
	if len(object) < headerSize+trailerSize {
		return fmt.Errorf("pack %v: %w: only %d bytes long", name, ErrNotPack, len(object))
	}
	if err := checkHeader(object[:headerSize]); err != nil {
		return fmt.Errorf("pack %v: %w", name, err)
	}
	_, err := footerLength(object[len(object)-trailerSize:], int64(len(object)))
	if err != nil {
		return fmt.Errorf("pack %v: %w", name, err)
	}
	return nil
}

func checkHeader(header []byte) error {
	if string(header[:len(magic)]) != magic {
		return fmt.Errorf("%w: it does not start with %q", ErrNotPack, magic)
	}
	if v := header[len(magic)]; v != version {
		return fmt.Errorf("pack format version %d is newer than this program, which knows up to %d: update snapctl", v, version)
	}
	if !bytes.Equal(header[len(magic)+1:16], make([]byte, 7)) {
		return fmt.Errorf("%w: reserved header bytes are not zero", ErrDamaged)
	}
	return nil
}

// footerLength reads the trailer of a pack of the given size.
func footerLength(trailer []byte, size int64) (int64, error) {
	if string(trailer[4:]) != trailerMagic {
		return 0, fmt.Errorf("%w: it does not end with %q", ErrDamaged, trailerMagic)
	}
	n := int64(binary.LittleEndian.Uint32(trailer))
	if n < seal.Overhead || n > seal.Overhead+seal.MaxContent || n > size-headerSize-trailerSize {
		return 0, fmt.Errorf("%w: footer of %d bytes in a pack of %d", ErrDamaged, n, size)
	}
	return n, nil
}
