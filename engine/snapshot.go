package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/engine/workspace"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// attempts is how often a snapshot starts over when a collection overtakes it:
// each time with a newer view, so twice in a row is already rare.
const attempts = 3

// Snapshot saves the workspace at opts.Path. ErrPartial with a result if
// something could not be read or changed while it was read: the snapshot is
// published and names it. When Snapshot returns nil or ErrPartial, the snapshot
// is durable and visible to everyone; after any other error there is none, but
// what was stored is found again by the next attempt.
func (r *Repository) Snapshot(ctx context.Context, opts SnapshotOptions) (*SnapshotResult, error) {
	start := time.Now()
	result, err := r.snapshot(ctx, opts, r.knownGround)
	for n := 1; n < attempts && startsOver(err); n++ {
		r.opts.Events.warn("snapshot", opts.Path, err)
		result, err = r.snapshot(ctx, opts, r.freshGround)
	}
	if err != nil {
		return nil, failed("snapshot", opts.Path, err)
	}
	result.Duration = time.Since(start)
	if result.Partial() {
		err = fmt.Errorf("%w: %d entries unreadable, %d files changed while they were read", ErrPartial, result.Counts.Unreadable, result.Counts.Torn)
	}
	return result, failed("snapshot", opts.Path, err)
}

// startsOver says that another attempt may succeed: with a newer view, or another
// local index in place of one whose disk is full.
func startsOver(err error) bool { return errors.Is(err, ErrRetry) || errors.Is(err, index.ErrFailed) }

// snapshot is one attempt: the publish protocol (see package commit) around the
// walk.
func (r *Repository) snapshot(ctx context.Context, opts SnapshotOptions, survey func(context.Context) (ground, error)) (*SnapshotResult, error) {
	ground, err := survey(ctx) // W1
	if err != nil {
		return nil, err
	}
	view, db := ground.view, ground.db
	src, err := r.openSource(ctx, opts, view)
	if err != nil {
		return nil, err
	}
	defer func() { r.opts.Events.warn("close stat cache of", opts.Path, src.close()) }()
	if opts.DryRun {
		return r.rehearse(ctx, db, src)
	}
	if err := r.dropLost(ctx, db); err != nil {
		return nil, err
	}
	session := r.session(ctx, db, view.Avoid()) // W2
	// After W6 the snapshot is there, whatever closing says.
	defer func() { r.opts.Events.warn("close the session of", opts.Path, session.Close()) }()
	tree, err := r.walk(ctx, src, session)
	if err != nil {
		return nil, err
	}
	written, err := r.finish(ctx, db, session) // W3
	if err != nil {
		return nil, err
	}
	// New blobs although nothing changed: the parent has lost them.
	if opts.SkipUnchanged && src.parent.unchanged(tree) && written.stats.NewBlobs == 0 {
		if stands, err := r.stands(ctx, src.parent, view); err != nil || stands {
			return src.skipped(tree), err
		} // else it was forgotten meanwhile: publish
	}
	record, exact, err := r.record(ctx, db, src, tree, written, view)
	if err != nil {
		return nil, err
	}
	rescuer := r.rescuer()
	published, err := commit.Publish(ctx, r.protocol(), commit.NewSession(), record, view, rescuer) // W4 to W7
	if err != nil {
		return nil, retryable(err)
	}
	written.add(rescuer.stored)
	r.opts.Events.warn("remember", opts.Path, src.remember(published, tree, exact))
	r.tidy(ctx, r.opts.Events, published, db)
	return src.result(tree, written, published), nil
}

// ground is what a writer stands on: which packs it must not reuse, and which
// blobs it may.
type ground struct {
	view commit.View
	db   *index.DB
}

// knownGround takes what this process, or this machine, knows already. It may be
// older: step W5 finds out.
func (r *Repository) knownGround(ctx context.Context) (ground, error) {
	return readGround(ctx, r.view, r.recentIndex)
}

// freshGround reads everything that is new, for an attempt that was overtaken.
func (r *Repository) freshGround(ctx context.Context) (ground, error) {
	return readGround(ctx, r.freshView, r.index)
}

// readGround reads the view and the index at the same time. Neither need be the older
// one: a pack that the index knows and a collection took is in a dead list of the
// view, or in one that step W5 finds.
func readGround(ctx context.Context, view func(context.Context) (commit.View, error), db func(context.Context) (*index.DB, error)) (ground, error) {
	var g ground
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) { g.view, err = view(ctx); return err })
	both.Go(func() (err error) { g.db, err = db(ctx); return err })
	err := both.Wait()
	return g, err
}

// written is what a session left in the store.
type written struct {
	packs []packfile.Name // used, older ones included
	count int             // new packs
	stats ingest.Stats
	index uint64 // bytes of index segments
}

// add counts what another session of the same attempt left.
func (w *written) add(other written) {
	w.count += other.count
	w.stats.NewBlobs += other.stats.NewBlobs
	w.stats.NewBytes += other.stats.NewBytes
	w.stats.StoredBytes += other.stats.StoredBytes
	w.index += other.index
}

