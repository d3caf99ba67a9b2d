package engine

import (
	"context"
	"fmt"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// succeed is one attempt to publish what is left of a damaged snapshot (see package
// commit). Its rescue looks every blob up and stores again what only damaged packs
// hold.
func (r *Repository) succeed(ctx context.Context, plan *RepairSnapshotsPlan, repair *SnapshotRepair, result *RepairSnapshotsResult) error {
	ground, err := r.freshGround(ctx) // W1
	if err != nil {
		return err
	}
	if err := r.dropLost(ctx, ground.db); err != nil {
		return err
	}
	origin, err := r.find(ctx, repair.ID)
	if err != nil {
		return err
	}
	m, stored, err := r.rewrite(ctx, plan, repair, origin.Manifest, ground)
	if err != nil {
		return err
	}
	record := commit.Record{Manifest: m}
	rescuer := r.rescuer()
	if record.Packs, err = rescuer.Rescue(ctx, record, ground.view.Avoid()); err != nil { // W2, W3
		return repairFailed(err)
	}
	published, err := commit.Publish(ctx, r.protocol(), commit.NewSession(), record, ground.view, rescuer) // W4 to W7
	if err != nil {
		return repairFailed(err)
	}
	r.tidy(ctx, r.opts.Events, published, ground.db)
	stored.add(rescuer.stored)
	result.NewBlobs += stored.stats.NewBlobs
	result.StoredBytes += stored.stats.StoredBytes + stored.index + uint64(published.Size)
	repair.Successor = published.ID
	return nil
}

// rewrite stores the directories that the successor does not share with its origin,
// and describes it.
func (r *Repository) rewrite(ctx context.Context, plan *RepairSnapshotsPlan, repair *SnapshotRepair, origin *manifest.Manifest, ground ground) (*manifest.Manifest, written, error) {
	session := r.session(ctx, ground.db, ground.view.Avoid())
	defer func() { r.opts.Events.warn("close the session of", "repair", session.Close()) }()
	writer := session.Writer()
	put := func(node []byte) (blob.ID, error) { return writer.Put(ctx, blob.Tree, node) }
	remains := newRemains(r.fetch.Node, put, plan)
	tree, err := remains.tree(ctx, origin.Root, origin.Links)
	if err != nil {
		return nil, written{}, err
	}
	repair.Dropped, repair.MoreDropped = remains.dropped.list, remains.dropped.more
	m, err := r.successor(ctx, repair, origin, tree)
	if err != nil {
		return nil, written{}, err
	}
	stored, err := r.finish(ctx, ground.db, session)
	return m, stored, err
}

// successor describes what is left of a snapshot.
func (r *Repository) successor(ctx context.Context, repair *SnapshotRepair, origin *manifest.Manifest, tree remainingTree) (*manifest.Manifest, error) {
	labels, err := commit.Labels(ctx, r.protocol(), repair.ID, origin)
	if err != nil {
		return nil, err
	}
	labels[RepairedFrom] = repair.ID.String()
	m := *origin
	if m.Labels, err = commit.SortedLabels(labels); err != nil {
		return nil, err
	}
	m.Root, m.Links, m.Parent = tree.root, tree.links, repair.ID
	m.Time, m.Tool = r.now(origin.Time), r.opts.Tool
	m.Omissions = mergeOmissions(repair.Dropped, repair.MoreDropped, origin.Omissions)
	m.Counts = tree.counts
	m.Counts.Excluded, m.Counts.Torn, m.Counts.Vanished = origin.Counts.Excluded, origin.Counts.Torn, origin.Counts.Vanished
	m.Counts.Unreadable = origin.Counts.Unreadable + uint64(len(repair.Dropped)) + repair.MoreDropped
	return &m, m.Check()
}

// repairFailed tells what a new attempt can cure from damage that was not known.
func repairFailed(err error) error {
	if lostBlob(err) {
		return fmt.Errorf("%w, and more than was known: check with all data read, then repair again: %w", ErrDamaged, err)
	}
	return retryable(err)
}
