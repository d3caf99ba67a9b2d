package commit

import (
	"context"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Bury puts a tombstone in place of an object at a snapshot's key that cannot be
// read, so that listings and collections need not stop at it. Unlike Forget it keeps
// nothing, since nothing of it can be used; and the tombstone stays for ever, since it may
// stand for one of an expired attempt. An object that turns out to be readable
// is left alone: it reports false.
func Bury(ctx context.Context, repo Repo, ref Ref) (buried bool, err error) {
	if err := unusable(ctx, repo, ref); !errors.Is(err, ErrDamaged) {
		return false, err
	}
	err = putTombstone(ctx, repo, ref.Key(), expired, objectstore.PutOptions{})
	return err == nil, err
}

// unusable returns the damage of the object at a snapshot's key. One that is gone, or
// became a tombstone since it was listed, has none.
func unusable(ctx context.Context, repo Repo, ref Ref) error {
	var err error
	if ref.State == StatePublished {
		_, err = Load(ctx, repo, ref)
	} else {
		_, err = readTombstone(ctx, repo, ref.Key())
	}
	if isGone(err) || errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", ref.Key(), err)
	}
	return nil
}
