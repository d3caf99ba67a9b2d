package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
)

// orphanAge is how old the object of an attempt has to be, by the clock of the
// store, before it is taken for that of a dead one. It decides what people are
// told, nothing else.
const orphanAge = 24 * time.Hour

// findOrphans finds what attempts that ended, and snapshots that are gone, left
// behind.
func (c *checker) findOrphans(ctx context.Context) error {
	if c.partial() {
		return nil
	}
	now := c.r.opts.Now()
	for _, p := range c.pending {
		if age := now.Sub(p.ModTime); age > orphanAge {
			err := fmt.Errorf("the attempt seems to be dead: it began %d days ago", int(age.Hours()/24))
			c.found(p.Key(), Orphaned, err).Harmless = true
		}
	}
	return c.findOrphanedLabels(ctx)
}

func (c *checker) findOrphanedLabels(ctx context.Context) error {
	orphans := map[ID]int{}
	for label, err := range commit.ListLabels(ctx, c.r.protocol()) {
		if err != nil {
			return err
		}
		if !c.published[label.ID] && !c.forgotten[label.ID] {
			orphans[label.ID]++
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(orphans), ID.Compare) {
		_, err := c.r.find(ctx, id)
		if !errors.Is(err, ErrNotFound) {
			continue // published since
		}
		why := fmt.Errorf("%d label changes of a snapshot that is gone", orphans[id])
		c.found(labelPrefix+id.String(), Orphaned, why).Harmless = true
	}
	return nil
}

const labelPrefix = "labels/"
