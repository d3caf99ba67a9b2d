package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/gc/retention"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Gaps is what could not be counted.
type Gaps struct {
	Missing    uint64 // blobs that are lost; with a tree blob, all below it
	Unreadable []UnreadableSnapshot
}

// Complete reports whether everything was counted.
func (g Gaps) Complete() bool { return g.Missing == 0 && len(g.Unreadable) == 0 }

// census is what is known of all snapshots, oldest first, and their blobs.
type census struct {
	infos      []Info
	effective  []retention.Decision // of the same snapshots
	unreadable []UnreadableSnapshot
	known      map[ID]bool // readable or not
	graph      *blobGraph
}

func (r *Repository) census(ctx context.Context) (*census, error) {
	all, err := r.survey(ctx)
	if err != nil {
		return nil, err
	}
	view, err := r.packMarks(ctx)
	if err != nil {
		return nil, err
	}
	blobs, err := r.blobTable(ctx, view)
	if err != nil {
		return nil, err
	}
	get, err := r.nodes(ctx)
	if err != nil {
		return nil, err
	}
	c := &census{graph: newBlobGraph(blobs, get), known: map[ID]bool{}}
	return c, c.order(all)
}

// packMarks reads what collections and checks say of packs. A list that is damaged
// is a warning: packs may count then that a collection is about to delete.
func (r *Repository) packMarks(ctx context.Context) (commit.View, error) {
	view, err := commit.ReadView(ctx, r.protocol(), commit.View{})
	if errors.Is(err, ErrDamaged) {
		r.opts.Events.warn("read collections", "gc/", err)
		err = nil
	}
	return view, err
}

func (c *census) order(all []known) error {
	infos := map[ID]Info{}
	var snapshots []retention.Snapshot
	for _, k := range all {
		c.known[k.id] = true
		if k.err != nil {
			c.unreadable = append(c.unreadable, UnreadableSnapshot{k.id, k.err})
			continue
		}
		infos[k.id] = k.info
		snapshots = append(snapshots, k.forRetention())
	}
	var err error
	c.effective, err = retention.Order(snapshots)
	for _, d := range c.effective {
		c.infos = append(c.infos, infos[d.Snapshot.ID])
	}
	return err
}

func (c *census) gaps() Gaps {
	return Gaps{Missing: uint64(len(c.graph.missing)), Unreadable: c.unreadable}
}

// rootsOf returns the blobs from which a snapshot's others can be reached.
func rootsOf(info Info) []blob.ID {
	roots := []blob.ID{info.Manifest.Root, info.Manifest.Links}
	return slices.DeleteFunc(roots, blob.ID.IsZero)
}
