package commit

import (
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Pending is an attempt to publish as a listing shows it.
type Pending struct {
	Session Session
	ModTime time.Time // when it was put, by the store's clock
}

// Key is the key of the pending object.
func (p Pending) Key() string { return pendingKey(p.Session) }

// ListPending yields the attempts that are about to publish, or were. Objects whose
// names no attempt has are passed over.
func ListPending(ctx context.Context, repo Repo) iter.Seq2[Pending, error] {
	return func(yield func(Pending, error) bool) {
		for info, err := range repo.Store.List(ctx, pendingPrefix, "") {
			if err != nil {
				yield(Pending{}, err)
				return
			}
			session := Session(strings.TrimPrefix(info.Key, pendingPrefix))
			if !session.valid() {
				continue
			}
			if !yield(Pending{Session: session, ModTime: info.ModTime}, nil) {
				return
			}
		}
	}
}

// valid reports whether NewSession makes such names.
func (s Session) valid() bool {
	decoded, err := hex.DecodeString(string(s))
	return err == nil && len(decoded) == 16 && hex.EncodeToString(decoded) == string(s)
}

// LoadPending reads what an attempt is about to publish. ErrNotFound if it ended
// meanwhile.
func LoadPending(ctx context.Context, repo Repo, p Pending) (Record, error) {
	content, err := readObject(ctx, repo, p.Key(), seal.Pending)
	if isGone(err) {
		return Record{}, failed(p.Key(), ErrNotFound)
	}
	if err != nil {
		return Record{}, err
	}
	record, err := DecodeRecord(content)
	if err != nil {
		return Record{}, failed(p.Key(), err)
	}
	return record, nil
}

// Expire ends an attempt that seems to be dead, with certainty: it wins the key of
// the snapshot by a tombstone, so that the attempt cannot publish any more, and
// then deletes the pending object. It reports whether it won; if not, the attempt
// published first. The tombstone stays for ever, since the attempt may be paused
// for any time.
func Expire(ctx context.Context, repo Repo, p Pending, record Record) (won bool, err error) {
	key := snapshotKey(record.ID(repo.Namer), p.Session)
	err = putTombstone(ctx, repo, key, expired, objectstore.PutOptions{IfAbsent: true})
	if errors.Is(err, objectstore.ErrExist) { // a record, or a tombstone: perhaps ours, whose answer was lost
		var state State
		if state, err = stateAt(ctx, repo, key); err == nil && state != StateExpired {
			return false, nil
		}
	}
	if err != nil {
		return false, err
	}
	return true, repo.Store.Delete(ctx, p.Key())
}

// stateAt tells what stands at the key of a snapshot, which is known to exist.
func stateAt(ctx context.Context, repo Repo, key string) (State, error) {
	info, err := repo.Store.Stat(ctx, key)
	if err != nil {
		return 0, err
	}
	if stateOf(info.Size) == StatePublished {
		return StatePublished, nil
	}
	return readTombstone(ctx, repo, key)
}
