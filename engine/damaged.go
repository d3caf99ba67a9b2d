package engine

import (
	"context"
	"errors"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// dropLost forgets packs that interrupted sessions uploaded, that no segment
// names, and that are not in the store as they were: it may have been rolled back
// to an older copy behind the local index. One request for each such pack, of
// which there are mostly none.
func (r *Repository) dropLost(ctx context.Context, db *index.DB) error {
	orphans, err := db.Unsegmented(ctx)
	if err != nil {
		return err
	}
	for _, pack := range orphans {
		info, err := r.store.Stat(ctx, packKey(pack.Name))
		if err != nil && !errors.Is(err, objectstore.ErrNotExist) {
			return err
		}
		if err == nil && info.Size == pack.Size {
			continue
		}
		if err := db.RemovePacks(ctx, pack.Name); err != nil {
			return err
		}
	}
	return nil
}

// knowsAll reports whether the index names every pack: one that was dropped from
// it is lost, and so is a snapshot that lists it. About 5 us a pack.
func (r *Repository) knowsAll(ctx context.Context, packs []packfile.Name) (bool, error) {
	db, err := r.openIndex()
	if err != nil {
		return false, err
	}
	for _, name := range packs {
		if _, ok, err := db.Pack(ctx, name); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}
