package manifest

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/wire"
)

// EntryKind says what an entry is. The values are part of the format; do not change.
type EntryKind uint8

// The kinds of entries.
const (
	File        EntryKind = 1
	Dir         EntryKind = 2
	Symlink     EntryKind = 3
	FIFO        EntryKind = 4
	Socket      EntryKind = 5
	CharDevice  EntryKind = 6
	BlockDevice EntryKind = 7
)

var kindNames = [...]string{File: "file", Dir: "dir", Symlink: "symlink", FIFO: "fifo", Socket: "socket", CharDevice: "chardev", BlockDevice: "blockdev"}

// String is one word, as the command line prints it.
func (k EntryKind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Entry is one name in a directory and everything that a restore needs to know
// of it.
type Entry struct {
	Name string // one path component, raw bytes; empty only for a root
	Kind EntryKind
	// Mode holds the permission bits with setuid, setgid and sticky: 0o7777.
	Mode  uint32
	UID   uint32
	GID   uint32
	MTime Time

	Size    uint64  // of a file, bytes
	Content Content // of a file
	Node    blob.ID // of a directory: its tree node
	Target  string  // of a symlink, raw bytes, verbatim
	Device  Device  // of a device
	Xattrs  []Xattr // sorted by name, without duplicates; nil if none
}

// Time is a point in time with nanoseconds, of the whole range that
// filesystems know.
type Time struct {
	Sec  int64 // since 1970-01-01T00:00:00Z
	Nsec uint32
}

// TimeOf converts t.
func TimeOf(t time.Time) Time { return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())} }

// Time converts back, in UTC.
func (t Time) Time() time.Time { return time.Unix(t.Sec, int64(t.Nsec)).UTC() }

// Device is the number of a device node.
type Device struct{ Major, Minor uint32 }

// Xattr is an extended attribute. A value longer than MaxInlineXattr is a data
// blob of its own, so that equal ones are stored once.
type Xattr struct {
	Name  string
	Value []byte  // if Blob is zero
	Blob  blob.ID // of a long value
	Size  uint32  // of a long value, bytes
}

// Content says where the bytes of a file are. Either Extents lists them, or
// List names the root of a content list that does; an empty file has neither.
type Content struct {
	Extents []Extent
	List    blob.ID
}

// Extent is a run of bytes of a file: one data blob, or a hole if ID is zero.
type Extent struct {
	Length uint64
	ID     blob.ID
}

// Hole reports whether the extent is a run of zeros that is not stored.
func (e Extent) Hole() bool { return e.ID.IsZero() }

// Bounds of entries. What is larger is damaged, or refused by the writer.
const (
	MaxName        = 255     // bytes, as on every Linux filesystem
	MaxTarget      = 1 << 16 // bytes
	MaxXattrName   = 255
	MaxXattrValue  = 1 << 20 // bytes; Linux allows 64 KiB, other systems more
	MaxInlineXattr = 512     // bytes
	MaxXattrs      = 4096
	MaxExtents     = 32 // in an entry; a file of more has a content list
)

// An encoded entry. Numbers are varints in their shortest form, strings have
// their length in front (see package wire). Part of the format; do not change.
//
//	string  name
//	1 byte  kind
//	varint  mode, uid, gid
//	signed  mtime seconds; varint mtime nanoseconds
//	then, by kind:
//	  file     varint size
//	           varint number of extents, or 33 for a content list
//	           for each extent: varint length << 1 | hole; 32 bytes id unless hole
//	           for a content list: 32 bytes id
//	  dir      32 bytes id of the node
//	  symlink  string target
//	  devices  varint major, minor
//	varint  number of xattrs, for each
//	  string name; varint length << 1 | blob; the value, or 32 bytes id
const contentListMark = MaxExtents + 1

func appendEntry(b []byte, e *Entry) []byte {
	b = wire.AppendString(b, e.Name)
	b = append(b, byte(e.Kind))
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = binary.AppendUvarint(b, uint64(e.UID))
	b = binary.AppendUvarint(b, uint64(e.GID))
	b = binary.AppendVarint(b, e.MTime.Sec)
	b = binary.AppendUvarint(b, uint64(e.MTime.Nsec))
	switch e.Kind {
	case File:
		b = binary.AppendUvarint(b, e.Size)
		b = appendContent(b, e.Content)
	case Dir:
		b = append(b, e.Node[:]...)
	case Symlink:
		b = wire.AppendString(b, e.Target)
	case CharDevice, BlockDevice:
		b = binary.AppendUvarint(b, uint64(e.Device.Major))
		b = binary.AppendUvarint(b, uint64(e.Device.Minor))
	}
	b = binary.AppendUvarint(b, uint64(len(e.Xattrs)))
	for i := range e.Xattrs {
		b = appendXattr(b, &e.Xattrs[i])
	}
	return b
}

