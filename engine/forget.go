package engine

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// ForgetOptions say which snapshots go: those that are named; or those that pass
// the filter, but for pinned ones; or, with a policy, those that it lets go among
// those that pass the filter.
type ForgetOptions struct {
	Snapshots []ID
	Filter    Filter
	Policy    *retention.Policy
	// Force executes a plan all the same that looks like a mistake.
	Force bool
}

// ForgetPlan says what would be forgotten and why.
type ForgetPlan struct {
	retention.Plan
	// Unreadable are snapshots of which it cannot be told whether they may go. They
	// stay, unless they were named.
	Unreadable []UnreadableSnapshot

	known  map[ID]known
	forced bool
}

// UnreadableSnapshot is a snapshot of which the record or a label is damaged.
type UnreadableSnapshot struct {
	ID  ID
	Err error // wraps ErrDamaged
}

// ForgetResult is what Forget did.
type ForgetResult struct {
	Forgotten []ID // in the order of the plan
	// Pinned are those that were pinned since the plan was made, and stay.
	Pinned []ID
}

// PlanForget finds out what would be forgotten. It reads every snapshot and
// changes nothing. A plan that looks like a mistake comes with a
// *retention.RefusedError, unless it is forced; a policy that makes no sense is
// retention.ErrInvalid, and no plan.
func (r *Repository) PlanForget(ctx context.Context, opts ForgetOptions) (*ForgetPlan, error) {
	plan, err := r.planForget(ctx, opts)
	if err == nil && !opts.Force {
		err = plan.Refusal()
	}
	return plan, failed("plan to forget", "", err)
}

func (r *Repository) planForget(ctx context.Context, opts ForgetOptions) (*ForgetPlan, error) {
	if opts.Policy != nil {
		if len(opts.Snapshots) > 0 {
			return nil, errors.New("a policy leaves no snapshot to be named")
		}
		if err := opts.Policy.Check(); err != nil { // before anything is read
			return nil, err
		}
	} else if len(opts.Snapshots) == 0 && opts.Filter.passesAll() {
		return nil, errors.New("nothing says which snapshots to forget: name some, or give a filter or a policy")
	}
	all, err := r.survey(ctx)
	if err != nil {
		return nil, err
	}
	plan := &ForgetPlan{known: make(map[ID]known, len(all)), forced: opts.Force}
	for _, k := range all {
		plan.known[k.id] = k
	}
	return plan, plan.decide(all, opts, retention.Options{Now: r.opts.Now()})
}

func (f Filter) passesAll() bool {
	return len(f.Labels) == 0 && f.Source == "" && f.After.IsZero() && f.Before.IsZero() && f.Newest <= 0
}

func (p *ForgetPlan) decide(all []known, opts ForgetOptions, when retention.Options) error {
	named := map[ID]bool{}
	for _, id := range opts.Snapshots {
		if _, ok := p.known[id]; !ok {
			return fmt.Errorf("snapshot %v: %w", id, ErrNotFound)
		}
		named[id] = true
	}
	var snapshots []retention.Snapshot
	var infos []Info
	for _, k := range all {
		if k.err != nil && !named[k.id] {
			p.Unreadable = append(p.Unreadable, UnreadableSnapshot{k.id, k.err})
			continue
		}
		if k.err == nil {
			infos = append(infos, k.info)
		}
		snapshots = append(snapshots, k.forRetention())
	}
	plan, err := choosePlan(snapshots, opts, opts.Filter.apply(infos), when)
	if err != nil {
		return err
	}
	p.Plan = *plan
	p.objectToUnreadable(opts.Snapshots)
	return nil
}

// objectToUnreadable objects to named snapshots that may be pinned for all that is
// known.
func (p *ForgetPlan) objectToUnreadable(named []ID) {
	for _, id := range named {
		if err := p.known[id].err; err != nil {
			p.Objections = append(p.Objections, retention.Objection{
				About: "snapshot " + id.String(), Err: fmt.Errorf("it may be pinned, which cannot be read: %w", err),
			})
		}
	}
}

