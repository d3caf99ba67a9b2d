package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

func packKey(name packfile.Name) string { return "packs/" + name.String() }

// check refuses a location that no pack can have, before anything is allocated
// for it. A sealed frame is never longer than its content stored as it is.
func (l Location) check() error {
	switch {
	case l.FrameContent > packfile.MaxFrameContent || l.FrameOffset > packfile.MaxSize:
		return fmt.Errorf("%w: the index says frame of %d bytes at %d", packfile.ErrDamaged, l.FrameContent, l.FrameOffset)
	case l.FrameLength < seal.Overhead || l.FrameLength > l.FrameContent+seal.Overhead:
		return fmt.Errorf("%w: the index says frame of %d sealed bytes for %d", packfile.ErrDamaged, l.FrameLength, l.FrameContent)
	case uint64(l.Offset)+uint64(l.Length) > uint64(l.FrameContent):
		return fmt.Errorf("%w: the index says blob of %d bytes at %d in a frame of %d", packfile.ErrDamaged, l.Length, l.Offset, l.FrameContent)
	}
	return nil
}

// open decrypts and decompresses a sealed frame, which it overwrites, and
// appends the content to dst.
func (f *Fetcher) open(dst []byte, kind blob.Kind, l Location, sealed []byte) ([]byte, error) {
	frame := packfile.Frame{Kind: kind, Offset: l.FrameOffset, Length: l.FrameLength, Blobs: []packfile.Blob{{Length: l.FrameContent}}}
	return frame.Open(dst, f.cfg.Sealer, sealed)
}

// verified cuts a blob out of the content of its frame and checks its id.
func (f *Fetcher) verified(kind blob.Kind, id blob.ID, l Location, content []byte) ([]byte, error) {
	end := uint64(l.Offset) + uint64(l.Length)
	if end > uint64(len(content)) {
		return nil, fmt.Errorf("%w: the index says blob of %d bytes at %d in a frame of %d", packfile.ErrDamaged, l.Length, l.Offset, len(content))
	}
	plaintext := content[l.Offset:end:end]
	return plaintext, packfile.VerifyBlob(f.cfg.Namer, kind, id, plaintext)
}

// frame returns the content of a frame, mostly from the cache.
func (f *Fetcher) frame(ctx context.Context, kind blob.Kind, l Location) ([]byte, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	return f.cache.get(ctx, frameKey{l.Pack, l.FrameOffset, kind}, func() ([]byte, error) {
		content, err := f.readAndOpen(ctx, nil, kind, l)
		if errors.Is(err, packfile.ErrDamaged) && f.forget(kind, l.Pack) {
			content, err = f.readAndOpen(ctx, nil, kind, l)
		}
		return content, err
	})
}

func (f *Fetcher) readAndOpen(ctx context.Context, dst []byte, kind blob.Kind, l Location) ([]byte, error) {
	sealed, err := f.readFrame(ctx, kind, l)
	if err != nil {
		return dst, err
	}
	return f.open(dst, kind, l, sealed)
}

func (f *Fetcher) readFrame(ctx context.Context, kind blob.Kind, l Location) ([]byte, error) {
	key := packKey(l.Pack)
	sealed, err := objectstore.ReadRange(ctx, f.store(kind), key, int64(l.FrameOffset), int64(l.FrameLength))
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, objectstore.ErrRange) {
		return sealed, err
	}
	// Either the connection broke, or the pack is shorter than the index says.
	info, statErr := f.store(kind).Stat(ctx, key)
	if statErr == nil && info.Size < int64(l.FrameOffset)+int64(l.FrameLength) {
		err = fmt.Errorf("%w: pack is only %d bytes long", packfile.ErrDamaged, info.Size)
	}
	return nil, err
}
