package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// RepairedFrom is the label of a snapshot that a repair made from a damaged one; its
// value is the id of that one, which is also the parent.
const RepairedFrom = "repaired-from"

// RepairSnapshotsOptions say which snapshots to repair, and what becomes of the
// damaged ones. The zero value repairs all and keeps the damaged ones.
type RepairSnapshotsOptions struct {
	Snapshots []ID // only these; empty: all
	// ForgetDamaged forgets the damaged snapshots that have a successor, and those of
	// which nothing can be read any more. Until then collections may stop at them.
	ForgetDamaged bool
}

// RepairSnapshotsPlan is what RepairSnapshots would do. It is data: making it
// changes nothing.
type RepairSnapshotsPlan struct {
	Snapshots []SnapshotRepair // in the order of their ids
	// Labels are label changes that cannot be read. Pins replace them, since no snapshot
	// can be listed beside them and they may have been pins; what else they set or
	// removed is lost.
	Labels []Problem
	// Records are damaged objects at the keys of snapshots of which another object can
	// be read. Tombstones replace them, and nothing is lost.
	Records []Problem

	marks      []packfile.Name
	buried     []commit.Ref        // of Records
	losses     map[blob.ID]string  // blobs that no repair can bring back, and why
	clean      map[blob.ID]bool    // directories below which nothing is lost
	objects    map[ID][]commit.Ref // of the damaged snapshots, records that can be read
	unreadable map[ID][]commit.Ref // and others
	forget     bool
}

// SnapshotRepair is what becomes of one damaged snapshot.
type SnapshotRepair struct {
	ID ID
	// Hopeless is why no successor can be made, if so: nothing of it can be read.
	Hopeless error
	// Successor is the snapshot that holds what is left; zero in a plan if it is yet
	// to be made.
	Successor ID
	// Dropped are the paths that the successor lacks, or has without something, and
	// why; more are in MoreDropped.
	Dropped     []manifest.Omission
	MoreDropped uint64
	Forget      bool // the damaged snapshot is forgotten
}

// Done reports whether there is nothing to do for the snapshot.
func (s SnapshotRepair) Done() bool {
	return !s.Forget && (s.Hopeless != nil || !s.Successor.IsZero())
}

// Empty reports whether there is nothing to do.
func (p *RepairSnapshotsPlan) Empty() bool {
	undone := func(s SnapshotRepair) bool { return !s.Done() }
	return len(p.Labels) == 0 && len(p.Records) == 0 && !slices.ContainsFunc(p.Snapshots, undone)
}

// Hopeless is the number of snapshots that stay as they are although nothing of
// them can be read.
func (p *RepairSnapshotsPlan) Hopeless() int {
	n := 0
	for _, s := range p.Snapshots {
		if s.Hopeless != nil && !s.Forget {
			n++
		}
	}
	return n
}

// PlanRepairSnapshots checks the repository as Check does without reading data, and
// finds out what is left of each snapshot that has lost something. Repair the index
// and the packs before: what they bring back need not be dropped.
func (r *Repository) PlanRepairSnapshots(ctx context.Context, opts RepairSnapshotsOptions) (*RepairSnapshotsPlan, error) {
	plan, err := calmly(ctx, r, func() (*RepairSnapshotsPlan, error) { return r.planRepairSnapshots(ctx, opts) })
	return plan, failed("plan repair of", "snapshots", err)
}

func (r *Repository) planRepairSnapshots(ctx context.Context, opts RepairSnapshotsOptions) (*RepairSnapshotsPlan, error) {
	plan := &RepairSnapshotsPlan{forget: opts.ForgetDamaged, losses: map[blob.ID]string{}, objects: map[ID][]commit.Ref{}, unreadable: map[ID][]commit.Ref{}}
	err := r.withChecker(CheckOptions{Snapshots: opts.Snapshots}, func(c *checker) error {
		c.allRecords = true // of those that other repairs made
		err := c.walk(ctx, []step{
			{"snapshots", c.checkSnapshots}, {"protocol", c.checkProtocol}, {"index", c.checkIndex}, {"packs", c.checkPacks},
			{"data", c.readPacks}, {"trees", c.checkTrees}, {"affected", c.findAffected},
		})
		if err != nil {
			return err
		}
		return c.planSnapshots(ctx, plan)
	})
	return plan, err
}

// errIndexFirst says that nothing is to be given up yet.
var errIndexFirst = fmt.Errorf("%w: packs are needed that no index segment names: repair the index first", ErrDamaged)

func (c *checker) planSnapshots(ctx context.Context, plan *RepairSnapshotsPlan) error {
	if c.judgePacks() {
		return errIndexFirst
	}
	plan.marks = c.unmarked()
	for _, p := range c.problems {
		if p.What == Damaged && c.isWantedLabel(p.Object) {
			plan.Labels = append(plan.Labels, *p)
		}
	}
	for id, p := range c.losses {
		plan.losses[id] = fmt.Sprintf("lost: %s is %s", p.Object, p.What)
	}
	plan.clean = c.clean
	c.planUnreadable(plan)
	if err := c.planSuccessors(ctx, plan); err != nil {
		return err
	}
	slices.SortFunc(plan.Snapshots, func(a, b SnapshotRepair) int { return a.ID.Compare(b.ID) })
	return nil
}

func (c *checker) isWantedLabel(key string) bool {
	rest, ok := strings.CutPrefix(key, labelPrefix)
	text, _, _ := strings.Cut(rest, "/")
	id, err := blob.ParseID(text)
	return ok && err == nil && c.wants(id)
}

