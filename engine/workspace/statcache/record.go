package statcache

import (
	"encoding/binary"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/wire"
)

// Stat is what stat(2) says of an inode and what decides whether it changed.
// Xattrs are covered by ctime, and so is the device number of a device node.
// The device an inode lies on is not part of it: it differs from mount to mount.
type Stat struct {
	Ino   uint64
	Size  int64
	CTime manifest.Time
	MTime manifest.Time
	Mode  uint32 // with the type
	UID   uint32
	GID   uint32
}

// Entry is one name of a directory.
type Entry struct {
	Name string
	Stat Stat
	// Fresh tells that Stat may not reveal the next change: it was taken too soon
	// after the last one. The entry must be read again.
	Fresh   bool
	Content manifest.Content // of a file
	Node    blob.ID          // of a directory
	Target  string           // of a symbolic link
	Xattrs  []manifest.Xattr
}

// A record is a run of entries of one directory, ascending by name:
//
//	32 bytes  id of the directory's node, if the record is the whole directory
//	for each entry up to the end:
//	  string  name
//	  1 byte  flags: 1 fresh, 2 has xattrs; the form of the rest << 2
//	  52 bytes stat: little-endian ino, size, ctime, mtime, mode, uid, gid
//	  rest, by form:
//	    0  nothing
//	    1  32 bytes id of the one extent, as long as the file
//	    2  varint number of extents, for each: varint length, 32 bytes id or zeros
//	    3  32 bytes id of the content list
//	    4  32 bytes id of the node
//	    5  string target
//	  xattrs: varint number, for each: string name, varint size, 32 bytes id or
//	  zeros; the value, if the id is zero
//
// The format is private to the cache; version changes with it.
const version = 1

const (
	flagFresh  = 1
	flagXattrs = 2
	formShift  = 2

	formNone    = 0
	formOne     = 1
	formExtents = 2
	formList    = 3
	formNode    = 4
	formTarget  = 5
)

const statSize = 8 + 8 + 12 + 12 + 4 + 4 + 4

func (e *Entry) form() byte {
	switch x := e.Content.Extents; {
	case !e.Node.IsZero():
		return formNode
	case e.Target != "":
		return formTarget
	case !e.Content.List.IsZero():
		return formList
	case len(x) == 1 && !x[0].Hole() && x[0].Length == uint64(e.Stat.Size):
		return formOne
	case len(x) > 0:
		return formExtents
	}
	return formNone
}

func appendEntry(b []byte, e *Entry) []byte {
	b = wire.AppendString(b, e.Name)
	form := e.form()
	flags := form << formShift
	if e.Fresh {
		flags |= flagFresh
	}
	if len(e.Xattrs) > 0 {
		flags |= flagXattrs
	}
	b = append(b, flags)
	b = appendStat(b, &e.Stat)
	switch form {
	case formOne:
		b = append(b, e.Content.Extents[0].ID[:]...)
	case formExtents:
		b = binary.AppendUvarint(b, uint64(len(e.Content.Extents)))
		for _, x := range e.Content.Extents {
			b = binary.AppendUvarint(b, x.Length)
			b = append(b, x.ID[:]...)
		}
	case formList:
		b = append(b, e.Content.List[:]...)
	case formNode:
		b = append(b, e.Node[:]...)
	case formTarget:
		b = wire.AppendString(b, e.Target)
	}
	if flags&flagXattrs != 0 {
		b = appendXattrs(b, e.Xattrs)
	}
	return b
}

func appendStat(b []byte, s *Stat) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, s.Ino)
	b = le.AppendUint64(b, uint64(s.Size))
	b = le.AppendUint64(b, uint64(s.CTime.Sec))
	b = le.AppendUint32(b, s.CTime.Nsec)
	b = le.AppendUint64(b, uint64(s.MTime.Sec))
	b = le.AppendUint32(b, s.MTime.Nsec)
	b = le.AppendUint32(b, s.Mode)
	b = le.AppendUint32(b, s.UID)
	return le.AppendUint32(b, s.GID)
}

func appendXattrs(b []byte, xattrs []manifest.Xattr) []byte {
	b = binary.AppendUvarint(b, uint64(len(xattrs)))
	for _, x := range xattrs {
		b = wire.AppendString(b, x.Name)
		if x.Blob.IsZero() {
			b = binary.AppendUvarint(b, uint64(len(x.Value)))
		} else {
			b = binary.AppendUvarint(b, uint64(x.Size))
		}
		b = append(b, x.Blob[:]...)
		if x.Blob.IsZero() {
			b = append(b, x.Value...)
		}
	}
	return b
}

// decoder reads the entries of a record. Names and everything else are copied
// out of it only when asked for.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) id() (id blob.ID) {
	copy(id[:], d.bytes(blob.IDSize))
	return id
}

// entry reads all of an entry but its name.
func (d *decoder) entry(e *Entry) {
	*e = Entry{Name: e.Name}
	flags := byte(0)
	if b := d.bytes(1 + statSize); b != nil {
		flags = b[0]
		e.Stat = decodeStat(b[1:])
	}
	e.Fresh = flags&flagFresh != 0
	switch flags >> formShift {
	case formNone:
	case formOne:
		e.Content.Extents = []manifest.Extent{{Length: uint64(e.Stat.Size), ID: d.id()}}
	case formExtents:
		e.Content.Extents = d.extents()
	case formList:
		e.Content.List = d.id()
	case formNode:
		e.Node = d.id()
	case formTarget:
		e.Target = string(d.bytes(d.uvarint()))
	default:
		d.bad = true
	}
	if flags&flagXattrs != 0 {
		e.Xattrs = d.xattrs()
	}
}

func decodeStat(b []byte) Stat {
	le := binary.LittleEndian
	return Stat{
		Ino:   le.Uint64(b),
		Size:  int64(le.Uint64(b[8:])),
		CTime: manifest.Time{Sec: int64(le.Uint64(b[16:])), Nsec: le.Uint32(b[24:])},
		MTime: manifest.Time{Sec: int64(le.Uint64(b[28:])), Nsec: le.Uint32(b[36:])},
		Mode:  le.Uint32(b[40:]),
		UID:   le.Uint32(b[44:]),
		GID:   le.Uint32(b[48:]),
	}
}

func (d *decoder) extents() []manifest.Extent {
	n := d.uvarint()
	if n > manifest.MaxExtents {
		d.bad = true
		return nil
	}
	extents := make([]manifest.Extent, n)
	for i := range extents {
		extents[i] = manifest.Extent{Length: d.uvarint(), ID: d.id()}
	}
	return extents
}

func (d *decoder) xattrs() []manifest.Xattr {
	n := d.uvarint()
	if n > manifest.MaxXattrs {
		d.bad = true
		return nil
	}
	xattrs := make([]manifest.Xattr, n)
	for i := range xattrs {
		x := &xattrs[i]
		x.Name = string(d.bytes(d.uvarint()))
		size := d.uvarint()
		if x.Blob = d.id(); x.Blob.IsZero() {
			x.Value = append([]byte(nil), d.bytes(size)...)
		} else {
			x.Size = uint32(size)
		}
	}
	return xattrs
}
