package gc

import (
	"context"
	"errors"
	"slices"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Result is what a collection did, also when it failed.
type Result struct {
	Generations []uint64 // opened by it, and settled
	Adopted     []uint64 // left open by others, and settled by it

	Deleted      int   // packs
	DeletedBytes int64 // of them
	Copied       int   // packs whose live blobs were copied
	NewPacks     int
	NewBytes     int64 // of them
	Spared       int   // condemned packs that turned out to be needed

	Expired    int // attempts
	Tombstones int // removed
	Records    int // of forgotten snapshots, removed

	// Stopped is why the collection did less than its plan, if so: the deadline,
	// or objectstore.ErrNoSpace. What it did is done.
	Stopped error
	// Settled makes the next collection cheaper: see Repository.Settled.
	Settled commit.View
}

// Execute does what the plan says, beside running writers. Wherever it is
// interrupted, the repository is whole, and the next collection goes on.
//
// What is dead goes first, so that a full store gets room for what has to be
// copied.
func (p *Plan) Execute(ctx context.Context) (*Result, error) {
	run := run{Plan: p}
	err := run.steps(ctx)
	run.result.Settled = p.repo.Settled
	if mark := p.sight.mark; err == nil && mark != nil && p.repo.MarkFile != "" { // nil: the last look failed
		p.repo.warn("mark", mark.remember(p.repo.MarkFile))
	}
	return &run.result, err
}

// run is the execution of a plan.
type run struct {
	*Plan
	result Result
}

func (r *run) steps(ctx context.Context) error {
	if err := r.expire(ctx); err != nil {
		return err
	}
	if err := r.settleEarlier(ctx); err != nil {
		return err
	}
	if err := r.collect(ctx, names(r.Delete)); err != nil {
		return err
	}
	copied, err := r.copyLive(ctx)
	if err != nil {
		return err
	}
	spared := r.result.Spared
	if err := r.collect(ctx, copied); err != nil {
		return err
	}
	// What found no room was spared.
	r.result.Copied = max(len(copied)-(r.result.Spared-spared), 0)
	return r.cleanUp(ctx)
}

// settleEarlier goes on with what earlier collections began, by what the plan saw. It
// looks again if that does not do, or if attempts were expired: one may have been
// published instead, and what it needs may not be known (see Plan.fits).
func (r *run) settleEarlier(ctx context.Context) error {
	err := ErrChanging
	if len(r.Expire) == 0 {
		err = r.settleAndSweep(ctx)
	}
	if errors.Is(err, ErrChanging) {
		err = r.watch(ctx, r.settleAndSweep)
	}
	return err
}

func names(packs []Pack) []packfile.Name {
	all := make([]packfile.Name, len(packs))
	for i, pack := range packs {
		all[i] = pack.Name
	}
	return all
}

// collect condemns packs, looks again, and deletes those that nobody needs
// (steps G2 to G5).
func (r *run) collect(ctx context.Context, packs []packfile.Name) error {
	if len(packs) == 0 {
		return nil
	}
	n, err := commit.Condemn(ctx, r.repo.Repo, r.sight.generations.Highest, packs) // G2
	if err != nil {
		return err
	}
	r.result.Generations = append(r.result.Generations, n)
	return r.watch(ctx, r.settleAndSweep) // G3 to G5
}

// settleAndSweep settles the generations that are open in sight (G4), and deletes
// the packs of all final lists (G5).
func (r *run) settleAndSweep(ctx context.Context) error {
	settled, err := r.repo.settle(ctx, r.sight)
	if err != nil {
		return err
	}
	for _, g := range settled {
		if !slices.Contains(r.result.Generations, g.number) {
			r.result.Adopted = append(r.result.Adopted, g.number)
		}
		r.result.Spared += g.condemned - len(g.final)
		for _, name := range g.final {
			r.sight.generations.Final[name] = struct{}{}
		}
	}
	r.sight.generations.Open = slices.DeleteFunc(r.sight.generations.Open, func(g commit.Generation) bool { return g.State != commit.Kept })
	return r.sweep(ctx)
}

// expire ends attempts that seem to be dead.
func (r *run) expire(ctx context.Context) error {
	for _, a := range slices.Concat(r.sight.expired, r.sight.pending) {
		if !slices.Contains(r.Expire, a.Pending) {
			continue
		}
		won, err := commit.Expire(ctx, r.repo.Repo, a.Pending, a.record)
		if errors.Is(err, commit.ErrDamaged) { // its key is taken, so it cannot be published: a repair tells by what
			r.repo.warn("attempt", err)
			continue
		}
		if err != nil {
			return err
		}
		if won {
			r.result.Expired++
		}
	}
	r.ended = true
	return nil
}

// cleanUp removes what is only of use for an undo, or for an attempt that ended.
func (r *run) cleanUp(ctx context.Context) error {
	for _, ref := range r.Records {
		if err := commit.DropForgotten(ctx, r.repo.Repo, ref); err != nil {
			return err
		}
		r.result.Records++
	}
	if err := r.deleteLabels(ctx); err != nil {
		return err
	}
	if len(r.Tombstones) == 0 {
		return nil
	}
	pending := map[commit.Session]bool{} // listed after the tombstones: see commit.DropTombstone
	for p, err := range commit.ListPending(ctx, r.repo.Repo) {
		if err != nil {
			return err
		}
		pending[p.Session] = true
	}
	for _, ref := range r.Tombstones {
		if pending[ref.Session] {
			continue
		}
		err := commit.DropTombstone(ctx, r.repo.Repo, ref)
		if errors.Is(err, commit.ErrDamaged) || errors.Is(err, commit.ErrExpired) { // it rotted, or a repair buried it, since the plan was made
			r.repo.warn("tombstone", err)
			continue
		}
		if err != nil {
			return err
		}
		r.result.Tombstones++
	}
	return nil
}

// deleteLabels deletes those of the plan that are still unused: their snapshot may have
// been taken back, or pushed here, since the plan was made.
func (r *run) deleteLabels(ctx context.Context) error {
	if len(r.Labels) == 0 {
		return nil
	}
	err := r.watch(ctx, func(ctx context.Context) error {
		planned := map[string]bool{}
		for _, key := range r.Labels {
			planned[key] = true
		}
		for _, key := range r.sight.unusedLabels(r.opts) {
			if !planned[key] {
				continue
			}
			if err := r.repo.Store.Delete(ctx, key); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, ErrChanging) { // the next collection has them again
		r.repo.warn("labels", err)
		return nil
	}
	return err
}

// stop notes why the collection does less than it could. It reports whether err is
// such a reason.
func (r *run) stop(err error) bool {
	if !errors.Is(err, objectstore.ErrNoSpace) && !errors.Is(err, errDeadline) {
		return false
	}
	r.result.Stopped = err
	return true
}

var errDeadline = errors.New("the time for the collection is over")

func isLost(err error) bool { return errors.Is(err, ErrLost) }
