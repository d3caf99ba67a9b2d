package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// List returns the snapshots that pass the filter, oldest first. Snapshots that
// cannot be read are named by the error, which then comes with the others.
func (r *Repository) List(ctx context.Context, filter Filter) ([]Info, error) {
	infos, err := r.loadAll(ctx)
	infos = filter.apply(infos)
	return infos, failed("list", "snapshots", err)
}

// loads is how many snapshots are read at once: reading one is a small request,
// so the time is that of round trips.
const loads = 16

// loadAll reads all published snapshots. The error names those that cannot be read.
func (r *Repository) loadAll(ctx context.Context) ([]Info, error) {
	all, err := r.surveyMost(ctx)
	if err != nil {
		return nil, err
	}
	var infos []Info
	var errs []error
	for _, k := range all {
		if k.err != nil {
			errs = append(errs, k.err)
		} else {
			infos = append(infos, k.info)
		}
	}
	return infos, errors.Join(errs...)
}

// refs lists the published snapshots whose ids start with prefix, each once.
func (r *Repository) refs(ctx context.Context, prefix string) ([]commit.Ref, error) {
	sessions, err := r.sessions(ctx, prefix)
	if err != nil {
		return nil, err
	}
	refs := make([]commit.Ref, len(sessions))
	for i, attempts := range sessions {
		refs[i] = attempts[0]
	}
	return refs, nil
}

// labelled lists the snapshots that were given labels since they were published: one
// request instead of one for each snapshot.
func (r *Repository) labelled(ctx context.Context) (map[ID]bool, error) {
	ids := map[ID]bool{}
	for label, err := range commit.ListLabels(ctx, r.protocol()) {
		if err != nil {
			return nil, err
		}
		ids[label.ID] = true
	}
	return ids, nil
}

// load reads a snapshot, and its later labels if it is one of those that have any.
func (r *Repository) load(ctx context.Context, ref commit.Ref, labelled map[ID]bool) (Info, error) {
	record, err := commit.Load(ctx, r.protocol(), ref)
	if err != nil {
		return Info{}, err
	}
	if labelled[ref.ID] {
		return r.describe(ctx, ref.ID, record.Manifest)
	}
	return Info{ID: ref.ID, Manifest: record.Manifest, Labels: record.Manifest.LabelMap()}, nil
}

func (r *Repository) describe(ctx context.Context, id ID, m *manifest.Manifest) (Info, error) {
	labels, err := commit.Labels(ctx, r.protocol(), id, m)
	if err != nil {
		return Info{}, err
	}
	return Info{ID: id, Manifest: m, Labels: labels}, nil
}

func (f Filter) apply(infos []Info) []Info {
	infos = slices.DeleteFunc(infos, func(info Info) bool { return !f.admits(info) })
	slices.SortFunc(infos, func(a, b Info) int {
		if c := a.Manifest.Time.Time().Compare(b.Manifest.Time.Time()); c != 0 {
			return c
		}
		return a.ID.Compare(b.ID)
	})
	if f.Newest > 0 && len(infos) > f.Newest {
		infos = infos[len(infos)-f.Newest:]
	}
	return infos
}

func (f Filter) admits(info Info) bool {
	for key, value := range f.Labels {
		got, ok := info.Labels[key]
		if !ok || value != "" && got != value {
			return false
		}
	}
	at := info.Manifest.Time.Time()
	switch {
	case f.Source != "" && info.Manifest.Source != f.Source && !strings.HasSuffix(info.Manifest.Source, ":"+f.Source):
		return false
	case !f.After.IsZero() && at.Before(f.After):
		return false
	case !f.Before.IsZero() && !at.Before(f.Before):
		return false
	}
	return true
}

// Show describes one snapshot.
func (r *Repository) Show(ctx context.Context, id ID) (Info, error) {
	record, err := r.find(ctx, id)
	if err != nil {
		return Info{}, failed("show", id.String(), err)
	}
	info, err := r.describe(ctx, id, record.Manifest)
	return info, failed("show", id.String(), err)
}

func (r *Repository) find(ctx context.Context, id ID) (commit.Record, error) {
	_, record, err := r.findRef(ctx, id)
	return record, err
}

func (r *Repository) findRef(ctx context.Context, id ID) (commit.Ref, commit.Record, error) {
	ref, record, err := commit.Find(ctx, r.protocol(), id)
	if errors.Is(err, commit.ErrNotFound) {
		err = fmt.Errorf("snapshot: %w", ErrNotFound)
	}
	return ref, record, err
}

// MinPrefix is the shortest prefix of a snapshot id that Resolve accepts.
const MinPrefix = 6

// Latest is the name that Resolve takes for the newest snapshot.
const Latest = "latest"

// Resolve finds the snapshot that a user names: by its id, by a prefix of at
// least MinPrefix digits that only one snapshot has, or as the latest one that
// passes the filter. ErrNotFound or ErrAmbiguous if there is none or more.
func (r *Repository) Resolve(ctx context.Context, name string, filter Filter) (ID, error) {
	id, err := r.resolve(ctx, name, filter)
	return id, failed("find snapshot", name, err)
}

func (r *Repository) resolve(ctx context.Context, name string, filter Filter) (ID, error) {
	if name == Latest {
		return r.latest(ctx, filter)
	}
	prefix, ok := prefixOf(name)
	if !ok {
		return ID{}, fmt.Errorf("%w: a snapshot is named by %d to %d hexadecimal digits, or %q", ErrNotFound, MinPrefix, 2*blob.IDSize, Latest)
	}
	refs, err := r.refs(ctx, prefix)
	if err != nil {
		return ID{}, err
	}
	switch len(refs) {
	case 0:
		return ID{}, ErrNotFound
	case 1:
		return refs[0].ID, nil
	}
	return ID{}, fmt.Errorf("%w: %d snapshots start with it, such as %v and %v", ErrAmbiguous, len(refs), refs[0].ID, refs[1].ID)
}