// planUnreadable deals with snapshots whose own objects are damaged.
func (c *checker) planUnreadable(plan *RepairSnapshotsPlan) {
	for _, broken := range c.broken {
		id := broken.ref.ID
		if broken.harmless {
			plan.Records = append(plan.Records, Problem{Object: broken.ref.Key(), What: Damaged, Err: broken.err, Harmless: true})
			plan.buried = append(plan.buried, broken.ref)
			continue
		}
		if plan.unreadable[id] == nil {
			plan.Snapshots = append(plan.Snapshots, SnapshotRepair{ID: id, Hopeless: broken.err, Forget: plan.forget})
		}
		plan.unreadable[id] = append(plan.unreadable[id], broken.ref)
	}
}

// planSuccessors finds out what is left of the damaged snapshots.
func (c *checker) planSuccessors(ctx context.Context, plan *RepairSnapshotsPlan) error {
	successors := map[ID]ID{}
	for _, s := range c.snapshots {
		if !s.origin.IsZero() && !s.affected {
			successors[s.origin] = s.id
		}
	}
	for _, s := range c.snapshots {
		if !s.affected {
			continue
		}
		plan.objects[s.id] = append(plan.objects[s.id], s.ref)
		if len(plan.objects[s.id]) > 1 {
			continue // published more than once
		}
		repair := SnapshotRepair{ID: s.id, Successor: successors[s.id]}
		remains := newRemains(c.fetch.Node, c.namePlan, plan)
		_, err := remains.tree(ctx, s.root, s.links)
		if _, ok := lost(err); err != nil && !ok {
			return err
		}
		repair.Hopeless = err
		repair.Dropped, repair.MoreDropped = remains.dropped.list, remains.dropped.more
		repair.Forget = plan.forget
		plan.Snapshots = append(plan.Snapshots, repair)
	}
	return nil
}

// namePlan names the nodes of a plan, which are not stored.
func (c *checker) namePlan(node []byte) (blob.ID, error) { return c.r.namer.ID(blob.Tree, node), nil }

// RepairSnapshotsResult is what RepairSnapshots did, also before it failed.
type RepairSnapshotsResult struct {
	Snapshots []SnapshotRepair // with their successors
	Labels    uint64           // replaced by pins
	Records   uint64           // replaced by tombstones
	Forgotten uint64           // snapshots
	NewBlobs  uint64
	// StoredBytes is the size of all objects that were written.
	StoredBytes uint64
}

// RepairSnapshots does what the plan says. A snapshot with lost content gets a
// successor without the entries that cannot be read: a snapshot of its own, with the
// labels of the damaged one and RepairedFrom, whose omissions name what it lacks and
// why. It counts as partial. ErrDamaged with a result if snapshots are left of which
// nothing can be read. Wherever it is interrupted, nothing is lost and the next
// repair goes on.
func (r *Repository) RepairSnapshots(ctx context.Context, plan *RepairSnapshotsPlan) (*RepairSnapshotsResult, error) {
	result, err := r.repairSnapshots(ctx, plan)
	if n := plan.Hopeless(); err == nil && n > 0 {
		err = fmt.Errorf("%w: nothing can be read of %d snapshots", ErrDamaged, n)
	}
	return result, failed("repair", "snapshots", err)
}

func (r *Repository) repairSnapshots(ctx context.Context, plan *RepairSnapshotsPlan) (*RepairSnapshotsResult, error) {
	result := &RepairSnapshotsResult{}
	if err := r.markDamaged(ctx, plan.marks); err != nil {
		return result, err
	}
	for _, label := range plan.Labels {
		replaced, err := r.replaceLabel(ctx, label.Object)
		if err != nil {
			return result, err
		}
		result.Labels += replaced
	}
	for _, ref := range plan.buried {
		buried, err := commit.Bury(ctx, r.protocol(), ref)
		if err != nil {
			return result, err
		}
		if buried {
			result.Records++
		}
	}
	for _, repair := range plan.Snapshots {
		err := r.repairSnapshot(ctx, plan, &repair, result)
		result.Snapshots = append(result.Snapshots, repair)
		if err != nil {
			return result, fmt.Errorf("snapshot %v: %w", repair.ID, err)
		}
	}
	return result, nil
}

// DamagedLabel is the value of the pin that replaces a label change that cannot be read.
const DamagedLabel = "damaged-label"

// replaceLabel puts a pin in place of a label change that still cannot be read, and
// returns how many that were.
func (r *Repository) replaceLabel(ctx context.Context, key string) (uint64, error) {
	_, err := commit.LoadLabelChange(ctx, r.protocol(), key)
	if err == nil || errors.Is(err, commit.ErrNotFound) {
		return 0, nil
	}
	if !errors.Is(err, ErrDamaged) {
		return 0, err
	}
	pin, err := commit.NewLabelChange(map[string]string{retention.PinLabel: DamagedLabel}, nil)
	if err != nil {
		return 0, err
	}
	return 1, commit.ReplaceLabel(ctx, r.protocol(), key, pin)
}

func (r *Repository) repairSnapshot(ctx context.Context, plan *RepairSnapshotsPlan, repair *SnapshotRepair, result *RepairSnapshotsResult) error {
	if repair.Hopeless == nil && repair.Successor.IsZero() {
		err := r.succeed(ctx, plan, repair, result)
		for n := 1; n < attempts && errors.Is(err, ErrRetry); n++ {
			r.opts.Events.warn("repair snapshot", repair.ID.String(), err)
			err = r.succeed(ctx, plan, repair, result)
		}
		if err != nil {
			return err
		}
	}
	if !repair.Forget {
		return nil
	}
	for _, ref := range plan.objects[repair.ID] {
		if err := commit.Forget(ctx, r.protocol(), ref); err != nil {
			return err
		}
	}
	for _, ref := range plan.unreadable[repair.ID] {
		if _, err := commit.Bury(ctx, r.protocol(), ref); err != nil {
			return err
		}
	}
	result.Forgotten++
	return nil
}
