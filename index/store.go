package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/zeebo/blake3"
)

// Prefix is what the keys of all segments start with.
const Prefix = "index/"

const packPrefix = "packs/"

// WriteSegments puts segments that describe packs, as many as the bound on
// their size needs, and returns those that were acknowledged, also when it
// fails. No packs make no segment.
func WriteSegments(ctx context.Context, store objectstore.Store, sealer *seal.Sealer, packs []packfile.Pack) ([]SegmentInfo, error) {
	w := segmentWriter{store: store, sealer: sealer}
	for _, p := range sortedPacks(packs) {
		if err := w.add(ctx, p); err != nil {
			return w.written, err
		}
	}
	err := w.flush(ctx)
	return w.written, err
}

// segmentWriter collects encoded packs, which come in ascending order of their
// names, and puts a segment whenever the next pack does not fit any more.
type segmentWriter struct {
	store   objectstore.Store
	sealer  *seal.Sealer
	entries []byte // encoded packs
	packs   []packfile.Name
	written []SegmentInfo
}

func (w *segmentWriter) add(ctx context.Context, p packfile.Pack) error {
	entry := appendPack(nil, p)
	if len(entry) > maxSegment-binary.MaxVarintLen32 {
		return &Error{Op: "write segment for", Object: packPrefix + p.Name.String(),
			Err: fmt.Errorf("its description of %d bytes is longer than a segment", len(entry))}
	}
	if len(w.entries)+len(entry) > maxSegment-binary.MaxVarintLen32 {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.entries = append(w.entries, entry...)
	w.packs = append(w.packs, p.Name)
	return nil
}

func (w *segmentWriter) flush(ctx context.Context) error {
	if len(w.packs) == 0 {
		return nil
	}
	content := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen32+len(w.entries)), uint64(len(w.packs)))
	content = append(content, w.entries...)
	sealed := w.sealer.Seal(nil, seal.Segment, content, content)
	info := SegmentInfo{Name: blake3.Sum256(sealed), Size: int64(len(sealed)), Packs: w.packs}
	if _, err := w.store.Put(ctx, info.Name.Key(), bytes.NewReader(sealed), objectstore.PutOptions{}); err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	w.written = append(w.written, info)
	w.entries, w.packs = w.entries[:0], nil
	return nil
}

// ReadSegment reads and verifies one segment. A segment that is there but not
// what it should be is an *Error that wraps ErrDamaged.
func ReadSegment(ctx context.Context, store objectstore.Store, sealer *seal.Sealer, name SegmentName) ([]packfile.Pack, error) {
	sealed, err := objectstore.ReadAll(ctx, store, name.Key(), maxSegment+seal.Overhead)
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	packs, err := openSegment(sealer, name, sealed)
	if err != nil {
		return nil, &Error{Op: "read segment", Object: name.Key(), Err: err}
	}
	return packs, nil
}

func openSegment(sealer *seal.Sealer, name SegmentName, sealed []byte) ([]packfile.Pack, error) {
	if blake3.Sum256(sealed) != name {
		return nil, fmt.Errorf("%w: content has another name", ErrDamaged)
	}
	content, err := sealer.Open(nil, seal.Segment, sealed, maxSegment)
	if err != nil {
		return nil, err
	}
	return DecodeSegment(content)
}

// ListSegments lists the segments of a repository, without their packs. Keys
// below "index/" that name no segment are left out.
//
// A segment that is merged into another one while the listing runs may be
// missed together with the one that replaces it.
func ListSegments(ctx context.Context, store objectstore.Store) ([]SegmentInfo, error) {
	var segments []SegmentInfo
	for info, err := range store.List(ctx, Prefix, "") {
		if err != nil {
			return nil, fmt.Errorf("list segments: %w", err)
		}
		name, err := ParseSegmentName(strings.TrimPrefix(info.Key, Prefix))
		if err != nil {
			continue // not ours: a temporary file of some tool
		}
		segments = append(segments, SegmentInfo{Name: name, Size: info.Size})
	}
	return segments, nil
}

func vanished(err error) bool { return errors.Is(err, objectstore.ErrNotExist) }