// prefixOf reports whether the name can be that of a snapshot, and returns it as ids are
// written.
func prefixOf(name string) (prefix string, ok bool) {
	prefix = strings.ToLower(name)
	return prefix, len(prefix) >= MinPrefix && len(prefix) <= 2*blob.IDSize && strings.Trim(prefix, "0123456789abcdef") == ""
}

func (r *Repository) latest(ctx context.Context, filter Filter) (ID, error) {
	infos, err := r.loadAll(ctx)
	infos = filter.apply(infos)
	if err != nil { // an unreadable snapshot could be the latest: do not silently take an older one
		return ID{}, err
	}
	if len(infos) == 0 {
		return ID{}, fmt.Errorf("%w: no snapshot passes the filter", ErrNotFound)
	}
	return infos[len(infos)-1].ID, nil
}

// Label sets and removes labels of a published snapshot and returns the labels
// then in force. The snapshot itself does not change.
func (r *Repository) Label(ctx context.Context, id ID, set map[string]string, remove []string) (map[string]string, error) {
	labels, err := r.label(ctx, id, set, remove)
	return labels, failed("label", id.String(), err)
}

func (r *Repository) label(ctx context.Context, id ID, set map[string]string, remove []string) (map[string]string, error) {
	record, err := r.find(ctx, id)
	if err != nil {
		return nil, err
	}
	change, err := commit.NewLabelChange(set, remove)
	if err != nil {
		return nil, err
	}
	labels, err := commit.AddLabels(ctx, r.protocol(), id, record.Manifest, change)
	if err != nil {
		return nil, err
	}
	refs, err := r.refs(ctx, id.String()) // behind the put: see forget
	if err == nil && len(refs) == 0 {
		err = fmt.Errorf("%w: it was forgotten meanwhile", ErrNotFound)
	}
	return labels, err
}

// Fork publishes a new snapshot of an old root, with other labels. No data is
// read or written: only metadata.
func (r *Repository) Fork(ctx context.Context, origin ID, opts ForkOptions) (Info, error) {
	info, err := r.fork(ctx, origin, opts)
	return info, failed("fork", origin.String(), err)
}

func (r *Repository) fork(ctx context.Context, origin ID, opts ForkOptions) (Info, error) {
	view, err := r.view(ctx) // W1
	if err != nil {
		return Info{}, err
	}
	record, err := r.find(ctx, origin)
	if err != nil {
		return Info{}, err
	}
	labels, err := commit.SortedLabels(opts.Labels)
	if err != nil {
		return Info{}, err
	}
	m := *record.Manifest
	m.Parent, m.Labels, m.Time, m.Tool = origin, labels, r.now(m.Time), r.opts.Tool
	if opts.Source != "" {
		m.Source = opts.Source
	}
	if err := m.Check(); err != nil {
		return Info{}, err
	}
	fork := commit.Record{Manifest: &m, Packs: record.Packs}
	// The origin may be forgotten and collected meanwhile: W5 notices, since
	// its packs were alive in the view, or the rescue at once does.
	if fork, err = r.settleOld(ctx, view, fork); err != nil {
		return Info{}, r.forkFailed(ctx, origin, err)
	}
	published, err := commit.Publish(ctx, r.protocol(), commit.NewSession(), fork, view, r.rescuer())
	if err != nil {
		return Info{}, r.forkFailed(ctx, origin, err)
	}
	r.keepView(published.View)
	r.opts.Events.warn("publish", published.ID.String(), published.Cleanup)
	return Info{ID: published.ID, Manifest: &m, Labels: maps.Clone(opts.Labels)}, nil
}

// settleOld makes sure that no pack of an older record is dead or damaged in the
// view, storing again what is.
func (r *Repository) settleOld(ctx context.Context, view commit.View, record commit.Record) (commit.Record, error) {
	avoid := view.Avoid()
	if !slices.ContainsFunc(record.Packs, avoid.Has) {
		return record, nil
	}
	packs, err := r.rescuer().Rescue(ctx, record, avoid)
	record.Packs = packs
	return record, err
}

// forkFailed tells what a new attempt can cure from what is lost: a fork has no
// workspace to read it from. The origin may be gone too.
func (r *Repository) forkFailed(ctx context.Context, origin ID, err error) error {
	if !lostBlob(err) {
		return retryable(err)
	}
	if err := r.vanished(ctx, origin, err); err != nil {
		return err
	}
	return fmt.Errorf("%w: a blob of the origin cannot be read: %w", ErrDamaged, err)
}

// retryable marks what a new attempt can cure.
func retryable(err error) error {
	if errors.Is(err, commit.ErrLost) {
		return fmt.Errorf("%w: %w", ErrRetry, err)
	}
	return err
}

// now is the time of a new manifest: never before its parent's, whatever the
// clocks of the machines say, so that time orders what parentage orders.
func (r *Repository) now(parent manifest.Time) manifest.Time {
	t := manifest.TimeOf(r.opts.Now())
	if t.Sec < parent.Sec || t.Sec == parent.Sec && t.Nsec <= parent.Nsec {
		return manifest.TimeOf(parent.Time().Add(time.Nanosecond))
	}
	return t
}