func choosePlan(snapshots []retention.Snapshot, opts ForgetOptions, passed []Info, when retention.Options) (*retention.Plan, error) {
	if len(opts.Snapshots) > 0 {
		return retention.ForgetNamed(snapshots, opts.Snapshots)
	}
	passes := make(map[ID]bool, len(passed))
	for _, info := range passed {
		passes[info.ID] = true
	}
	when.Only = func(s retention.Snapshot) bool { return passes[s.ID] }
	if opts.Policy == nil {
		return retention.ForgetMatching(snapshots, when.Only)
	}
	plan, err := retention.NewPlan(snapshots, *opts.Policy, when)
	if err == nil && len(passed) == 0 && !opts.Filter.passesAll() {
		plan.Objections = append(plan.Objections, retention.Objection{About: "filter", Err: retention.ErrMatchesNothing})
	}
	return plan, err
}

// forgets is how many snapshots are forgotten at once.
const forgets = 8

// Forget executes a plan, oldest snapshots first, a few at a time. Each is gone by
// one write and can be had back by UndoForget until a collection takes what it
// needs. If Forget is interrupted, the result says what was done, and doing it
// again completes it. A plan that was refused is refused again.
func (r *Repository) Forget(ctx context.Context, plan *ForgetPlan) (*ForgetResult, error) {
	if err := plan.Refusal(); err != nil && !plan.forced {
		return nil, failed("forget", "", err)
	}
	goes := plan.Goes()
	outcomes := make([]outcome, len(goes))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(forgets)
	for i, id := range goes {
		group.Go(func() (err error) {
			if err := gctx.Err(); err != nil {
				return err
			}
			outcomes[i], err = r.forget(gctx, plan.known[id])
			return failed("forget", id.String(), err)
		})
	}
	err := group.Wait()
	result := &ForgetResult{}
	for i, id := range goes {
		switch outcomes[i] {
		case forgotten:
			result.Forgotten = append(result.Forgotten, id)
		case pinnedSince:
			result.Pinned = append(result.Pinned, id)
		}
	}
	return result, err
}

// outcome is what became of a snapshot that was to be forgotten.
type outcome int

const (
	untouched outcome = iota
	forgotten
	pinnedSince
)

// forget forgets one snapshot, unless it was pinned since the plan was made. It looks
// for pins before its tombstones, and again behind them, as Label looks for the snapshot
// behind its put: of a pin and a forget at the same moment one notices the other, so that
// no pin which was acknowledged is lost.
func (r *Repository) forget(ctx context.Context, k known) (outcome, error) {
	pinned, err := r.isPinnedByNow(ctx, k)
	if err != nil {
		return untouched, err
	}
	if pinned {
		return pinnedSince, nil
	}
	if err := r.bury(ctx, k.id); err != nil {
		return untouched, err
	}
	if pinned, err = r.isPinnedByNow(ctx, k); err != nil || !pinned {
		return forgotten, err
	}
	if _, err := r.UndoForget(ctx, k.id); err != nil {
		return forgotten, fmt.Errorf("it was pinned while it was forgotten: %w", err)
	}
	return pinnedSince, nil
}

// isPinnedByNow reports whether the snapshot was pinned since a plan was made. One that was
// pinned then, or of which that could not be read, was named and forced.
func (r *Repository) isPinnedByNow(ctx context.Context, k known) (bool, error) {
	if k.err != nil || retention.Pinned(k.info.Labels) {
		return false, nil
	}
	labels, err := commit.Labels(ctx, r.protocol(), k.id, k.info.Manifest)
	return err == nil && retention.Pinned(labels), err
}

// bury puts a tombstone under every session that published the snapshot.
func (r *Repository) bury(ctx context.Context, id ID) error {
	repo := r.protocol()
	repo.Store = commit.SpendReserve(repo.Store) // forgetting is how a full store gets room
	for ref, err := range commit.List(ctx, repo, id.String()+"/") {
		if err == nil {
			err = commit.Forget(ctx, repo, ref)
		}
		if errors.Is(err, objectstore.ErrNoSpace) {
			err = fmt.Errorf("there is no room for its record and its tombstone: run `snapctl gc`, which frees what no snapshot needs: %w", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
