package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/gc/retention"
)

// known is a published snapshot, whether it can be read or not.
type known struct {
	id   ID
	info Info  // if err is nil
	err  error // why it cannot be read: it wraps ErrDamaged, or is one of the store
}

// survey reads all published snapshots, in the order of their ids. One that is
// damaged is known all the same; one that is forgotten meanwhile is left out.
func (r *Repository) survey(ctx context.Context) ([]known, error) {
	all, err := r.surveyMost(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		if k.err != nil && !errors.Is(k.err, ErrDamaged) {
			return nil, k.err
		}
	}
	return all, nil
}

// surveyMost is survey for who can do without those that the store does not hand out.
func (r *Repository) surveyMost(ctx context.Context) ([]known, error) {
	var sessions [][]commit.Ref
	var labelled map[ID]bool
	listings, lctx := errgroup.WithContext(ctx)
	listings.Go(func() (err error) { sessions, err = r.sessions(lctx, ""); return err })
	listings.Go(func() (err error) { labelled, err = r.labelled(lctx); return err })
	if err := listings.Wait(); err != nil {
		return nil, err
	}
	all := make([]known, len(sessions))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(loads)
	for i, refs := range sessions {
		group.Go(func() (err error) {
			all[i], err = r.loadKnown(gctx, refs, labelled)
			return err
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(all, func(k known) bool { return k.id.IsZero() }), err
}

// sessions lists the attempts that published each snapshot whose id starts with prefix:
// one, as a rule.
func (r *Repository) sessions(ctx context.Context, prefix string) (sessions [][]commit.Ref, err error) {
	for ref, err := range commit.List(ctx, r.protocol(), prefix) {
		if err != nil {
			return nil, err
		}
		if n := len(sessions); n == 0 || sessions[n-1][0].ID != ref.ID {
			sessions = append(sessions, nil)
		}
		last := &sessions[len(sessions)-1]
		*last = append(*last, ref)
	}
	return sessions, nil
}

// loadKnown reads a snapshot from the first of its sessions that has an intact
// record. One that is gone is the zero known.
func (r *Repository) loadKnown(ctx context.Context, refs []commit.Ref, labelled map[ID]bool) (known, error) {
	var unread known
	for _, ref := range refs {
		info, err := r.load(ctx, ref, labelled)
		switch {
		case err == nil:
			return known{id: ref.ID, info: info}, nil
		case errors.Is(err, commit.ErrNotFound):
		case ctx.Err() != nil:
			return known{}, err
		default:
			unread = known{id: ref.ID, err: err}
		}
	}
	return unread, nil
}

// forRetention describes the snapshot to a policy; one that cannot be read has its
// id only.
func (k known) forRetention() retention.Snapshot {
	if k.err != nil {
		return retention.Snapshot{ID: k.id}
	}
	m := k.info.Manifest
	return retention.Snapshot{ID: k.id, Parent: m.Parent, Time: sensible(m.Time), Source: m.Source, Labels: k.info.Labels}
}

// sensible is a time in the years 1 to 9999, which calendars can count.
func sensible(t manifest.Time) time.Time {
	first := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	switch {
	case t.Sec < first.Unix():
		return first
	case t.Sec > last.Unix():
		return last
	}
	return t.Time()
}
