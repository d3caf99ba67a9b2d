package commit

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Ref is what a listing shows of a snapshot.
type Ref struct {
	ID      blob.ID
	Session Session
	State   State
	Size    int64     // of the object, bytes
	ModTime time.Time // when the object was put, by the store's clock
}

// Key is the key of the snapshot's object.
func (r Ref) Key() string { return snapshotKey(r.ID, r.Session) }

// List yields the published snapshots in the order of their ids; one that was
// published twice comes twice in a row. Tombstones are passed over,
// and so are objects whose names are no snapshots', such as copies that a tool
// for synchronising left: Verify names them.
func List(ctx context.Context, repo Repo, prefix string) iter.Seq2[Ref, error] {
	return func(yield func(Ref, error) bool) {
		for ref, err := range ListAll(ctx, repo, prefix) {
			if err == nil && ref.State != StatePublished {
				continue
			}
			if !yield(ref, err) {
				return
			}
		}
	}
}

// ListAll is List with the tombstones.
func ListAll(ctx context.Context, repo Repo, prefix string) iter.Seq2[Ref, error] {
	return listRefs(ctx, repo, snapshotPrefix, prefix)
}

// listRefs lists what lies at <folder><id>/<session>.
func listRefs(ctx context.Context, repo Repo, folder, prefix string) iter.Seq2[Ref, error] {
	return func(yield func(Ref, error) bool) {
		for info, err := range repo.Store.List(ctx, folder+prefix, "") {
			if err != nil {
				yield(Ref{}, err)
				return
			}
			ref, err := parseRef(folder, info.Key)
			if err != nil {
				continue
			}
			ref.State, ref.Size, ref.ModTime = stateOf(info.Size), info.Size, info.ModTime
			if !yield(ref, nil) {
				return
			}
		}
	}
}

func parseRef(folder, key string) (Ref, error) {
	id, session, ok := strings.Cut(strings.TrimPrefix(key, folder), "/")
	parsed, err := blob.ParseID(id)
	if !ok || err != nil || !Session(session).valid() {
		return Ref{}, fmt.Errorf("%s: %w", key, ErrForeign)
	}
	return Ref{ID: parsed, Session: Session(session)}, nil
}

// Load reads one published snapshot. ErrNotFound if it was forgotten meanwhile; what is as
// short as a tombstone and is none is ErrDamaged.
func Load(ctx context.Context, repo Repo, ref Ref) (Record, error) {
	return loadRecord(ctx, repo, ref.Key(), ref.ID)
}

// loadRecord reads the record of a snapshot at a key.
func loadRecord(ctx context.Context, repo Repo, key string, id blob.ID) (Record, error) {
	sealed, err := objectstore.ReadAll(ctx, repo.Store, key, maxObject)
	if err == nil && stateOf(int64(len(sealed))) != StatePublished {
		if _, err = openTombstone(repo, key, sealed); err == nil {
			err = failed(key, ErrNotFound)
		}
	}
	if isGone(err) {
		err = failed(key, ErrNotFound)
	}
	if err != nil {
		return Record{}, err
	}
	content, err := repo.Sealer.Open(nil, seal.Snapshot, sealed, seal.MaxContent)
	if err != nil {
		return Record{}, failed(key, err)
	}
	record, err := DecodeRecord(content)
	if err != nil {
		return Record{}, failed(key, err)
	}
	if record.ID(repo.Namer) != id {
		return Record{}, fmt.Errorf("%s: %w: content has another id", key, ErrDamaged)
	}
	return record, nil
}

// Exists reports whether the snapshot is still published. One request.
func Exists(ctx context.Context, repo Repo, ref Ref) (bool, error) {
	info, err := repo.Store.Stat(ctx, ref.Key())
	if isGone(err) {
		return false, nil
	}
	return err == nil && stateOf(info.Size) == StatePublished, err
}

// Find loads the snapshot with the id. ErrNotFound if there is none. If it was
// published more than once, any intact record will do.
func Find(ctx context.Context, repo Repo, id blob.ID) (Ref, Record, error) {
	found := fmt.Errorf("%v: %w", id, ErrNotFound)
	for ref, err := range List(ctx, repo, id.String()+"/") {
		if err != nil {
			return Ref{}, Record{}, err
		}
		record, err := Load(ctx, repo, ref)
		if err == nil {
			return ref, record, nil
		}
		found = err
	}
	return Ref{}, Record{}, found
}
