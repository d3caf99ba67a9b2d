package engine

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// verifyUploads asks the store for packs that it has acknowledged. One that is
// missing, or not as long as it was sent, fails the attempt before anything is
// published, and leaves the local index, so that the next attempt stores again
// what it held.
func (r *Repository) verifyUploads(ctx context.Context, db *index.DB, packs []packfile.Pack) error {
	errs := make([]error, len(packs))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(loads)
	for i, pack := range packs {
		group.Go(func() error {
			errs[i] = r.verifyUpload(gctx, pack)
			return gctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, pack := range packs {
		if !errors.Is(errs[i], errNotKept) {
			continue
		}
		if err := db.RemovePacks(ctx, pack.Name); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// errNotKept says that a store lost an object that it had acknowledged.
var errNotKept = errors.New("the store acknowledged the upload but did not keep the object")

func (r *Repository) verifyUpload(ctx context.Context, pack packfile.Pack) error {
	info, err := r.store.Stat(ctx, packKey(pack.Name))
	switch {
	case errors.Is(err, objectstore.ErrNotExist):
		return fmt.Errorf("%s: %w: it is missing", packKey(pack.Name), errNotKept)
	case err != nil:
		return err
	case info.Size != pack.Size:
		return fmt.Errorf("%s: %w: it has %d of %d bytes", packKey(pack.Name), errNotKept, info.Size, pack.Size)
	}
	return nil
}
