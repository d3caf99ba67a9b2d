package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Rescuer stores again what a collection took from under an attempt.
type Rescuer interface {
	// Rescue makes sure that every blob reachable from the record has a copy
	// outside the packs of avoid, in an indexed pack, and returns the packs of the
	// whole snapshot, none of them in avoid. ErrLost if a blob cannot be had.
	Rescue(ctx context.Context, record Record, avoid index.PackSet) ([]packfile.Name, error)
}

// Publish makes a snapshot visible (steps W4 to W7). Every blob reachable from
// the record must be in an indexed pack outside the dead packs of view. It
// returns the snapshot's id and the latest view. ErrLost asks for a new attempt
// under a new session; after any error the snapshot is not visible, except that
// after an error of the store in W6 it may be: that is said.
func Publish(ctx context.Context, repo Repo, session Session, record Record, view View, rescuer Rescuer) (Published, error) {
	if err := putPending(ctx, repo, session, record); err != nil { // W4
		return Published{}, err
	}
	record, view, err := settle(ctx, repo, session, record, view, rescuer) // W5
	if err != nil {
		return Published{}, errors.Join(err, withdraw(ctx, repo, session))
	}
	size, err := putSnapshot(ctx, repo, session, record) // W6
	if err != nil {
		return Published{}, err
	}
	published := Published{ID: record.ID(repo.Namer), Session: session, Record: record, View: view, Size: size}
	published.Cleanup = repo.Store.Delete(ctx, pendingKey(session)) // W7
	return published, nil
}

// Published is a snapshot that everybody sees.
type Published struct {
	ID      blob.ID
	Session Session
	Record  Record // with the packs it has after W5
	View    View
	Size    int64 // of the snapshot object, bytes
	// Cleanup is why the pending object could not be deleted, if so. It does no
	// harm but stays.
	Cleanup error
}

func putPending(ctx context.Context, repo Repo, session Session, record Record) error {
	key := pendingKey(session)
	sealed := sealFor(repo, key, seal.Pending, record.Encode())
	_, err := repo.Store.Put(ctx, key, bytes.NewReader(sealed), objectstore.PutOptions{IfAbsent: true})
	if errors.Is(err, objectstore.ErrExist) { // by a put of ours, whose answer was lost
		return readBack(ctx, repo, key, sealed, err)
	}
	return err
}

// replacePending puts the pending object of this attempt again.
func replacePending(ctx context.Context, repo Repo, session Session, record Record) error {
	key := pendingKey(session)
	_, err := repo.Store.Put(ctx, key, bytes.NewReader(sealFor(repo, key, seal.Pending, record.Encode())), objectstore.PutOptions{})
	return err
}

// withdraw deletes the pending object of an attempt that failed before W6: no
// snapshot object exists and none will, since this attempt ends here.
func withdraw(ctx context.Context, repo Repo, session Session) error {
	return repo.Store.Delete(context.WithoutCancel(ctx), pendingKey(session))
}

// settle lists the generations until a listing shows nothing new (step W5). The
// first listing that follows the pending object and shows nothing new proves
// that every collector from then on sees this attempt.
//
// Packs that were marked as damaged since the view are treated as dead ones: a
// rescue stores again what only they hold, or the attempt starts over.
//
// The pending object then names the packs that the rescue needs, before the next
// listing: a collector that misses their segment notices that it does.
func settle(ctx context.Context, repo Repo, session Session, record Record, view View, rescuer Rescuer) (Record, View, error) {
	for {
		next, err := extend(ctx, repo, view)
		if errors.Is(err, errOtherStore) { // and the index is perhaps not of it either
			err = fmt.Errorf("%w: %w", ErrLost, err)
		}
		if err != nil {
			return record, view, err
		}
		if view.Covers(next) {
			return record, next, nil
		}
		view = next
		if avoid := view.Avoid(); slices.ContainsFunc(record.Packs, avoid.Has) {
			packs, err := rescuer.Rescue(ctx, record, avoid)
			if err != nil {
				return record, view, err
			}
			record.Packs = packs
			if err := replacePending(ctx, repo, session, record); err != nil {
				return record, view, err
			}
		}
	}
}

// putSnapshot is the commit point (step W6).
func putSnapshot(ctx context.Context, repo Repo, session Session, record Record) (int64, error) {
	key := snapshotKey(record.ID(repo.Namer), session)
	content := record.Encode()
	sealed := repo.Sealer.Seal(nil, seal.Snapshot, content, content)
	if len(sealed) <= expiredSize {
		return 0, fmt.Errorf("%s: a snapshot of %d bytes looks like a tombstone", key, len(sealed))
	}
	_, err := repo.Store.Put(ctx, key, bytes.NewReader(sealed), objectstore.PutOptions{IfAbsent: true})
	if err == nil {
		return int64(len(sealed)), nil
	}
	return int64(len(sealed)), readBack(ctx, repo, key, sealed, err)
}

// readBack decides what a put that was not acknowledged did: a lost answer
// followed by a retry looks like somebody else's object.
func readBack(ctx context.Context, repo Repo, key string, own []byte, putErr error) error {
	stored, err := objectstore.ReadAll(context.WithoutCancel(ctx), repo.Store, key, maxObject)
	switch {
	case err == nil && bytes.Equal(stored, own):
		return nil
	case err == nil:
		return fmt.Errorf("%s: %w", key, ErrLost)
	case isGone(err):
		return putErr
	}
	return fmt.Errorf("cannot tell whether %s was put: %w", key, errors.Join(putErr, err))
}
