package engine

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Weight is how much some blobs take.
type Weight struct {
	Blobs uint64
	Bytes uint64 // plaintext
	// Stored is their part of the sealed frames that hold them, in bytes: a frame
	// is compressed as a whole, so this is an estimate for each blob, and exact for
	// all blobs of a frame together, but for rounding.
	Stored uint64
}

func (w *Weight) add(other Weight) {
	w.Blobs += other.Blobs
	w.Bytes += other.Bytes
	w.Stored += other.Stored
}

// Minus returns the difference; other must not be the greater one.
func (w Weight) Minus(other Weight) Weight {
	return Weight{w.Blobs - other.Blobs, w.Bytes - other.Bytes, w.Stored - other.Stored}
}

// blobTable holds the size of every blob of the index, by a number from 0 on. It
// takes 16 bytes a blob: 160 MB for ten million.
type blobTable struct {
	// keys are the first 8 bytes of the ids, ascending. Ids are hashes: two of ten
	// million share those with a chance of 1 in 400,000. Those that do are in clashes.
	keys    []uint64
	clashes map[blob.ID]int
	bytes   []uint32 // plaintext
	stored  []uint32 // see Weight

	duplicates Weight // copies beyond the first in packs that are not dead
}

// blobTable reads the index. Of several copies one counts, in a pack that is not
// dead if there is one.
func (r *Repository) blobTable(ctx context.Context, view commit.View) (*blobTable, error) {
	db, err := r.index(ctx)
	if err != nil {
		return nil, err
	}
	t := newBlobTable(db.Known().Blobs)
	var last index.Copy
	some := false
	for next, err := range db.Blobs(ctx) {
		if err != nil {
			return nil, err
		}
		switch {
		case !some:
			last, some = next, true
		case next.ID != last.ID:
			t.append(last.ID, weigh(last))
			last = next
		case view.Dead.Has(last.Pack):
			last = next
		case !view.Dead.Has(next.Pack):
			t.duplicates.add(weigh(next))
		}
	}
	if some {
		t.append(last.ID, weigh(last))
	}
	return t, nil
}

// weigh estimates what a copy takes: sealed length * blob length / content.
func weigh(c index.Copy) Weight {
	w := Weight{Blobs: 1, Bytes: uint64(c.Length)}
	if content := uint64(c.FrameContent); content > 0 {
		w.Stored = (uint64(c.FrameLength)*uint64(c.Length) + content/2) / content
	}
	return w
}

func newBlobTable(expected int) *blobTable {
	return &blobTable{
		keys: make([]uint64, 0, expected), bytes: make([]uint32, 0, expected), stored: make([]uint32, 0, expected),
		clashes: map[blob.ID]int{},
	}
}

// append adds a blob; ids come in ascending order, each once.
func (t *blobTable) append(id blob.ID, w Weight) {
	key, n := binary.BigEndian.Uint64(id[:]), len(t.keys)
	if n > 0 && t.keys[n-1] == key {
		t.clashes[id] = n
	}
	t.keys = append(t.keys, key)
	t.bytes = append(t.bytes, uint32(w.Bytes))
	t.stored = append(t.stored, uint32(w.Stored))
}

// find returns the number of a blob.
func (t *blobTable) find(id blob.ID) (n int, ok bool) {
	if n, ok := t.clashes[id]; ok {
		return n, true
	}
	return slices.BinarySearch(t.keys, binary.BigEndian.Uint64(id[:]))
}

func (t *blobTable) len() int { return len(t.keys) }

func (t *blobTable) weight(n int) Weight {
	return Weight{Blobs: 1, Bytes: uint64(t.bytes[n]), Stored: uint64(t.stored[n])}
}

func (t *blobTable) total() Weight {
	var w Weight
	for n := range t.keys {
		w.add(t.weight(n))
	}
	return w
}
