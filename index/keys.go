package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// The records of the local database. Packs have local numbers, 4 bytes big
// endian, given out once and never again: a blob record that outlives its pack
// can therefore never lead to another one. Changes need another schema version,
// which discards older databases.
//
//	b id number  -> frame, offset in its content, length of a copy of a blob
//	m identity   -> schema version and repository id
//	m state      -> see state
//	n name       -> number of a pack
//	p number     -> name, size and frames of a pack; there is no pack without it
//	s name       -> size of a segment, numbers of the packs that it names
//	u name       -> a pack that no segment names yet, encoded as a segment
const (
	tagBlob        = 'b'
	tagMeta        = 'm'
	tagNumber      = 'n'
	tagPack        = 'p'
	tagSegment     = 's'
	tagUnsegmented = 'u'

	schemaVersion = 1
)

const (
	numberSize = 4
	blobPrefix = 1 + blob.IDSize // of a blob key: what bloom filters cover
	blobKey    = blobPrefix + numberSize
)

var (
	identityKey = []byte{tagMeta, 'i'}
	stateKey    = []byte{tagMeta, 's'}
)

// comparer orders keys by their bytes. Its Split makes the id the prefix of a
// blob key, so that one filter probe tells whether any pack holds a blob.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "snapctl.index.v1"
	c.Split = func(key []byte) int {
		if len(key) > blobPrefix && key[0] == tagBlob {
			return blobPrefix
		}
		return len(key)
	}
	c.Compare = bytes.Compare
	return &c
}()

func appendBlobKey(dst []byte, id blob.ID, number uint32) []byte {
	dst = append(append(dst, tagBlob), id[:]...)
	return binary.BigEndian.AppendUint32(dst, number)
}

// splitBlobKey panics on a key of another kind.
func splitBlobKey(key []byte) (blob.ID, uint32) {
	return blob.ID(key[1:blobPrefix]), binary.BigEndian.Uint32(key[blobPrefix:])
}

func numberKey(name packfile.Name) []byte { return append([]byte{tagNumber}, name[:]...) }

func packKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{tagPack}, number)
}

func segmentKey(name SegmentName) []byte { return append([]byte{tagSegment}, name[:]...) }

func unsegmentedKey(name packfile.Name) []byte { return append([]byte{tagUnsegmented}, name[:]...) }

// place is where a blob lies in its pack.
type place struct {
	frame  uint32 // index in the pack
	offset uint32 // in the content of the frame
	length uint32
}

func (p place) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(p.frame))
	dst = binary.AppendUvarint(dst, uint64(p.offset))
	return binary.AppendUvarint(dst, uint64(p.length))
}

func decodePlace(b []byte) (place, error) {
	d := decoder{rest: b}
	p := place{
		frame:  uint32(d.uvarint(math.MaxUint32)),
		offset: uint32(d.uvarint(packfile.MaxFrameContent)),
		length: uint32(d.uvarint(packfile.MaxFrameContent)),
	}
	return p, d.end("blob record")
}

// end closes the decoding of a local record.
func (d *decoder) end(record string) error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d bytes too many", len(d.rest))
	}
	if d.err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFailed, record, d.err)
	}
	return nil
}

// state is the record that every change of the database rewrites.
type state struct {
	next     uint32 // number of the next pack
	packs    uint64
	segments uint64
	blobs    uint64 // blob records of packs that are there
	garbage  uint64 // blob records of packs that are gone
}

func (s state) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(s.next))
	for _, v := range []uint64{s.packs, s.segments, s.blobs, s.garbage} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func decodeState(b []byte) (state, error) {
	d := decoder{rest: b}
	s := state{next: uint32(d.uvarint(math.MaxUint32))}
	for _, v := range []*uint64{&s.packs, &s.segments, &s.blobs, &s.garbage} {
		*v = d.uvarint(math.MaxUint64)
	}
	return s, d.end("state record")
}

func encodeIdentity(repositoryID string) []byte {
	return append(binary.AppendUvarint(nil, schemaVersion), repositoryID...)
}

func encodeNumbers(size int64, numbers []uint32) []byte {
	b := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64+len(numbers)*numberSize), uint64(size))
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// decodeNumbers returns the size of a segment, and the numbers of its packs
// still encoded.
func decodeNumbers(b []byte) (int64, []byte, error) {
	d := decoder{rest: b}
	size := int64(d.uvarint(math.MaxInt64))
	if len(d.rest)%numberSize != 0 {
		d.fail("cut short")
	}
	numbers := d.rest
	d.rest = nil
	return size, numbers, d.end("segment record")
}
