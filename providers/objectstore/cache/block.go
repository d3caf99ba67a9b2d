package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// place is the name of a block: bytes [number*size, (number+1)*size) of the
// object under key.
//
// A block that is shorter than size is the last of its object. An object whose
// size is a multiple of size ends with an empty block, so that nothing else has
// to say where objects end, which nobody may know when a block is stored.
type place struct {
	key    string
	number int64 // from 0
}

// file is the path of the block's file: a hash, since keys may be longer than
// file names, whose first byte spreads the blocks over the shards.
func (p place) file() string {
	hash := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(p.key), uint64(p.number)))
	name := hex.EncodeToString(hash[:16])
	return name[:shardLen] + "/" + name[shardLen:]
}

// A block file holds, integers little-endian:
//
//	 0  4  magic: "sbk" and the version of this format
//	 4  4  CRC-32C of everything behind it
//	 8  4  size of the cache's blocks
//	12  8  number of the block
//	20  4  length of its data
//	24  2  length of the key
//	26  -  key
//	 -  -  data, to the end of the file
const (
	magic     = "sbk\x01"
	fixedHead = 26
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged says that a file is not the block that its name promises.
var errDamaged = errors.New("damaged block")

// block is a buffer for one block as it lies in its file, so that one call
// reads or writes it.
type block struct {
	at     place
	buffer []byte // longest head and data
	size   int    // of a full block
	head   int    // where the data start
	length int    // of the data
}

func newBlock(size int) *block {
	return &block{buffer: make([]byte, fixedHead+objectstore.MaxKeyLen+size), size: size}
}

// aim makes the buffer an empty block of this name.
func (b *block) aim(at place) {
	head := append(b.buffer[:0], magic...)
	head = binary.LittleEndian.AppendUint32(head, 0) // for the checksum
	head = binary.LittleEndian.AppendUint32(head, uint32(b.size))
	head = binary.LittleEndian.AppendUint64(head, uint64(at.number))
	head = binary.LittleEndian.AppendUint32(head, 0) // for the length
	head = binary.LittleEndian.AppendUint16(head, uint16(len(at.key)))
	head = append(head, at.key...)
	b.at, b.head, b.length = at, len(head), 0
}

// space is where the data of a full block go.
func (b *block) space() []byte { return b.buffer[b.head : b.head+b.size] }

func (b *block) data() []byte { return b.buffer[b.head : b.head+b.length] }

// isLast says that the object ends with this block.
func (b *block) isLast() bool { return b.length < b.size }

// encode completes the head and returns the content of the block's file.
func (b *block) encode() []byte {
	file := b.buffer[:b.head+b.length]
	binary.LittleEndian.PutUint32(file[20:], uint32(b.length))
	binary.LittleEndian.PutUint32(file[4:], crc32.Checksum(file[8:], castagnoli))
	return file
}

// decode reads a file of size bytes that should be the block of this name.
func (b *block) decode(r io.Reader, size int64, at place) error {
	b.aim(at)
	length := size - int64(b.head)
	if length < 0 || length > int64(b.size) {
		return errDamaged
	}
	want := bytes.Clone(b.buffer[:b.head])
	file := b.buffer[:size]
	if _, err := io.ReadFull(r, file); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(want[20:], uint32(length))
	copy(want[4:8], file[4:8])
	if !bytes.Equal(file[:b.head], want) {
		return errDamaged
	}
	if crc32.Checksum(file[8:], castagnoli) != binary.LittleEndian.Uint32(file[4:]) {
		return errDamaged
	}
	b.length = int(length)
	return nil
}

// fill reads the block's data from a stream of the object until the block is
// full or the stream ends. Only a plain io.EOF is the end of the object, which
// is why this is not io.ReadFull: that takes an io.ErrUnexpectedEOF of the
// stream, a connection lost, for its own.
func (b *block) fill(stream io.Reader) error {
	space := b.space()
	for b.length < len(space) {
		n, err := stream.Read(space[b.length:])
		b.length += n
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
