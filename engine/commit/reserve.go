package commit

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// A reserve is an object of no use but its size. When a store is full, whoever is
// about to free space gives it up, so that the small objects which that takes can be
// put: tombstones, lists of dead packs, segments without them. A collection puts a
// new one in the end.
const (
	reserveKey  = "reserve"
	reserveSize = 512 << 10 // bytes: the lists of 5000 packs twice, and their segments
)

// SpendReserve returns the store for work that frees space: a put that finds the
// store full gives up the reserve, and is made again, once.
func SpendReserve(store objectstore.Store) objectstore.Store { return spender{store} }

type spender struct{ objectstore.Store }

func (s spender) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	info, err := s.Store.Put(ctx, key, body, opts)
	if !errors.Is(err, objectstore.ErrNoSpace) {
		return info, err
	}
	_, statErr := s.Store.Stat(ctx, reserveKey)
	if statErr != nil && !isGone(statErr) {
		return info, err
	}
	if statErr == nil {
		if deleteErr := s.Store.Delete(ctx, reserveKey); deleteErr != nil {
			return info, errors.Join(err, deleteErr)
		}
	}
	// If it is gone, another put that found the store full may have given it up just now.
	return s.Store.Put(ctx, key, body, opts)
}

// KeepReserve puts the reserve unless it is there. Its content is random, so that
// no store keeps less of it.
func KeepReserve(ctx context.Context, store objectstore.Store) error {
	info, err := store.Stat(ctx, reserveKey)
	if err == nil && info.Size == reserveSize {
		return nil
	}
	if err != nil && !isGone(err) {
		return err
	}
	content := make([]byte, reserveSize)
	rand.Read(content) // never fails: crypto/rand ends the program instead
	_, err = store.Put(ctx, reserveKey, bytes.NewReader(content), objectstore.PutOptions{})
	return err
}
