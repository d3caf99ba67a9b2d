package engine

import (
	"context"
	"math"

	"github.com/snapctl/snapctl/packfile/blob"
)

// Usage is what some snapshots take.
type Usage struct {
	Name      string
	Snapshots int
	Logical   uint64 // bytes of their files, holes included, once for each snapshot
	Total     Weight // of the blobs that they reach
	Unique    Weight // of those that no other snapshots reach: what forgetting them would free
}

// Shared is the weight of the blobs that other snapshots reach too.
func (u Usage) Shared() Weight { return u.Total.Minus(u.Unique) }

// UsageReport says who takes how much.
type UsageReport struct {
	Groups []Usage // in the order of their oldest snapshots
	// Whole is all snapshots together. What is unique in it is reached from one
	// group only.
	Whole Usage
	// Unreferenced is the weight of the blobs that no snapshot reaches, such as
	// those of forgotten ones: what a collection may free.
	Unreferenced Weight
	Gaps
}

// Usage counts what snapshots take, those together for which by returns one name:
// a source, the value of a label, or the id of each. It reads every tree blob once.
// Memory: 24 bytes for each blob of the repository, 4 for each name in a tree blob
// and about 60 for each tree blob.
func (r *Repository) Usage(ctx context.Context, by func(Info) string) (*UsageReport, error) {
	report, err := r.usage(ctx, by)
	return report, failed("stats", "", err)
}

func (r *Repository) usage(ctx context.Context, by func(Info) string) (*UsageReport, error) {
	c, err := r.census(ctx)
	if err != nil {
		return nil, err
	}
	owners := newOwners(c.graph)
	for _, info := range c.infos {
		if err := owners.add(ctx, by(info), info); err != nil {
			return nil, err
		}
	}
	report := owners.report()
	report.Gaps = c.gaps()
	return report, nil
}

// owners notes of each blob which group reached it first, and which one last. The
// groups need not come one after the other, but each blob counts once for each: a
// group's blobs are counted when all its snapshots are known.
type owners struct {
	graph  *blobGraph
	groups []Usage
	byName map[string]int
	roots  [][]blob.ID // of each group
}

func newOwners(g *blobGraph) *owners { return &owners{graph: g, byName: map[string]int{}} }

func (o *owners) add(ctx context.Context, name string, info Info) error {
	i, ok := o.byName[name]
	if !ok {
		i = len(o.groups)
		o.byName[name] = i
		o.groups = append(o.groups, Usage{Name: name})
		o.roots = append(o.roots, nil)
	}
	roots := rootsOf(info)
	o.groups[i].Snapshots++
	o.groups[i].Logical += info.Manifest.Counts.Bytes
	o.roots[i] = append(o.roots[i], roots...)
	return o.graph.load(ctx, roots)
}

// Who reaches a blob: nobody, one group (its index + 1), or several.
const (
	nobody  = 0
	several = math.MaxUint32
)

func (o *owners) report() *UsageReport {
	blobs := o.graph.blobs
	owner, last := make([]uint32, blobs.len()), make([]uint32, blobs.len())
	for i := range o.groups {
		group, total := uint32(i+1), &o.groups[i].Total
		o.graph.follow(o.roots[i], func(n uint32) bool {
			if last[n] == group {
				return false
			}
			last[n] = group
			total.add(blobs.weight(int(n)))
			if owner[n] == nobody {
				owner[n] = group
			} else {
				owner[n] = several
			}
			return true
		})
	}
	report := &UsageReport{Groups: o.groups}
	for n, by := range owner {
		w := blobs.weight(n)
		switch by {
		case nobody:
			report.Unreferenced.add(w)
			continue
		case several:
		default:
			o.groups[by-1].Unique.add(w)
			report.Whole.Unique.add(w)
		}
		report.Whole.Total.add(w)
	}
	for _, g := range o.groups {
		report.Whole.Snapshots += g.Snapshots
		report.Whole.Logical += g.Logical
	}
	return report
}
