package commit

import (
	"bytes"
	"context"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// A check that finds a pack gone or damaged puts an empty object under
// damaged/<pack>: from then on no writer reuses a blob of that pack, so that the
// next snapshot of the same content stores it again. The mark says no more: what
// can still be read of the pack is read. Pack names are never reused, so a mark
// that is left behind does no harm.
const damagedPrefix = "damaged/"

func damagedKey(name packfile.Name) string { return damagedPrefix + name.String() }

// MarkDamaged says that no blob of the pack may be reused. Marking twice is one
// mark.
func MarkDamaged(ctx context.Context, repo Repo, name packfile.Name) error {
	_, err := repo.Store.Put(ctx, damagedKey(name), bytes.NewReader(nil), objectstore.PutOptions{})
	return err
}

// UnmarkDamaged takes the mark away from a pack that is whole again, or gone from
// the index too.
func UnmarkDamaged(ctx context.Context, repo Repo, name packfile.Name) error {
	return repo.Store.Delete(ctx, damagedKey(name))
}

// Damaged lists the marked packs. One request. Keys that name no pack are passed
// over.
func Damaged(ctx context.Context, repo Repo) (index.PackSet, error) {
	marked := index.PackSet{}
	for info, err := range repo.Store.List(ctx, damagedPrefix, "") {
		if err != nil {
			return nil, err
		}
		if name, err := packfile.ParseName(info.Key[len(damagedPrefix):]); err == nil {
			marked[name] = struct{}{}
		}
	}
	return marked, nil
}
