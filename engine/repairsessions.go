package engine

import (
	"context"
	"errors"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
)

// RepairSessionsPlan lists the attempts to publish whose objects cannot be read. What
// they protect is not known, so no collection can begin.
type RepairSessionsPlan struct {
	Sessions []SessionRepair // in the order of their names
}

// SessionRepair is an attempt whose object cannot be read.
type SessionRepair struct {
	Object string
	Began  time.Time // by the clock of the store
	Err    error

	pending commit.Pending
}

// Empty reports whether there is nothing to do.
func (p *RepairSessionsPlan) Empty() bool { return len(p.Sessions) == 0 }

// PlanRepairSessions reads the objects of all attempts. Nothing is changed.
func (r *Repository) PlanRepairSessions(ctx context.Context) (*RepairSessionsPlan, error) {
	plan, err := r.planRepairSessions(ctx)
	return plan, failed("plan repair of", "sessions", err)
}

func (r *Repository) planRepairSessions(ctx context.Context) (*RepairSessionsPlan, error) {
	plan := &RepairSessionsPlan{}
	for pending, err := range commit.ListPending(ctx, r.protocol()) {
		if err != nil {
			return nil, err
		}
		_, err := commit.LoadPending(ctx, r.protocol(), pending)
		switch {
		case errors.Is(err, ErrDamaged):
			plan.Sessions = append(plan.Sessions, SessionRepair{Object: pending.Key(), Began: pending.ModTime, Err: err, pending: pending})
		case err != nil && !errors.Is(err, commit.ErrNotFound):
			return nil, err
		}
	}
	return plan, nil
}

// RepairSessions deletes the objects of the plan that still cannot be read. Call it
// only while no snapshot or push into this repository runs, here or elsewhere: an
// attempt that goes on afterwards is not seen by collections, which then may take
// what it is about to publish. It returns the number of deleted objects. Wherever it
// is interrupted, the next repair goes on.
func (r *Repository) RepairSessions(ctx context.Context, plan *RepairSessionsPlan) (deleted int, err error) {
	for _, s := range plan.Sessions {
		if _, err := commit.LoadPending(ctx, r.protocol(), s.pending); !errors.Is(err, ErrDamaged) {
			if err == nil || errors.Is(err, commit.ErrNotFound) {
				continue
			}
			return deleted, failed("repair", s.Object, err)
		}
		if err := r.store.Delete(ctx, s.Object); err != nil {
			return deleted, failed("repair", s.Object, err)
		}
		deleted++
	}
	return deleted, nil
}
