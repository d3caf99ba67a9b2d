package packfile

import (
	"encoding/binary"
	"fmt"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/packfile/wire"
)

// The content of a footer. Part of the format; do not change. Numbers are
// unsigned varints (LEB128) in their shortest form.
//
//	number of frames
//	for each frame, in the order of the pack:
//	  1 byte   kind: 1 data, 2 tree
//	  varint   length of the sealed frame, bytes
//	  varint   number of blobs, at least 1
//	  for each blob, in the order of the content:
//	    varint    length of the plaintext, bytes
//	    32 bytes  id, not zero
//
// Offsets are not stored: the first frame starts behind the header, each other
// behind the one before it.

// The fewest bytes that a blob and a frame take in a footer: they bound how
// many of them a footer of a given length can announce.
const (
	minBlobEntry  = 1 + blob.IDSize
	minFrameEntry = 1 + 1 + 1 + minBlobEntry
)

// EncodeFooter encodes the description of frames that lie in a pack one after
// the other. It ignores their offsets.
func EncodeFooter(frames []Frame) []byte {
	size := binary.MaxVarintLen32
	for _, f := range frames {
		size += 1 + 2*binary.MaxVarintLen32 + len(f.Blobs)*(binary.MaxVarintLen32+blob.IDSize)
	}
	b := binary.AppendUvarint(make([]byte, 0, size), uint64(len(frames)))
	for _, f := range frames {
		b = append(b, byte(f.Kind))
		b = binary.AppendUvarint(b, uint64(f.Length))
		b = binary.AppendUvarint(b, uint64(len(f.Blobs)))
		for _, bl := range f.Blobs {
			b = binary.AppendUvarint(b, uint64(bl.Length))
			b = append(b, bl.ID[:]...)
		}
	}
	return b
}

// DecodeFooter is the inverse of EncodeFooter: what it accepts, EncodeFooter
// turns into the same bytes. Errors wrap ErrDamaged. The frames must fill
// frameBytes, the length of the part of the pack that holds them.
func DecodeFooter(b []byte, frameBytes int64) ([]Frame, error) {
	d := wire.NewDecoder("pack footer", b)
	if frameBytes > MaxSize {
		d.Fail("%d bytes of frames in a pack", frameBytes)
	}
	frames := make([]Frame, d.Count(minFrameEntry))
	offset := int64(headerSize)
	for i := range frames {
		frames[i] = decodeFrame(d, offset)
		offset += int64(frames[i].Length)
		if offset-headerSize > frameBytes {
			d.Fail("frame %d ends behind the last frame byte", i)
		}
		if d.Err() != nil {
			return nil, d.Err()
		}
	}
	if offset-headerSize != frameBytes {
		d.Fail("frames fill %d of %d bytes", offset-headerSize, frameBytes)
	}
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return frames, nil
}

func decodeFrame(d *wire.Decoder, offset int64) Frame {
	f := Frame{Kind: blob.Kind(d.Byte()), Offset: uint32(offset), Length: uint32(d.Uvarint(MaxSize))}
	if !f.Kind.Valid() {
		d.Fail("%v in a pack", f.Kind)
	}
	if f.Length < seal.Overhead {
		d.Fail("frame of %d bytes", f.Length)
	}
	f.Blobs = make([]Blob, d.Count(minBlobEntry))
	if len(f.Blobs) == 0 {
		d.Fail("frame without blobs")
	}
	content := uint64(0)
	for i := range f.Blobs {
		f.Blobs[i].Length = uint32(d.Uvarint(MaxFrameContent))
		copy(f.Blobs[i].ID[:], d.Bytes(blob.IDSize))
		if f.Blobs[i].ID.IsZero() {
			d.Fail("zero id")
		}
		content += uint64(f.Blobs[i].Length)
	}
	if content > MaxFrameContent {
		d.Fail("frame content of %d bytes", content)
	}
	return f
}

// ReadFooter describes a pack of the given size by its footer. read returns
// exactly length bytes of the object from offset. One read suffices for a pack
// whose footer is not longer than footerGuess, otherwise two. Errors of read are
// returned as they are; others wrap ErrDamaged.
func ReadFooter(sealer *seal.Sealer, name Name, size int64, read func(offset, length int64) ([]byte, error)) (Pack, error) {
	if size < headerSize+trailerSize+seal.Overhead || size > MaxSize {
		return Pack{}, fmt.Errorf("pack %v: %w: %d bytes long", name, ErrDamaged, size)
	}
	tail, err := readTail(name, size, min(size, footerGuess), read)
	if err != nil {
		return Pack{}, err
	}
	n, err := footerLength(tail[len(tail)-trailerSize:], size)
	if err != nil {
		return Pack{}, fmt.Errorf("pack %v: %w", name, err)
	}
	if int64(len(tail)) < n+trailerSize {
		if tail, err = readTail(name, size, n+trailerSize, read); err != nil {
			return Pack{}, err
		}
	}
	end := int64(len(tail)) - trailerSize
	frames, err := openFooter(sealer, tail[end-n:end], size-headerSize-n-trailerSize)
	if err != nil {
		return Pack{}, fmt.Errorf("pack %v: %w", name, err)
	}
	return Pack{Name: name, Size: size, Frames: frames}, nil
}

// readTail reads the last length bytes of a pack. A store that returns another
// number of them holds another object than it was asked for.
func readTail(name Name, size, length int64, read func(offset, length int64) ([]byte, error)) ([]byte, error) {
	tail, err := read(size-length, length)
	if err != nil {
		return nil, err
	}
	if int64(len(tail)) != length {
		return nil, fmt.Errorf("pack %v: %w: read %d bytes of %d at its end", name, ErrDamaged, len(tail), length)
	}
	return tail, nil
}

// footerGuess covers the footer of a pack of about 3,500 blobs, 35 bytes each.
const footerGuess = 128 << 10

func openFooter(sealer *seal.Sealer, sealed []byte, frameBytes int64) ([]Frame, error) {
	content, err := sealer.Open(nil, seal.Footer, sealed, seal.MaxContent)
	if err != nil {
		return nil, err
	}
	return DecodeFooter(content, frameBytes)
}
