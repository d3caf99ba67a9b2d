package index

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/snapctl/snapctl/packfile"
)

// The content of a segment. Part of the format; do not change. Numbers are
// unsigned varints (LEB128) in their shortest form.
//
//	varint    number of packs
//	for each pack, names strictly ascending:
//	  32 bytes  name
//	  varint    size of the whole object, bytes
//	  varint    length of its frames together, bytes
//	  varint    length of the following, bytes
//	  n bytes   its description, as in the footer of the pack
//
// The object is the content sealed as seal.Segment; its name is the BLAKE3-256
// hash of the sealed bytes.

// maxSegment bounds the content of a segment in bytes. At 35 bytes a blob that
// is about 470,000 blobs; a pack holds at most 65,536.
const maxSegment = 16 << 20

// minPackEntry is the fewest bytes that a pack takes in a segment.
const minPackEntry = 32 + 4

// EncodeSegment encodes the content of a segment. The order of packs does not
// matter; a second pack of one name is dropped.
func EncodeSegment(packs []packfile.Pack) []byte {
	packs = sortedPacks(packs)
	b := binary.AppendUvarint(nil, uint64(len(packs)))
	for _, p := range packs {
		b = appendPack(b, p)
	}
	return b
}

func sortedPacks(packs []packfile.Pack) []packfile.Pack {
	packs = slices.Clone(packs)
	slices.SortStableFunc(packs, func(a, b packfile.Pack) int { return a.Name.Compare(b.Name) })
	return slices.CompactFunc(packs, func(a, b packfile.Pack) bool { return a.Name == b.Name })
}

func appendPack(b []byte, p packfile.Pack) []byte {
	footer := packfile.EncodeFooter(p.Frames)
	b = append(b, p.Name[:]...)
	b = binary.AppendUvarint(b, uint64(p.Size))
	b = binary.AppendUvarint(b, uint64(frameBytes(p)))
	b = binary.AppendUvarint(b, uint64(len(footer)))
	return append(b, footer...)
}

func frameBytes(p packfile.Pack) int64 {
	n := int64(0)
	for _, f := range p.Frames {
		n += int64(f.Length)
	}
	return n
}

// DecodeSegment is the inverse of EncodeSegment: what it accepts, EncodeSegment
// turns into the same bytes. Errors wrap ErrDamaged. It allocates at most a
// small multiple of the length of b.
func DecodeSegment(b []byte) ([]packfile.Pack, error) {
	if len(b) > maxSegment {
		return nil, fmt.Errorf("segment: %w: content of %d bytes", ErrDamaged, len(b))
	}
	d := decoder{rest: b}
	n := d.uvarint(uint64(len(b) / minPackEntry))
	packs := make([]packfile.Pack, 0, n)
	for range n {
		p := d.pack()
		if k := len(packs); d.err == nil && k > 0 && packs[k-1].Name.Compare(p.Name) >= 0 {
			d.fail("packs are not in order")
		}
		if d.err != nil {
			break
		}
		packs = append(packs, p)
	}
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d bytes follow the last pack", len(d.rest))
	}
	if d.err != nil {
		return nil, fmt.Errorf("segment: %w", d.err)
	}
	return packs, nil
}

func (d *decoder) pack() packfile.Pack {
	var p packfile.Pack
	copy(p.Name[:], d.bytes(len(p.Name)))
	p.Size = int64(d.uvarint(packfile.MaxSize))
	frames := int64(d.uvarint(uint64(p.Size)))
	footer := d.bytes(int(d.uvarint(maxSegment)))
	if d.err != nil {
		return p
	}
	p.Frames, d.err = packfile.DecodeFooter(footer, frames)
	return p
}

// decoder reads numbers and bytes from the front of rest. It keeps the first
// error; after it, every read returns zero.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
	}
	d.rest = nil
}

func (d *decoder) uvarint(limit uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || n > 1 && d.rest[n-1] == 0 { // cut short, too long, or padded
		d.fail("not a number")
		return 0
	}
	if v > limit {
		d.fail("%d is larger than %d", v, limit)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes(n int) []byte {
	if d.err != nil || len(d.rest) < n {
		d.fail("cut short")
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}
