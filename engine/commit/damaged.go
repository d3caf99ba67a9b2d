package commit

import (
	"bytes"
	"context"
	"strings"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// A check that finds a pack gone or damaged puts an empty object under
// gc/damaged/<pack>: from then on no writer reuses a blob of that pack, so that the
// next snapshot of the same content stores it again. The mark says no more: what
// can still be read of the pack is read. Pack names are never reused, so a mark
// that is left behind does no harm. The marks lie behind the generations, so that
// the one listing of a View shows both.
const damagedPrefix = gcPrefix + "damaged/"

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

func parseDamagedKey(key string) (packfile.Name, bool) {
	rest, ok := strings.CutPrefix(key, damagedPrefix)
	if !ok {
		return packfile.Name{}, false
	}
	name, err := packfile.ParseName(rest)
	return name, err == nil
}
