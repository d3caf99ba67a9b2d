package engine

import (
	"encoding/binary"
	"math"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/packfile/wire"
)

// note is what a stat cache keeps with its base: enough to make the next
// snapshot without reading the last one.
type note struct {
	session commit.Session
	exact   int // how many packs the snapshot had when they were last counted
	record  commit.Record
}

func (n note) encode() []byte {
	b := wire.AppendString(nil, string(n.session))
	b = binary.AppendUvarint(b, uint64(n.exact))
	return wire.AppendString(b, n.record.Encode())
}

func decodeNote(b []byte) (note, error) {
	d := wire.NewDecoder("note of a stat cache", b)
	n := note{session: commit.Session(d.String(64)), exact: int(d.Uvarint(math.MaxInt32))}
	record := d.String(seal.MaxContent)
	if err := d.Finish(); err != nil {
		return note{}, err
	}
	var err error
	n.record, err = commit.DecodeRecord(record)
	return n, err
}

// tooLong tells when to count the packs of a snapshot again: how many packs more than when they were last counted a snapshot
// it may list. A chain of snapshots that each reuse
// the parent's list plus their own pack would otherwise list every pack ever
// written: n snapshots would store n^2/2 names. Counting looks every blob up
// (about 3 us each), so it happens each time the list has doubled.
func tooLong(packs []packfile.Name, exact int) bool { return len(packs) > 2*exact+64 }
