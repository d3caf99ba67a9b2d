package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// settle finds out whose object it was that a conditional put met after an
// earlier answer to it was lost: with the caller's content the put has
// succeeded, otherwise it was refused.
func (r *request) settle(ctx context.Context, body objectstore.Body, refusal error) (objectstore.Info, error) {
	info, own, err := r.store.inspect(ctx, r.key, body)
	switch {
	case err != nil:
		err = fmt.Errorf("reading back what an attempt without an answer stored: %w", cause(err))
		return objectstore.Info{}, failed(r.op, r.key, err)
	case !own:
		return objectstore.Info{}, r.final(refusal)
	}
	return info, nil
}

// inspect describes the object under key and says whether its content is body.
// The object is described before and after it is read, so that the ETag is
// certainly that of the content.
func (s *Store) inspect(ctx context.Context, key string, body objectstore.Body) (info objectstore.Info, own bool, err error) {
	before, err := s.Stat(ctx, key)
	if err == nil && before.Size == body.Size() {
		own, err = s.holds(ctx, key, body)
	}
	if err == nil && own {
		info, err = s.Stat(ctx, key)
	}
	if errors.Is(err, objectstore.ErrNotExist) {
		return objectstore.Info{}, false, nil
	}
	return info, own && info.ETag == before.ETag, err
}

// holds compares an object with body, piece by piece.
func (s *Store) holds(ctx context.Context, key string, body objectstore.Body) (same bool, err error) {
	reader, err := s.Get(ctx, key, objectstore.Range{})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	var theirs, ours [32 << 10]byte
	for offset := int64(0); offset < body.Size(); {
		n := min(int64(len(ours)), body.Size()-offset)
		if _, err := io.ReadFull(io.NewSectionReader(body, offset, n), ours[:n]); err != nil {
			return false, fmt.Errorf("%w: %w", errBody, err)
		}
		if _, err := io.ReadFull(reader, theirs[:n]); err != nil {
			return false, err
		}
		if !bytes.Equal(ours[:n], theirs[:n]) {
			return false, nil
		}
		offset += n
	}
	return true, nil
}
