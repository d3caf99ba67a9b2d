package index

import (
	"encoding/binary"
	"math"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// PackInfo describes a pack without its blobs.
type PackInfo struct {
	Name   packfile.Name
	Size   int64 // bytes of the whole object
	Frames []FrameInfo
}

// Blobs is the number of blobs in the pack.
func (p PackInfo) Blobs() int {
	n := 0
	for _, f := range p.Frames {
		n += int(f.Blobs)
	}
	return n
}

// FrameInfo describes a frame without its blobs.
type FrameInfo struct {
	Kind    blob.Kind
	Offset  uint32 // of the sealed frame in the pack, bytes
	Length  uint32 // of the sealed frame, bytes
	Content uint32 // length of the content, bytes
	Blobs   uint32 // number of blobs
}

func describe(p packfile.Pack) PackInfo {
	info := PackInfo{Name: p.Name, Size: p.Size, Frames: make([]FrameInfo, len(p.Frames))}
	for i, f := range p.Frames {
		info.Frames[i] = FrameInfo{Kind: f.Kind, Offset: f.Offset, Length: f.Length,
			Content: uint32(f.ContentSize()), Blobs: uint32(len(f.Blobs))}
	}
	return info
}

func (p PackInfo) encode() []byte {
	b := append(make([]byte, 0, len(p.Name)+2*binary.MaxVarintLen32+len(p.Frames)*16), p.Name[:]...)
	b = binary.AppendUvarint(b, uint64(p.Size))
	b = binary.AppendUvarint(b, uint64(len(p.Frames)))
	for _, f := range p.Frames {
		b = append(b, byte(f.Kind))
		for _, v := range []uint32{f.Offset, f.Length, f.Content, f.Blobs} {
			b = binary.AppendUvarint(b, uint64(v))
		}
	}
	return b
}

func decodePackInfo(b []byte) (PackInfo, error) {
	d := decoder{rest: b}
	var p PackInfo
	copy(p.Name[:], d.bytes(len(p.Name)))
	p.Size = int64(d.uvarint(packfile.MaxSize))
	const minFrame = 5
	p.Frames = make([]FrameInfo, d.uvarint(uint64(len(d.rest)/minFrame)))
	for i := range p.Frames {
		f := &p.Frames[i]
		if kind := d.bytes(1); d.err == nil {
			f.Kind = blob.Kind(kind[0])
		}
		for _, v := range []*uint32{&f.Offset, &f.Length, &f.Content, &f.Blobs} {
			*v = uint32(d.uvarint(math.MaxUint32))
		}
	}
	return p, d.end("pack record")
}

// entry is a blob record before it is written.
type entry struct {
	id     blob.ID
	number uint32
	place  place
}

// appendEntries appends the blob records of a pack. A blob that the pack holds
// twice gives two equal keys; either place is good.
func appendEntries(dst []entry, p packfile.Pack, number uint32) []entry {
	for i, f := range p.Frames {
		offset := uint32(0)
		for _, bl := range f.Blobs {
			dst = append(dst, entry{bl.ID, number, place{uint32(i), offset, bl.Length}})
			offset += bl.Length
		}
	}
	return dst
}
