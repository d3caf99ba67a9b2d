package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// forgottenPrefix starts the keys of the records of forgotten snapshots, sealed as
// they were. A collection keeps what they need as long as its window for an undo
// is open, and removes them behind it.
const forgottenPrefix = "forgotten/"

func (r Ref) forgottenKey() string { return forgottenPrefix + r.ID.String() + "/" + string(r.Session) }

// Forget takes one published object of a snapshot away. Its record is kept under
// forgotten/ first, then a tombstone takes its place: from that write on the
// snapshot is not visible. What is forgotten already, or gone, is no error.
func Forget(ctx context.Context, repo Repo, ref Ref) error {
	sealed, err := objectstore.ReadAll(ctx, repo.Store, ref.Key(), maxObject)
	if isGone(err) || err == nil && stateOf(int64(len(sealed))) != StatePublished {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := repo.Store.Put(ctx, ref.forgottenKey(), bytes.NewReader(sealed), objectstore.PutOptions{}); err != nil {
		return err
	}
	return putTombstone(ctx, repo, ref.Key(), forgotten, objectstore.PutOptions{})
}

// putTombstone puts a tombstone of a kind at the key of a snapshot.
func putTombstone(ctx context.Context, repo Repo, key string, kind []byte, opts objectstore.PutOptions) error {
	_, err := repo.Store.Put(ctx, key, bytes.NewReader(sealFor(repo, key, seal.Tombstone, kind)), opts)
	return err
}

// readTombstone opens the tombstone at a key and tells its kind.
func readTombstone(ctx context.Context, repo Repo, key string) (State, error) {
	sealed, err := objectstore.ReadAll(ctx, repo.Store, key, maxObject)
	if err != nil {
		return 0, err
	}
	return openTombstone(repo, key, sealed)
}

// openTombstone tells the kind of what lies at a key. ErrDamaged if it is no tombstone of
// that key.
func openTombstone(repo Repo, key string, sealed []byte) (State, error) {
	content, err := openObject(repo, key, seal.Tombstone, sealed)
	switch {
	case err != nil:
		return 0, err
	case bytes.Equal(content, forgotten):
		return StateForgotten, nil
	case bytes.Equal(content, expired):
		return StateExpired, nil
	}
	return 0, fmt.Errorf("%s: %w: no tombstone has the content %x", key, ErrDamaged, content)
}

// ListForgotten yields the forgotten snapshots whose records are kept, in the
// order of their ids. Their ModTime is when they were forgotten.
func ListForgotten(ctx context.Context, repo Repo, prefix string) iter.Seq2[Ref, error] {
	return listRefs(ctx, repo, forgottenPrefix, prefix)
}

// LoadForgotten reads the record of a forgotten snapshot. ErrNotFound if it is not
// kept any more.
func LoadForgotten(ctx context.Context, repo Repo, ref Ref) (Record, error) {
	return loadRecord(ctx, repo, ref.forgottenKey(), ref.ID)
}

// ErrExpired says that the tombstone of an expired attempt stays for ever.
var ErrExpired = errors.New("the tombstone of an expired attempt stays for ever")

// DropForgotten removes the record of a forgotten snapshot for good.
func DropForgotten(ctx context.Context, repo Repo, ref Ref) error {
	return repo.Store.Delete(ctx, ref.forgottenKey())
}

// DropTombstone removes the tombstone of a forgotten snapshot. Its pending object
// must have been absent in a listing that began after the tombstone was seen:
// otherwise the attempt that published it may still be told that its commit never
// happened, and publish again what a collection has taken.
func DropTombstone(ctx context.Context, repo Repo, ref Ref) error {
	state, err := readTombstone(ctx, repo, ref.Key())
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if state != StateForgotten {
		return fmt.Errorf("%s: %w", ref.Key(), ErrExpired)
	}
	return repo.Store.Delete(ctx, ref.Key())
}
