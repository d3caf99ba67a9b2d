package commit

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Ref is a published snapshot as a listing shows it.
type Ref struct {
	ID      blob.ID
	Session Session
	Size    int64 // of the object, bytes
}

// Key is the key of the snapshot's object.
func (r Ref) Key() string { return snapshotKey(r.ID, r.Session) }

// List yields the published snapshots in the order of their ids; one that was
// published twice comes twice in a row. Tombstones are passed over,
// and so are objects whose names are no snapshots', such as copies that a tool
// for synchronising left: Verify names them.
func List(ctx context.Context, repo Repo, prefix string) iter.Seq2[Ref, error] {
	return func(yield func(Ref, error) bool) {
		for info, err := range repo.Store.List(ctx, snapshotPrefix+prefix, "") {
			if err != nil {
				yield(Ref{}, err)
				return
			}
			if info.Size == tombstoneSize {
				continue
			}
			ref, err := parseSnapshotKey(info.Key)
			if err != nil {
				continue
			}
			ref.Size = info.Size
			if !yield(ref, nil) {
				return
			}
		}
	}
}

func parseSnapshotKey(key string) (Ref, error) {
	id, session, ok := strings.Cut(strings.TrimPrefix(key, snapshotPrefix), "/")
	parsed, err := blob.ParseID(id)
	if !ok || err != nil || session == "" {
		return Ref{}, fmt.Errorf("%s: %w", key, ErrForeign)
	}
	return Ref{ID: parsed, Session: Session(session)}, nil
}

// Load reads one published snapshot. ErrNotFound if it was forgotten meanwhile.
func Load(ctx context.Context, repo Repo, ref Ref) (Record, error) {
	sealed, err := objectstore.ReadAll(ctx, repo.Store, ref.Key(), maxObject)
	if isGone(err) || err == nil && len(sealed) == tombstoneSize {
		return Record{}, fmt.Errorf("%s: %w", ref.Key(), ErrNotFound)
	}
	if err != nil {
		return Record{}, err
	}
	content, err := repo.Sealer.Open(nil, seal.Snapshot, sealed, seal.MaxContent)
	if err != nil {
		return Record{}, failed(ref.Key(), err)
	}
	record, err := DecodeRecord(content)
	if err != nil {
		return Record{}, failed(ref.Key(), err)
	}
	if record.ID(repo.Namer) != ref.ID {
		return Record{}, fmt.Errorf("%s: %w: content has another id", ref.Key(), ErrDamaged)
	}
	return record, nil
}

// Exists reports whether the snapshot is still published. One request.
func Exists(ctx context.Context, repo Repo, ref Ref) (bool, error) {
	info, err := repo.Store.Stat(ctx, ref.Key())
	if isGone(err) {
		return false, nil
	}
	return err == nil && info.Size > tombstoneSize, err
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
