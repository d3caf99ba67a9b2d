package index

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Location is where a copy of a blob lies.
type Location struct {
	Pack     packfile.Name
	PackSize int64 // bytes of the whole object

	FrameIndex   int    // of the frame in the pack
	FrameOffset  uint32 // of the sealed frame in the pack, bytes
	FrameLength  uint32 // of the sealed frame, bytes
	FrameContent uint32 // length of the content of the frame, bytes

	Kind   blob.Kind
	Offset uint32 // of the blob in the content of the frame, bytes
	Length uint32 // of the blob, bytes
}

// Reader looks blobs up. It belongs to one goroutine. It sees whatever the DB
// learned before the look-up started.
type Reader struct {
	db    *DB
	avoid PackSet
	held  error // why the reader cannot be used
	iter  *pebble.Iterator
	epoch uint64 // of which iter is a view, or an older one
	key   []byte
}

// NewReader returns a reader that does not see copies in the packs of avoid,
// which must not change any more. It has to be closed.
func (db *DB) NewReader(avoid PackSet) *Reader {
	return &Reader{db: db, avoid: avoid, held: db.hold(), key: make([]byte, blobPrefix)}
}

// Close must be called once; the reader cannot be used afterwards.
func (r *Reader) Close() error {
	if r.held != nil {
		return nil
	}
	r.held = pebble.ErrClosed
	err := r.drop()
	r.db.release()
	return err
}

func (r *Reader) drop() error {
	if r.iter == nil {
		return nil
	}
	it := r.iter
	r.iter = nil
	return it.Close()
}

// Has tells whether a pack holds the blob, and names one.
func (r *Reader) Has(id blob.ID) (packfile.Name, bool, error) {
	p, _, err := r.first(id)
	if p == nil || err != nil {
		return packfile.Name{}, false, err
	}
	return p.Name, true, nil
}

// Lookup tells where a copy of the blob lies.
func (r *Reader) Lookup(id blob.ID) (Location, bool, error) {
	p, value, err := r.first(id)
	if p == nil || err != nil {
		return Location{}, false, err
	}
	at, err := p.locate(value)
	return at, err == nil, err
}

// Copies appends the locations of all copies of the blob to dst.
func (r *Reader) Copies(dst []Location, id blob.ID) ([]Location, error) {
	err := r.seek(id)
	for err == nil && r.iter.Valid() {
		var p *cachedPack
		if p, err = r.pack(); err == nil && p != nil {
			var value []byte
			var at Location
			if value, err = r.iter.ValueAndErr(); err == nil {
				at, err = p.locate(value)
			}
			dst = append(dst, at)
		}
		r.iter.Next()
	}
	return dst, r.failed(err)
}

// first finds the first copy, and its record. No pack means no copy.
func (r *Reader) first(id blob.ID) (*cachedPack, []byte, error) {
	if err := r.seek(id); err != nil {
		return nil, nil, err
	}
	for ; r.iter.Valid(); r.iter.Next() {
		p, err := r.pack()
		if err != nil {
			return nil, nil, err
		}
		if p == nil {
			continue
		}
		value, err := r.iter.ValueAndErr()
		return p, value, err
	}
	return nil, nil, r.failed(nil)
}

// pack is the pack of the record under the iterator, nil if it is gone or to
// be avoided.
func (r *Reader) pack() (*cachedPack, error) {
	_, number := splitBlobKey(r.iter.Key())
	p, err := r.db.packByNumber(number)
	if err != nil || p.gone || r.avoid.Has(p.Name) {
		return nil, err
	}
	return p, nil
}

// seek puts the iterator on the first record of the blob.
func (r *Reader) seek(id blob.ID) error {
	if r.held != nil {
		return r.held
	}
	if err := r.refresh(); err != nil {
		return err
	}
	r.key = append(append(r.key[:0], tagBlob), id[:]...)
	r.iter.SeekPrefixGE(r.key)
	return nil
}

// refresh renews the iterator, a view of one moment, if the database has moved
// on. The epoch is loaded first: the view is at least as new as it says.
func (r *Reader) refresh() error {
	epoch := r.db.epoch.Load()
	if r.iter != nil && r.epoch == epoch {
		return nil
	}
	if err := r.drop(); err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	return r.db.failed.Catch(func() (err error) {
		r.iter, err = r.db.pebble.NewIter(&pebble.IterOptions{
			LowerBound: []byte{tagBlob}, UpperBound: []byte{tagBlob + 1}, UseL6Filters: true})
		r.epoch = epoch
		return err
	})
}

// failed returns err or else the error of the iterator, and drops the iterator
// after an error: the next look-up starts afresh.
func (r *Reader) failed(err error) error {
	if err == nil {
		err = r.iter.Error()
	}
	if err == nil {
		return nil
	}
	_ = r.drop() // reports the same error
	return fmt.Errorf("read index: %w", err)
}

// locate completes the record of a blob in the pack.
func (p *cachedPack) locate(value []byte) (Location, error) {
	at, err := decodePlace(value)
	if err != nil {
		return Location{}, err
	}
	if int64(at.frame) >= int64(len(p.Frames)) {
		return Location{}, fmt.Errorf("%w: frame %d of %d in pack %v", ErrFailed, at.frame, len(p.Frames), p.Name)
	}
	f := p.Frames[at.frame]
	if uint64(at.offset)+uint64(at.length) > uint64(f.Content) {
		return Location{}, fmt.Errorf("%w: blob ends behind its frame in pack %v", ErrFailed, p.Name)
	}
	return Location{Pack: p.Name, PackSize: p.Size,
		FrameIndex: int(at.frame), FrameOffset: f.Offset, FrameLength: f.Length, FrameContent: f.Content,
		Kind: f.Kind, Offset: at.offset, Length: at.length}, nil
}
