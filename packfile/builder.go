package packfile

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/zeebo/blake3"
)

// FrameBuilder collects the plaintext of one frame. It belongs to one goroutine
// and can be used again after Seal.
type FrameBuilder struct {
	kind    blob.Kind
	content []byte
	blobs   []Blob
}

// NewFrameBuilder returns an empty builder for frames of one kind.
func NewFrameBuilder(kind blob.Kind) *FrameBuilder { return &FrameBuilder{kind: kind} }

// Add appends a blob. The caller keeps the content below MaxFrameContent.
func (b *FrameBuilder) Add(id blob.ID, plaintext []byte) {
	b.content = append(b.content, plaintext...)
	b.blobs = append(b.blobs, Blob{ID: id, Length: uint32(len(plaintext))})
}

// Size is the length of the content so far in bytes.
func (b *FrameBuilder) Size() int { return len(b.content) }

// Empty reports whether the builder holds no blob.
func (b *FrameBuilder) Empty() bool { return len(b.blobs) == 0 }

// Seal compresses and seals the content into a frame and empties the builder.
// The frame's bytes take the memory of dst, which may be nil, and do not
// include what it holds. A frame without blobs, or of more than MaxFrameContent,
// could never be read and panics: the caller decides what it adds.
func (b *FrameBuilder) Seal(dst []byte, sealer *seal.Sealer) SealedFrame {
	if len(b.blobs) == 0 || len(b.content) > MaxFrameContent {
		panic("packfile: frame is empty or longer than MaxFrameContent")
	}
	f := SealedFrame{Kind: b.kind, Blobs: b.blobs, Bytes: sealer.Seal(dst[:0], frameUnit(b.kind), identity(b.blobs), b.content)}
	b.content, b.blobs = b.content[:0], nil
	return f
}

// identity is what determines the content of a frame: the ids of its blobs.
func identity(blobs []Blob) []byte {
	ids := make([]byte, 0, len(blobs)*blob.IDSize)
	for _, b := range blobs {
		ids = append(ids, b.ID[:]...)
	}
	return ids
}

// SealedFrame is a frame that is not in a pack yet.
type SealedFrame struct {
	Kind  blob.Kind
	Blobs []Blob
	Bytes []byte
}

// Verify opens the frame and checks that each blob has its id. It returns the
// content in the memory of dst. Errors wrap ErrDamaged.
func (f SealedFrame) Verify(dst []byte, sealer *seal.Sealer, namer *blob.Namer) ([]byte, error) {
	frame := Frame{Kind: f.Kind, Blobs: f.Blobs}
	content, err := frame.Open(dst[:0], sealer, bytes.Clone(f.Bytes))
	if err != nil {
		return dst, err
	}
	return content, frame.Verify(namer, content)
}

// Reseal returns the frame, sealed by from, as to seals it, without compressing it
// again. Its bytes take the memory of dst and do not include what it holds; those
// of f are overwritten. Errors wrap ErrDamaged.
func (f SealedFrame) Reseal(dst []byte, from, to *seal.Sealer) (SealedFrame, error) {
	var err error
	f.Bytes, err = from.Reseal(dst[:0], frameUnit(f.Kind), identity(f.Blobs), f.Bytes, to)
	return f, err
}

// Builder collects sealed frames into one pack. It belongs to one goroutine.
type Builder struct {
	object []byte
	frames []Frame
}

// NewBuilder starts a pack in the memory of buffer, which it takes over and
// grows as needed.
func NewBuilder(buffer []byte) *Builder {
	return newBuilder(buffer, uniqueBytes())
}

func newBuilder(buffer []byte, unique [32]byte) *Builder {
	object := append(buffer[:0], magic...)
	object = append(object, version, 0, 0, 0, 0, 0, 0, 0)
	return &Builder{object: append(object, unique[:]...)}
}

// uniqueBytes hashes kernel randomness with the clock. Two virtual machines that
// are resumed from one image may be given the same randomness; if they then
// stored the same files, the second would bring back the name of a pack that
// was perhaps condemned long ago, and it would be deleted.
func uniqueBytes() [32]byte {
	var random [32]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return blake3.Sum256(binary.LittleEndian.AppendUint64(random[:], uint64(time.Now().UnixNano())))
}

// Add appends a frame. The caller keeps the pack below MaxSize.
func (b *Builder) Add(f SealedFrame) {
	b.frames = append(b.frames, Frame{Kind: f.Kind, Offset: uint32(len(b.object)), Length: uint32(len(f.Bytes)), Blobs: f.Blobs})
	b.object = append(b.object, f.Bytes...)
}

// Append adds the frames of another pack that is not finished, which must not be
// used again.
func (b *Builder) Append(other *Builder) {
	for _, f := range other.frames {
		b.Add(SealedFrame{Kind: f.Kind, Blobs: f.Blobs, Bytes: other.object[f.Offset : f.Offset+f.Length]})
	}
}

// Size is the length of the pack so far in bytes, without its footer.
func (b *Builder) Size() int { return len(b.object) }

// Empty reports whether the pack holds no frame.
func (b *Builder) Empty() bool { return len(b.frames) == 0 }

// Finish appends the footer and returns the description of the pack and the
// whole object. The builder must not be used again.
func (b *Builder) Finish(sealer *seal.Sealer) (Pack, []byte) {
	footer := EncodeFooter(b.frames)
	start := len(b.object)
	b.object = sealer.Seal(b.object, seal.Footer, footer, footer)
	b.object = binary.LittleEndian.AppendUint32(b.object, uint32(len(b.object)-start))
	b.object = append(b.object, trailerMagic...)
	return Pack{Name: NameOf(b.object), Size: int64(len(b.object)), Frames: b.frames}, b.object
}
