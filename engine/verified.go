package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/snapctl/snapctl/engine/verified"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// verifiedObject holds what checks have read and found whole: a verified.Record. It
// is overwritten by the check that ends last.
const verifiedObject = "verified"

// keepInterval is how often a check that reads for long writes down what it found:
// what is read again after it was killed.
const keepInterval = 3 * time.Minute

// verifiedKeeper brings what one check learns into the record. Its methods are safe
// for concurrent use.
type verifiedKeeper struct {
	r        *Repository
	interval time.Duration // between two writes while the check goes on; 0: it writes only when it is told to

	writing sync.Mutex // held while the record is written

	mu      sync.Mutex      // guards the following
	known   verified.Record // by earlier checks
	fresh   verified.Record // by this one
	damaged []packfile.Name // by this one
	packs   map[packfile.Name]int64
	kept    time.Time // when the record was last written, or the check began
	pending bool      // something was learnt since
}

func newVerifiedKeeper(r *Repository) *verifiedKeeper {
	return &verifiedKeeper{r: r, kept: r.opts.Now()}
}

// load reads the record. One that is damaged counts as none.
func (k *verifiedKeeper) load(ctx context.Context) error {
	record, err := k.r.loadVerified(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known = record
	return err
}

func (r *Repository) loadVerified(ctx context.Context) (verified.Record, error) {
	sealed, err := objectstore.ReadAll(ctx, r.store, verifiedObject, int64(verified.MaxSize+seal.Overhead))
	if errors.Is(err, objectstore.ErrNotExist) {
		return verified.Record{}, nil
	}
	if err != nil {
		return verified.Record{}, err
	}
	content, err := r.sealer.Open(nil, seal.Verified, sealed, verified.MaxSize)
	if err != nil {
		return verified.Record{}, fmt.Errorf("%s: %w", verifiedObject, err)
	}
	return verified.Decode(content)
}

// due orders all packs of the repository, given with their sizes, as they should be
// read.
func (k *verifiedKeeper) due(packs map[packfile.Name]int64) []packfile.Name {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.packs = packs
	return k.known.Due(packs, k.r.opts.Now())
}

// note says that a pack was found whole just now.
func (k *verifiedKeeper) note(name packfile.Name) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fresh.Note(name, k.r.opts.Now())
	k.pending = true
}

// drop says that a pack was found damaged.
func (k *verifiedKeeper) drop(name packfile.Name) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.damaged = append(k.damaged, name)
	if _, recorded := k.known.Time(name); recorded {
		k.pending = true
	}
}

// coverage says how much of the packs was verified, with what was learnt so far.
func (k *verifiedKeeper) coverage(packs map[packfile.Name]int64) Coverage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.updated(k.known).Coverage(packs, k.r.opts.Now())
}

// updated is a record with what was learnt by this check. Packs that are gone are
// dropped. The caller holds mu.
func (k *verifiedKeeper) updated(record verified.Record) verified.Record {
	var all verified.Record
	all.Merge(record)
	all.Merge(k.fresh)
	all.Drop(k.damaged...)
	all.Keep(func(name packfile.Name) bool { _, there := k.packs[name]; return there })
	return all
}

// keepNowAndThen writes the record if that was long ago. Others who ask meanwhile
// need not wait.
func (k *verifiedKeeper) keepNowAndThen(ctx context.Context) {
	if k.isTime() {
		k.keep(ctx)
	}
}

func (k *verifiedKeeper) isTime() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.r.opts.Now()
	if k.interval == 0 || now.Sub(k.kept) < k.interval {
		return false
	}
	k.kept = now
	return true
}

// keepTimeout bounds how long a check that was cancelled still takes to write down
// what it found.
const keepTimeout = 10 * time.Second

// keep writes down what was learnt, also when ctx is done. It is a warning if that
// fails: a repository that cannot be written to can be checked all the same.
func (k *verifiedKeeper) keep(ctx context.Context) {
	k.writing.Lock()
	defer k.writing.Unlock()
	if !k.take() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	k.r.opts.Events.warn("record what was verified in", verifiedObject, k.write(ctx))
}

// take reports whether there is anything to write.
func (k *verifiedKeeper) take() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	pending := k.pending && k.packs != nil
	k.pending = false
	return pending
}

// write reads the record again before, so that two checks at a time rarely lose
// what the other one wrote.
func (k *verifiedKeeper) write(ctx context.Context) error {
	latest, err := k.r.loadVerified(ctx)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	k.mu.Lock()
	content := k.updated(latest).Encode()
	k.mu.Unlock()
	sealed := k.r.sealer.Seal(nil, seal.Verified, content, content)
	_, err = k.r.store.Put(ctx, verifiedObject, bytes.NewReader(sealed), objectstore.PutOptions{})
	return err
}
