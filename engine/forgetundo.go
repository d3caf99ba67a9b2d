package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile/blob"
)

// ErrCollected says that something is gone that a forgotten snapshot needs. A collection
// has taken it, as a rule; but it may have been lost before.
var ErrCollected = errors.New("what the snapshot needs is gone, collected or lost")

// ForgottenSnapshot is a snapshot that was forgotten and can perhaps be had back.
type ForgottenSnapshot struct {
	Info
	At time.Time // when it was forgotten, by the clock of the store
}

// Forgotten lists the forgotten snapshots whose records are still kept, in the
// order of their ids, but for those that were published again. A damaged record is
// a warning.
func (r *Repository) Forgotten(ctx context.Context) ([]ForgottenSnapshot, error) {
	all, err := r.forgotten(ctx)
	return all, failed("list", "forgotten snapshots", err)
}

func (r *Repository) forgotten(ctx context.Context) ([]ForgottenSnapshot, error) {
	published := map[ID]bool{}
	refs, err := r.refs(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		published[ref.ID] = true
	}
	var all []ForgottenSnapshot
	for ref, err := range commit.ListForgotten(ctx, r.protocol(), "") {
		if err != nil {
			return nil, err
		}
		if published[ref.ID] {
			continue
		}
		record, err := commit.LoadForgotten(ctx, r.protocol(), ref)
		if errors.Is(err, ErrDamaged) || errors.Is(err, commit.ErrNotFound) {
			r.opts.Events.warn("read forgotten snapshot", ref.ID.String(), err)
			continue
		}
		if err != nil {
			return nil, err
		}
		info, err := r.describe(ctx, ref.ID, record.Manifest)
		if err != nil {
			return nil, err
		}
		published[ref.ID] = true // another session forgot it too
		all = append(all, ForgottenSnapshot{Info: info, At: ref.ModTime})
	}
	return all, nil
}

// ResolveForgotten finds the forgotten snapshot that a user names by its id or by
// a prefix of at least MinPrefix digits. ErrNotFound or ErrAmbiguous if there is
// none or more.
func (r *Repository) ResolveForgotten(ctx context.Context, name string) (ID, error) {
	id, err := r.resolveForgotten(ctx, name)
	return id, failed("find forgotten snapshot", name, err)
}

func (r *Repository) resolveForgotten(ctx context.Context, name string) (ID, error) {
	prefix, ok := prefixOf(name)
	if !ok {
		return ID{}, fmt.Errorf("%w: a forgotten snapshot is named by %d to %d hexadecimal digits", ErrNotFound, MinPrefix, 2*blob.IDSize)
	}
	var found ID
	for ref, err := range commit.ListForgotten(ctx, r.protocol(), prefix) {
		if err != nil {
			return ID{}, err
		}
		if !found.IsZero() && found != ref.ID {
			return ID{}, fmt.Errorf("%w: %v and %v start with it, for example", ErrAmbiguous, found, ref.ID)
		}
		found = ref.ID
	}
	if found.IsZero() {
		return ID{}, fmt.Errorf("%w: it was not forgotten, or a collection has removed its record", ErrNotFound)
	}
	return found, nil
}

// UndoForget publishes a forgotten snapshot again, by the publish protocol and
// under a fresh session, so that it is safe beside writers and collections. A
// snapshot that is there already is left as it is. ErrNotFound if no record of it
// is kept, ErrCollected if something that it needs is gone.
func (r *Repository) UndoForget(ctx context.Context, id ID) (Info, error) {
	info, err := r.undoForget(ctx, id)
	return info, failed("undo forgetting", id.String(), err)
}

func (r *Repository) undoForget(ctx context.Context, id ID) (Info, error) {
	_, record, err := commit.Find(ctx, r.protocol(), id)
	if err == nil {
		return r.describe(ctx, id, record.Manifest)
	}
	if !errors.Is(err, commit.ErrNotFound) && !errors.Is(err, ErrDamaged) {
		return Info{}, err
	}
	if record, err = r.findForgotten(ctx, id); err != nil {
		return Info{}, err
	}
	err = r.publishAgain(ctx, record)
	for n := 1; n < attempts && errors.Is(err, ErrRetry); n++ {
		r.opts.Events.warn("undo forgetting", id.String(), err)
		err = r.publishAgain(ctx, record)
	}
	if err != nil {
		return Info{}, err
	}
	return r.describe(ctx, id, record.Manifest)
}

// findForgotten reads the record from any session that has an intact one.
func (r *Repository) findForgotten(ctx context.Context, id ID) (commit.Record, error) {
	found := fmt.Errorf("%w: no record of it is kept; a collection removes it some time after the snapshot was forgotten", ErrNotFound)
	for ref, err := range commit.ListForgotten(ctx, r.protocol(), id.String()+"/") {
		if err != nil {
			return commit.Record{}, err
		}
		record, err := commit.LoadForgotten(ctx, r.protocol(), ref)
		if err == nil {
			return record, nil
		}
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, commit.ErrNotFound) {
			return commit.Record{}, err
		}
		if errors.Is(err, ErrDamaged) {
			found = err
		}
	}
	return commit.Record{}, found
}

// publishAgain is one attempt. Its rescue (W2, W3) looks every blob up, whatever
// the packs of the record: since it was published, packs may have been rewritten
// and deleted. What lies in dead packs only is copied from there while it can be.
func (r *Repository) publishAgain(ctx context.Context, record commit.Record) error {
	ground, err := r.freshGround(ctx) // W1
	if err != nil {
		return err
	}
	avoid, err := r.absentPacks(ctx, ground.db)
	if err != nil {
		return err
	}
	maps.Copy(avoid, ground.view.Avoid())
	rescuer := r.rescuer()
	if record.Packs, err = rescuer.Rescue(ctx, record, avoid); err != nil {
		return undoFailed(err)
	}
	published, err := commit.Publish(ctx, r.protocol(), commit.NewSession(), record, ground.view, rescuer) // W4 to W7
	if err != nil {
		return undoFailed(err)
	}
	r.tidy(ctx, r.opts.Events, published, ground.db)
	return nil
}

// absentPacks returns the packs that the index names and that are not in the store,
// or not as they were: what was forgotten is not what checks look after. One request
// for each 1000 packs.
func (r *Repository) absentPacks(ctx context.Context, db *index.DB) (index.PackSet, error) {
	sizes, err := r.listedPacks(ctx)
	if err != nil {
		return nil, err
	}
	absent := index.PackSet{}
	for pack, err := range db.Packs(ctx) {
		if err != nil {
			return nil, err
		}
		if size, ok := sizes[pack.Name]; !ok || size != pack.Size {
			absent[pack.Name] = struct{}{}
		}
	}
	return absent, nil
}

// undoFailed tells what a new attempt can cure from what is gone: there is no
// workspace to read it from.
func undoFailed(err error) error {
	var gone *fetch.Error
	if lostBlob(err) && errors.As(err, &gone) {
		return fmt.Errorf("%w: %v", ErrCollected, gone) // but for the advice to start over
	}
	return retryable(err)
}
