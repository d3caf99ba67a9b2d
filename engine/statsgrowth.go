package engine

import (
	"context"

	"github.com/snapctl/snapctl/gc/retention"
)

// Growth is what the snapshots of a period added.
type Growth struct {
	Period    string // such as 2026-01-03
	Snapshots int
	Logical   uint64 // bytes of their files
	New       Weight // of the blobs that no earlier snapshot reaches
}

// GrowthReport says how the repository grew to what it holds now: what was
// forgotten since is not counted.
type GrowthReport struct {
	Periods []Growth // ascending; those without a snapshot are left out
	Gaps
}

// Growth tells what the snapshots of each period added, by their effective times
// (see package gc/retention). It takes what Usage takes.
func (r *Repository) Growth(ctx context.Context, period retention.Period) (*GrowthReport, error) {
	report, err := r.growth(ctx, period)
	return report, failed("stats", "", err)
}

func (r *Repository) growth(ctx context.Context, period retention.Period) (*GrowthReport, error) {
	c, err := r.census(ctx)
	if err != nil {
		return nil, err
	}
	report := &GrowthReport{}
	seen := newBlobSet(c.graph.blobs.len())
	for i, info := range c.infos {
		roots := rootsOf(info)
		if err := c.graph.load(ctx, roots); err != nil {
			return nil, err
		}
		g := report.period(period.Of(c.effective[i].Effective))
		g.Snapshots++
		g.Logical += info.Manifest.Counts.Bytes
		g.New.add(c.graph.weighNew(roots, seen))
	}
	report.Gaps = c.gaps()
	return report, nil
}

// period returns the last period, a new one if it has another name.
func (g *GrowthReport) period(name string) *Growth {
	if n := len(g.Periods); n == 0 || g.Periods[n-1].Period != name {
		g.Periods = append(g.Periods, Growth{Period: name})
	}
	return &g.Periods[len(g.Periods)-1]
}
