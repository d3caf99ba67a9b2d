package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// observation is what one look at the repository shows (steps G1 and G3).
type observation struct {
	generations commit.Generations
	pending     []attempt    // that may still publish
	expired     []attempt    // that cannot: a collector won their keys
	published   []commit.Ref // in the order of their ids
	buried      []commit.Ref // that look like tombstones: see mark.loadBuried
	tombstones  []commit.Ref // those of forgotten snapshots
	forgotten   []commit.Ref // whose records are kept
	labels      []commit.LabelObject
	packs       map[packfile.Name]listedPack
	unsegmented index.PackSet // known to the local index only
	unread      bool          // segments that nobody can read: what they name seems to be in none
}

// listedPack is a pack as a listing of the store shows it.
type listedPack struct {
	size    int64 // bytes
	modTime time.Time
}

// attempt is a pending object and what it says.
type attempt struct {
	commit.Pending
	record commit.Record
	id     blob.ID // of the snapshot
}

// observe looks at the repository, in an order that the argument rests on:
//
//	gc/         first: whatever is condemned later was not condemned at the end
//	pending/    before snapshots/: an attempt that publishes meanwhile is in one
//	snapshots/  before forgotten/: so is a snapshot that is forgotten meanwhile
//	index/      after pending/: an attempt's segments were put before it
//	packs/      after index/: a pack was put before its segment
func (r *Repository) observe(ctx context.Context) (*observation, error) {
	o := &observation{packs: map[packfile.Name]listedPack{}}
	var err error
	if o.generations, err = commit.ReadGenerations(ctx, r.Repo, r.Settled); err != nil {
		return nil, err
	}
	r.Settled = o.generations.Settled
	attempts, err := r.attempts(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.listSnapshots(ctx, r.Repo, attempts); err != nil {
		return nil, err
	}
	if err := r.syncIndex(ctx, o); err != nil {
		return nil, err
	}
	return o, o.listPacks(ctx, r.Repo)
}

func (r *Repository) attempts(ctx context.Context) (map[commit.Session]attempt, error) {
	attempts := map[commit.Session]attempt{}
	for pending, err := range commit.ListPending(ctx, r.Repo) {
		if err != nil {
			return nil, err
		}
		record, err := commit.LoadPending(ctx, r.Repo, pending)
		switch {
		case errors.Is(err, commit.ErrNotFound): // it ended: its snapshot, if any, is in the listing that follows
			continue
		case errors.Is(err, commit.ErrDamaged):
			return nil, errors.Join(err, errUnknownAttempt)
		case err != nil:
			return nil, err
		}
		attempts[pending.Session] = attempt{pending, record, record.ID(r.Namer)}
	}
	return attempts, nil
}

var errUnknownAttempt = errors.New("what the attempt is about to publish is not known, so nothing can be collected: see `snapctl repair sessions`")

// listSnapshots tells the attempts that may still publish from those that cannot:
// the key of a snapshot is taken once.
func (o *observation) listSnapshots(ctx context.Context, repo commit.Repo, attempts map[commit.Session]attempt) error {
	for ref, err := range commit.ListAll(ctx, repo, "") {
		if err != nil {
			return err
		}
		if a, ok := attempts[ref.Session]; ok && a.id == ref.ID {
			delete(attempts, ref.Session)
			if ref.State == commit.StateExpired {
				o.expired = append(o.expired, a)
			}
		}
		if ref.State != commit.StatePublished {
			o.buried = append(o.buried, ref)
		}
		switch ref.State {
		case commit.StatePublished:
			o.published = append(o.published, ref)
		case commit.StateForgotten:
			o.tombstones = append(o.tombstones, ref)
		}
	}
	o.pending = slices.SortedFunc(maps.Values(attempts), func(a, b attempt) int { return cmp.Compare(a.Session, b.Session) })
	for ref, err := range commit.ListForgotten(ctx, repo, "") {
		if err != nil {
			return err
		}
		o.forgotten = append(o.forgotten, ref)
	}
	for label, err := range commit.ListLabels(ctx, repo) {
		if err != nil {
			return err
		}
		o.labels = append(o.labels, label)
	}
	return nil
}

func (r *Repository) syncIndex(ctx context.Context, o *observation) error {
	stats, err := r.Index.Sync(ctx, r.Store, r.Sealer)
	if err != nil {
		return err
	}
	for _, damaged := range stats.Damaged {
		o.unread = true
		r.warn("index", damaged)
	}
	names, err := r.Index.Unsegmented(ctx)
	o.unsegmented = setOf(packNames(names))
	return err
}

func packNames(packs []packfile.Pack) []packfile.Name {
	names := make([]packfile.Name, len(packs))
	for i, p := range packs {
		names[i] = p.Name
	}
	return names
}

func setOf(names []packfile.Name) index.PackSet {
	set := make(index.PackSet, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}

func (o *observation) listPacks(ctx context.Context, repo commit.Repo) error {
	for info, err := range repo.Store.List(ctx, ingest.PackPrefix, "") {
		if err != nil {
			return err
		}
		if name, err := packfile.ParseName(strings.TrimPrefix(info.Key, ingest.PackPrefix)); err == nil {
			o.packs[name] = listedPack{info.Size, info.ModTime}
		}
	}
	return nil
}

// isCopy reports whether what the index says of a pack counts: it is listed with
// the size that the index says, a segment names it, and it is neither marked as
// damaged nor dead for good.
func (o *observation) isCopy(name packfile.Name, size int64) bool {
	listed, ok := o.packs[name]
	return ok && listed.size == size && !o.unsegmented.Has(name) && !o.generations.Damaged.Has(name) && !o.generations.Final.Has(name)
}

// fits tells whether what was observed fits together: every pack that an attempt
// names is known to the index, or cannot be what the attempt is published with: it is
// not there, or dead for good. Otherwise a segment was missed while the index was
// compacted, or cannot be read, and what the attempt needs is not known: the packs that
// are about to be settled are not known to be dead. Errors wrap ErrChanging.
func (p *Plan) fits(ctx context.Context, o *observation) error {
	for _, a := range o.pending {
		if p.endsFirst(a) {
			continue
		}
		for _, name := range a.record.Packs {
			_, known, err := p.repo.Index.Pack(ctx, name)
			if err != nil {
				return err
			}
			if _, there := o.packs[name]; there && !known && !o.generations.Final.Has(name) {
				return fmt.Errorf("%s: %w: no segment names its %s; if that stays so, run `snapctl repair index`", a.Key(), ErrChanging, ingest.PackKey(name))
			}
		}
	}
	return nil
}

// endsFirst reports whether the plan is being made, and ends the attempt before anything
// else: what it needs is of no use then. If it is published before that, the look that
// follows sees a snapshot.
func (p *Plan) endsFirst(a attempt) bool { return !p.ended && p.opts.old(a.ModTime) }