// stands reports whether the parent is still published, with packs that were
// neither collected nor found damaged since the view. If some were, a new
// attempt has to store again what they held. Two requests.
func (r *Repository) stands(ctx context.Context, p parent, view commit.View) (bool, error) {
	now, err := commit.ReadView(ctx, r.protocol(), view)
	if err != nil {
		return false, err
	}
	r.keepView(now)
	if !view.Covers(now) && slices.ContainsFunc(p.record.Packs, now.Avoid().Has) {
		return false, fmt.Errorf("%w: packs of the last snapshot were collected or found damaged since", ErrRetry)
	}
	return commit.Exists(ctx, r.protocol(), p.ref())
}

// finish stores what is open and indexes it (step W3).
func (r *Repository) finish(ctx context.Context, db *index.DB, session *ingest.Session) (written, error) {
	result, err := session.Finish(ctx)
	if err == nil && r.opts.VerifyUploads {
		err = r.verifyUploads(ctx, db, result.New)
	}
	if err != nil {
		return written{}, err
	}
	size, err := r.indexPacks(ctx, db, result)
	return written{packs: packsOf(result), count: len(result.New), stats: session.Stats(), index: size}, err
}

// record describes the snapshot that is to be published, and how many packs it
// had when they were last counted exactly.
func (r *Repository) record(ctx context.Context, db *index.DB, src *source, tree workspace.Result, w written, view commit.View) (commit.Record, int, error) {
	m, err := r.manifest(src, tree)
	if err != nil {
		return commit.Record{}, 0, err
	}
	record := commit.Record{Manifest: m, Packs: src.packs(w.packs)}
	if src.parent.base && !tooLong(record.Packs, src.parent.exact) {
		return record, src.parent.exact, nil
	}
	if src.parent.base {
		record.Packs, err = r.countPacks(ctx, db, record, view.Avoid())
	}
	return record, len(record.Packs), err
}

// countPacks looks every blob of a snapshot up and returns the packs that hold
// them. It may find another copy than the session did, in a pack that no segment
// names yet, which is indexed then.
func (r *Repository) countPacks(ctx context.Context, db *index.DB, record commit.Record, avoid index.PackSet) (packs []packfile.Name, err error) {
	reader := db.NewReader(avoid)
	defer func() { err = errors.Join(err, reader.Close()) }()
	used := index.PackSet{}
	visit := func(kind blob.Kind, id blob.ID) error {
		name, ok, err := reader.Has(id)
		if err == nil && !ok {
			err = fmt.Errorf("%v blob %v: %w: it is not in the index", kind, id, ErrDamaged)
		}
		used[name] = struct{}{}
		return err
	}
	walk := reach{get: r.fetch.Node, seen: map[blob.ID]struct{}{}, visit: visit, broken: giveUp}
	if err := walk.from(ctx, record.Manifest.Root, record.Manifest.Links); err != nil {
		return nil, err
	}
	found := ingest.Result{Reused: used}
	_, err = r.indexPacks(ctx, db, found)
	return packsOf(found), err
}

// tidy does what can be done once a snapshot is published. It is there, so what goes
// wrong is a warning.
func (r *Repository) tidy(ctx context.Context, events Events, published commit.Published, db *index.DB) {
	r.keepView(published.View)
	events.warn("clean up after", published.ID.String(), published.Cleanup)
	events.warn("compact", "index", r.compact(ctx, db))
}

// compact merges index segments when there are many small ones. Another writer
// may do the same at the same time.
func (r *Repository) compact(ctx context.Context, db *index.DB) error {
	segments, err := db.Segments(ctx)
	if err != nil {
		return err
	}
	plan := index.PlanCompaction(segments)
	if plan.Empty() {
		return nil
	}
	if _, err := plan.Execute(ctx, r.store, r.sealer, nil); err != nil {
		return err
	}
	_, err = db.Sync(ctx, r.store, r.sealer)
	return err
}

// rehearse reads the source and stores nothing.
func (r *Repository) rehearse(ctx context.Context, db *index.DB, src *source) (*SnapshotResult, error) {
	rehearsal := r.newRehearsal(db)
	tree, err := r.rehearseWalk(ctx, src, rehearsal)
	if err != nil {
		return nil, errors.Join(err, rehearsal.close())
	}
	result := src.describe(tree)
	result.NewBlobs, result.NewBytes = rehearsal.newBlobs.Load(), rehearsal.newBytes.Load()
	return result, rehearsal.close()
}

// describe says what was read.
func (s *source) describe(tree workspace.Result) *SnapshotResult {
	return &SnapshotResult{
		Root: tree.Root, Parent: s.parent.id, Counts: tree.Counts, Omissions: tree.Omissions,
		ReadBytes: tree.BytesRead, ReadFiles: tree.FilesRead, Unchanged: s.parent.unchanged(tree),
	}
}

// skipped is the result when nothing changed and nothing was written.
func (s *source) skipped(tree workspace.Result) *SnapshotResult {
	result := s.describe(tree)
	result.Snapshot, result.Skipped = s.parent.id, true
	result.Consistency = s.parent.record.Manifest.Consistency
	return result
}

func (s *source) result(tree workspace.Result, w written, published commit.Published) *SnapshotResult {
	result := s.describe(tree)
	result.Snapshot = published.ID
	result.Consistency = published.Record.Manifest.Consistency
	result.NewBlobs, result.NewBytes, result.NewPacks = w.stats.NewBlobs, w.stats.NewBytes, w.count
	result.StoredBytes = w.stats.StoredBytes + w.index + uint64(published.Size)
	return result
}
