package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
)

// RepairIndexPlan is what is wrong with the index, and RepairIndex sets right.
type RepairIndexPlan struct {
	Segments  []Problem // cannot be read; what they name is found in the packs
	Unindexed []Problem // packs that no segment names
	Missing   []Problem // packs that a segment names, and that are gone
}

// Empty reports whether nothing is wrong. RepairIndex can be asked all the same.
func (p *RepairIndexPlan) Empty() bool {
	return len(p.Segments) == 0 && len(p.Unindexed) == 0 && len(p.Missing) == 0
}

// PlanRepairIndex compares the index with the packs. Nothing is changed.
func (r *Repository) PlanRepairIndex(ctx context.Context) (*RepairIndexPlan, error) {
	plan, err := calmly(ctx, r, func() (*RepairIndexPlan, error) { return r.planRepairIndex(ctx) })
	return plan, failed("plan repair of", "index", err)
}

func (r *Repository) planRepairIndex(ctx context.Context) (*RepairIndexPlan, error) {
	plan := &RepairIndexPlan{}
	err := r.withChecker(CheckOptions{}, func(c *checker) error {
		if err := c.walk(ctx, []step{{"index", c.checkIndex}, {"packs", c.checkPacks}}); err != nil {
			return err
		}
		c.planIndex(plan)
		return nil
	})
	return plan, err
}

func (c *checker) planIndex(plan *RepairIndexPlan) {
	for _, p := range c.segments {
		plan.Segments = append(plan.Segments, *p)
	}
	for _, name := range ascending(c.bad) {
		switch p := c.bad[name]; {
		case c.dead.Has(name): // a collection is about to take it from the index
		case p.What == Unindexed:
			plan.Unindexed = append(plan.Unindexed, *p)
		case p.What == Missing:
			plan.Missing = append(plan.Missing, *p)
		}
	}
}

// RepairIndexResult is what RepairIndex did.
type RepairIndexResult struct {
	Packs, Blobs, Segments uint64 // found and written
	// Damaged are the packs whose footers cannot be read. They are marked, so
	// that the next snapshot stores their content again, and described as an old
	// segment did, if one does: what is whole in them can still be restored.
	Damaged []Problem
}

// RepairIndex makes the index anew from the footers of the packs alone. New
// segments are there before the old ones go, so that other processes can go on.
func (r *Repository) RepairIndex(ctx context.Context) (*RepairIndexResult, error) {
	result, err := r.repairIndex(ctx)
	return result, failed("repair", "index", err)
}

func (r *Repository) repairIndex(ctx context.Context) (*RepairIndexResult, error) {
	if err := r.markMissing(ctx); err != nil {
		return nil, err
	}
	stats, err := index.Rebuild(ctx, r.store, r.sealer)
	if err != nil {
		return nil, err
	}
	result := &RepairIndexResult{Packs: uint64(stats.Packs), Blobs: uint64(stats.Blobs), Segments: uint64(len(stats.Written))}
	for _, err := range stats.Unreadable {
		p := unreadablePack(err)
		result.Damaged = append(result.Damaged, p)
		if name, err := packfile.ParseName(strings.TrimPrefix(p.Object, packPrefix)); err == nil {
			if err := commit.MarkDamaged(ctx, r.protocol(), name); err != nil {
				return result, err
			}
		}
	}
	if len(result.Damaged) > 0 {
		return result, fmt.Errorf("%d packs: %w", len(result.Damaged), ErrDamaged)
	}
	return result, nil
}

// markMissing marks the packs that the index names and the store lacks, unless a
// collection took them: writers that know the old index must not reuse them.
func (r *Repository) markMissing(ctx context.Context) error {
	view, err := commit.ReadView(ctx, r.protocol(), commit.View{})
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	listed, err := r.listedPacks(ctx)
	if err != nil {
		return err
	}
	db, err := r.index(ctx)
	if err != nil {
		return err
	}
	avoid := view.Avoid()
	for pack, err := range db.Packs(ctx) {
		if err != nil {
			return err
		}
		if _, there := listed[pack.Name]; there || avoid.Has(pack.Name) {
			continue
		}
		if err := commit.MarkDamaged(ctx, r.protocol(), pack.Name); err != nil {
			return err
		}
	}
	return nil
}

func unreadablePack(err error) Problem {
	p := Problem{Object: packPrefix, What: Damaged, Err: err}
	if at := (*index.Error)(nil); errors.As(err, &at) {
		p.Object, p.Err = at.Object, at.Err
	}
	if what, ok := lost(err); ok {
		p.What = what
	}
	return p
}
