package keyring

import (
	"context"
	"errors"
	"iter"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Verify reads the key objects in a store, those that an init left behind
// included, and yields the ones that cannot be used, by the key of the object. A
// failure to list is yielded under Prefix, last.
func Verify(ctx context.Context, store objectstore.Store) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		ids, err := listIDs(ctx, store)
		if err != nil {
			yield(Prefix, err)
			return
		}
		for _, id := range ids {
			_, err := readObject(ctx, store, id)
			if err == nil || errors.Is(err, objectstore.ErrNotExist) { // removed since
				continue
			}
			if !yield(objectName(id), err) {
				return
			}
		}
	}
}