func appendContent(b []byte, c Content) []byte {
	if !c.List.IsZero() {
		b = append(b, contentListMark)
		return append(b, c.List[:]...)
	}
	b = append(b, byte(len(c.Extents)))
	for _, x := range c.Extents {
		b = appendExtent(b, x)
	}
	return b
}

func appendExtent(b []byte, x Extent) []byte {
	if x.Hole() {
		return binary.AppendUvarint(b, x.Length<<1|1)
	}
	b = binary.AppendUvarint(b, x.Length<<1)
	return append(b, x.ID[:]...)
}

func appendXattr(b []byte, x *Xattr) []byte {
	b = wire.AppendString(b, x.Name)
	if !x.Blob.IsZero() {
		b = binary.AppendUvarint(b, uint64(x.Size)<<1|1)
		return append(b, x.Blob[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(x.Value))<<1)
	return append(b, x.Value...)
}

// decodeEntry reads what appendEntry wrote. The rules that an entry keeps are in
// Check; here only what is allocated is bounded.
func decodeEntry(d *wire.Decoder) Entry {
	e := Entry{
		Name: string(d.String(MaxName)),
		Kind: EntryKind(d.Byte()),
		Mode: uint32(d.Uvarint(math.MaxUint32)),
		UID:  uint32(d.Uvarint(math.MaxUint32)),
		GID:  uint32(d.Uvarint(math.MaxUint32)),
	}
	e.MTime = Time{Sec: d.Varint(), Nsec: uint32(d.Uvarint(math.MaxUint32))}
	switch e.Kind {
	case File:
		e.Size = d.Uvarint(math.MaxInt64)
		e.Content = decodeContent(d)
	case Dir:
		e.Node = decodeID(d)
	case Symlink:
		e.Target = string(d.String(MaxTarget))
	case CharDevice, BlockDevice:
		e.Device.Major = uint32(d.Uvarint(math.MaxUint32))
		e.Device.Minor = uint32(d.Uvarint(math.MaxUint32))
	}
	e.Xattrs = decodeXattrs(d)
	if d.Err() == nil {
		d.Check(e.Check())
	}
	return e
}

// decodeID reads an id, which is never zero where one is needed.
func decodeID(d *wire.Decoder) blob.ID {
	var id blob.ID
	copy(id[:], d.Bytes(blob.IDSize))
	if id.IsZero() {
		d.Fail("zero id")
	}
	return id
}

func decodeContent(d *wire.Decoder) Content {
	n := d.Uvarint(contentListMark)
	if n == contentListMark {
		return Content{List: decodeID(d)}
	}
	if n == 0 {
		return Content{}
	}
	return Content{Extents: decodeExtents(d, int(n))}
}

// decodeExtents reads n extents, where n is bounded by the caller.
func decodeExtents(d *wire.Decoder, n int) []Extent {
	if n > d.Len() {
		d.Fail("%d extents announced in %d bytes", n, d.Len())
		return nil
	}
	extents := make([]Extent, n)
	for i := range extents {
		v := d.Uvarint(math.MaxUint64)
		extents[i].Length = v >> 1
		if v&1 == 0 {
			extents[i].ID = decodeID(d)
		}
		if d.Err() != nil {
			return nil
		}
	}
	return extents
}

// minXattr is the fewest bytes of an xattr: a name of one byte, no value.
const minXattr = 2 + 1

func decodeXattrs(d *wire.Decoder) []Xattr {
	n := d.Count(minXattr)
	if n > MaxXattrs {
		d.Fail("%d xattrs", n)
	}
	if n == 0 || d.Err() != nil {
		return nil
	}
	xattrs := make([]Xattr, n)
	for i := range xattrs {
		xattrs[i] = decodeXattr(d)
		if d.Err() != nil {
			return nil
		}
	}
	return xattrs
}

func decodeXattr(d *wire.Decoder) Xattr {
	x := Xattr{Name: string(d.String(MaxXattrName))}
	v := d.Uvarint(MaxXattrValue<<1 | 1)
	if v&1 == 1 {
		x.Size, x.Blob = uint32(v>>1), decodeID(d)
	} else if size := int(v >> 1); size > 0 {
		x.Value = append([]byte(nil), d.Bytes(size)...)
	}
	return x
}
