package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"golang.org/x/sync/errgroup"
)

// Segments are merged like the tables of a size-tiered LSM tree (the scheme of
// Bigtable's minor compactions and of Cassandra). Tier t holds segments of less
// than smallest * fanout^(t+1) bytes; when it has fanout of them, they become
// one of a higher tier. At most fanout-1 stay in each of the 6 tiers, and each
// byte is written at most once for each tier, whatever the number of snapshots.
const (
	fanout       = 8
	smallestTier = 128 // bytes: tiers end at 1 KiB, 8 KiB, 64 KiB, 512 KiB, 4 MiB, 32 MiB
	// fullSegment is large enough to be left alone: two of them would not fit
	// one segment.
	fullSegment = maxSegment / 2
)

func tier(size int64) int {
	t := 0
	for bound := int64(smallestTier * fanout); size >= bound; bound *= fanout {
		t++
	}
	return t
}

// Plan says which segments to merge. It is plain data: making one changes
// nothing.
type Plan struct {
	// Groups are merged into one segment each, or into few if they are large.
	Groups [][]SegmentInfo
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Groups) == 0 }

// PlanCompaction chooses what to merge among all segments of a repository. Only
// their names and sizes matter.
func PlanCompaction(segments []SegmentInfo) Plan {
	// A unit is one segment, or several that become one: a merge may fill the
	// next tier, whose segments then join it at once instead of in a merge of
	// their own.
	type unit []SegmentInfo
	tiers := map[int][]unit{}
	highest := 0
	place := func(u unit, t int) {
		tiers[t] = append(tiers[t], u)
		highest = max(highest, t)
	}
	for _, s := range segments {
		if s.Size < fullSegment {
			place(unit{s}, tier(s.Size))
		}
	}
	var plan Plan
	for t := 0; t <= highest; t++ {
		if len(tiers[t]) < fanout {
			for _, u := range tiers[t] {
				plan.add(u)
			}
			continue
		}
		u := slices.Concat(tiers[t]...)
		if size := totalSize(u); size < fullSegment {
			place(u, max(t+1, tier(size)))
		} else {
			plan.add(u)
		}
	}
	return plan
}

func totalSize(segments []SegmentInfo) int64 {
	n := int64(0)
	for _, s := range segments {
		n += s.Size
	}
	return n
}

// add cuts segments into groups that fit one segment each, which also bounds
// what a merge holds in memory. A segment alone needs no merge.
func (p *Plan) add(segments []SegmentInfo) {
	segments = slices.SortedFunc(slices.Values(segments), func(a, b SegmentInfo) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), slices.Compare(a.Name[:], b.Name[:]))
	})
	for len(segments) > 0 {
		n, size := 0, int64(0)
		for n < len(segments) && (n == 0 || size+segments[n].Size <= maxSegment) {
			size += segments[n].Size
			n++
		}
		if n > 1 {
			p.Groups = append(p.Groups, segments[:n])
		}
		segments = segments[n:]
	}
}

// PlanRewrite is a plan that writes all given segments again, merged as far as
// they fit: to drop dead packs from them.
func PlanRewrite(segments []SegmentInfo) Plan {
	var p Plan
	p.add(segments)
	merged := map[SegmentName]bool{}
	for _, s := range slices.Concat(p.Groups...) {
		merged[s.Name] = true
	}
	for _, s := range segments {
		if !merged[s.Name] {
			p.Groups = append(p.Groups, []SegmentInfo{s})
		}
	}
	return p
}

// Compacted says what the execution of a Plan did, also when it failed.
type Compacted struct {
	Written []SegmentInfo // acknowledged; tell DB.Segmented
	Deleted []SegmentName
	Dropped int     // descriptions of dead packs that were left out
	Damaged []error // *Error, one for each segment that could not be read, and stays
}

// Execute merges each group: it puts the new segments before it deletes those
// that they replace, so that every pack is named at every moment, wherever it
// is interrupted. Packs in dead are dropped; nothing else is, so processes that
// compact the same segments at once only write some packs twice. Segments that
// are gone, or damaged, are left out of the merge.
func (p Plan) Execute(ctx context.Context, store objectstore.Store, sealer *seal.Sealer, dead PackSet) (Compacted, error) {
	var done Compacted
	for _, group := range p.Groups {
		m := merge{store: store, sealer: sealer, dead: dead, done: &done}
		if err := m.run(ctx, group); err != nil {
			return done, fmt.Errorf("compact index: %w", err)
		}
	}
	return done, nil
}

// merge is the execution of one group.
type merge struct {
	store  objectstore.Store
	sealer *seal.Sealer
	dead   PackSet
	done   *Compacted

	read  []SegmentName // what is replaced
	packs []packfile.Pack
}

func (m *merge) run(ctx context.Context, group []SegmentInfo) error {
	dropped := m.done.Dropped
	for _, r := range m.fetch(ctx, group) {
		if err := m.take(r); err != nil {
			return err
		}
	}
	if len(m.read) == 0 || len(m.read) == 1 && m.done.Dropped == dropped {
		return nil // what would be written is there already
	}
	written, err := WriteSegments(ctx, m.store, m.sealer, m.packs)
	m.done.Written = append(m.done.Written, written...)
	if err != nil {
		return err
	}
	deleted, err := deleteSegments(ctx, m.store, m.read)
	m.done.Deleted = append(m.done.Deleted, deleted...)
	return err
}

// maxReads of small segments run at a time; a group bounds their bytes.
const maxReads = 8

func (m *merge) fetch(ctx context.Context, group []SegmentInfo) []fetched {
	results := make([]fetched, len(group))
	var g errgroup.Group
	g.SetLimit(maxReads)
	for i, s := range group {
		g.Go(func() error {
			packs, err := readListed(ctx, m.store, m.sealer, s)
			results[i] = fetched{s, packs, err}
			return nil
		})
	}
	_ = g.Wait() // each result has its own error
	return results
}

// take adds a segment to the merge, if it can be part of it.
func (m *merge) take(r fetched) error {
	switch {
	case vanished(r.err): // another process merged it
		return nil
	case errors.Is(r.err, ErrDamaged):
		m.done.Damaged = append(m.done.Damaged, r.err)
		return nil
	case r.err != nil:
		return r.err
	}
	m.read = append(m.read, r.info.Name)
	for _, p := range r.packs {
		if m.dead.Has(p.Name) {
			m.done.Dropped++
		} else {
			m.packs = append(m.packs, p)
		}
	}
	return nil
}

// maxDeletes run at a time.
const maxDeletes = 8

// deleteSegments returns those whose deletion was acknowledged.
func deleteSegments(ctx context.Context, store objectstore.Store, names []SegmentName) ([]SegmentName, error) {
	acknowledged := make([]bool, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxDeletes)
	for i, name := range names {
		g.Go(func() error {
			err := store.Delete(ctx, name.Key())
			acknowledged[i] = err == nil
			return err
		})
	}
	err := g.Wait()
	var deleted []SegmentName
	for i, name := range names {
		if acknowledged[i] {
			deleted = append(deleted, name)
		}
	}
	return deleted, err
}
