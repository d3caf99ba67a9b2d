// Package verified remembers which packs were read whole and found to be what they
// should be, and when, so that checks of a few percent a day come round to all of
// them. It is data only: whoever checks keeps the [Record] in the repository.
//
// Times are those of the machines that checked. They decide in which order packs
// are read, and nothing else: a wrong clock costs reading, never safety.
package verified

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/wire"
)

// Record says when each pack was last found whole. The zero Record knows of none.
// It belongs to one goroutine at a time.
type Record struct {
	at map[packfile.Name]uint64 // seconds since 1970-01-01T00:00:00Z
}

// The bounds of a record.
const (
	// MaxPacks is how many packs a record holds: 37 MiB. Of more than that, those
	// verified last are kept; the others are read again first.
	MaxPacks = 1 << 20
	// MaxSize bounds the encoding in bytes.
	MaxSize = binary.MaxVarintLen64 + MaxPacks*(nameSize+binary.MaxVarintLen64)

	maxSeconds = 253402300799 // the end of the year 9999
	nameSize   = len(packfile.Name{})
)

// Note says that a pack was found whole at a time. Times before 1970 count as the
// first second of that year.
func (r *Record) Note(name packfile.Name, at time.Time) {
	if r.at == nil {
		r.at = map[packfile.Name]uint64{}
	}
	r.at[name] = uint64(min(max(at.Unix(), 0), maxSeconds))
}

// Drop forgets packs: those that turned out to be damaged.
func (r *Record) Drop(names ...packfile.Name) {
	for _, name := range names {
		delete(r.at, name)
	}
}

// Keep forgets all packs but those that are there.
func (r *Record) Keep(there func(packfile.Name) bool) {
	maps.DeleteFunc(r.at, func(name packfile.Name, _ uint64) bool { return !there(name) })
}

// Merge adds what another record knows; of two times for a pack the later counts.
func (r *Record) Merge(other Record) {
	if r.at == nil {
		r.at = make(map[packfile.Name]uint64, len(other.at))
	}
	for name, at := range other.at {
		r.at[name] = max(r.at[name], at)
	}
}

// Len is the number of packs that the record knows.
func (r Record) Len() int { return len(r.at) }

// Time is when the pack was last found whole; ok is false if it never was as far
// as the record knows.
func (r Record) Time(name packfile.Name) (at time.Time, ok bool) {
	seconds, ok := r.at[name]
	return time.Unix(int64(seconds), 0).UTC(), ok
}

// The encoding of a record. Part of the format; do not change.
//
//	varint    number of packs, at most 2^20
//	for each, names strictly ascending:
//	  32 bytes  name
//	  varint    when it was last found whole, seconds since 1970-01-01T00:00:00Z,
//	            at most 253402300799

// Encode returns the canonical encoding, of the MaxPacks verified last if there are
// more.
func (r Record) Encode() []byte {
	names := r.latest(MaxPacks)
	b := make([]byte, 0, binary.MaxVarintLen32+len(names)*(nameSize+5))
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = append(b, name[:]...)
		b = binary.AppendUvarint(b, r.at[name])
	}
	return b
}

// latest returns the names of the n packs verified last, ascending.
func (r Record) latest(n int) []packfile.Name {
	names := slices.Collect(maps.Keys(r.at))
	if len(names) > n {
		slices.SortFunc(names, func(a, b packfile.Name) int {
			return cmp.Or(cmp.Compare(r.at[b], r.at[a]), a.Compare(b))
		})
		names = names[:n]
	}
	slices.SortFunc(names, packfile.Name.Compare)
	return names
}

// Decode is the inverse of Encode. Errors wrap wire.ErrDamaged.
func Decode(b []byte) (Record, error) {
	d := wire.NewDecoder("record of what was verified", b)
	n := d.Count(nameSize + 1)
	if n > MaxPacks {
		d.Fail("%d packs", n)
	}
	if d.Err() != nil {
		return Record{}, d.Err()
	}
	r := Record{at: make(map[packfile.Name]uint64, n)}
	var previous packfile.Name
	for i := range n {
		var name packfile.Name
		copy(name[:], d.Bytes(nameSize))
		seconds := d.Uvarint(maxSeconds)
		if i > 0 && previous.Compare(name) >= 0 {
			d.Fail("pack names are not sorted")
		}
		if d.Err() != nil {
			return Record{}, d.Err()
		}
		r.at[name], previous = seconds, name
	}
	return r, d.Finish()
}
