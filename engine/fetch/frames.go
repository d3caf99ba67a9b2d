package fetch

import (
	"context"
	"errors"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Frames is Blobs for who can use a frame as it is stored. A frame of which ids
// names every blob, each once, goes to whole, still sealed; its memory is valid,
// and whole's own, only during the call. An error of whole that wraps
// packfile.ErrDamaged says that this copy is no good. Every other blob goes to
// single, as Blobs does it.
func (f *Fetcher) Frames(ctx context.Context, kind blob.Kind, ids []blob.ID, whole func(packfile.SealedFrame) error, single func(i int, plaintext []byte, err error) error) error {
	b := &bulk{Fetcher: f, kind: kind, ids: ids, deliver: single}
	b.take = func(ctx context.Context, frame span, buf *buffers) error {
		blobs, all := b.blobsOf(frame)
		if !all {
			return b.openFrame(ctx, frame, buf)
		}
		l := b.wants[frame.from].at
		err := whole(packfile.SealedFrame{Kind: kind, Blobs: blobs, Bytes: buf.sealed})
		if errors.Is(err, packfile.ErrDamaged) && b.forget(kind, l.Pack) {
			if buf.sealed, err = b.readFrame(ctx, kind, l); err == nil {
				err = whole(packfile.SealedFrame{Kind: kind, Blobs: blobs, Bytes: buf.sealed})
			}
		}
		if errors.Is(err, packfile.ErrDamaged) || errors.Is(err, objectstore.ErrNotExist) {
			return b.deliverOthers(ctx, frame, err)
		}
		return err
	}
	return b.run(ctx)
}

// blobsOf describes the blobs of a frame that are wanted, and tells whether they
// are all it holds: whether they follow each other from its start to its end.
func (b *bulk) blobsOf(frame span) (blobs []packfile.Blob, all bool) {
	end := uint32(0)
	for _, w := range b.wants[frame.from:frame.to] {
		if w.at.Offset != end {
			return nil, false
		}
		end += w.at.Length
		blobs = append(blobs, packfile.Blob{ID: b.ids[w.index], Length: w.at.Length})
	}
	return blobs, end == b.wants[frame.from].at.FrameContent
}

// Bytes adds up the plaintext of blobs that are in the index.
func (f *Fetcher) Bytes(ctx context.Context, kind blob.Kind, ids []blob.ID) (sum uint64, err error) {
	var copies []Location
	for _, id := range ids {
		if copies, err = f.cfg.Locator.Copies(ctx, kind, id, copies[:0]); err != nil {
			return sum, err
		}
		if len(copies) > 0 {
			sum += uint64(copies[0].Length)
		}
	}
	return sum, nil
}
