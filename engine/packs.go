package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
)

// session starts to store blobs; copies in the packs of avoid are not reused.
func (r *Repository) session(ctx context.Context, db *index.DB, avoid index.PackSet) *ingest.Session {
	return ingest.New(ctx, ingest.Options{
		Store: r.packs.data, TreeStore: r.packs.trees, Sealer: r.sealer, Namer: r.namer, Index: db, Avoid: avoid,
		FrameSize: int(r.config.FrameSize), PackSize: int(r.config.PackSize),
	})
}

// indexPacks puts index segments that name the packs of a session (step W3): the
// new ones, and those that an interrupted session left unindexed and this one
// reuses. It returns the size of the segments in bytes.
func (r *Repository) indexPacks(ctx context.Context, db *index.DB, result ingest.Result) (size uint64, err error) {
	orphans, err := db.Unsegmented(ctx)
	if err != nil {
		return 0, err
	}
	packs := slices.Clone(result.New)
	for _, pack := range orphans {
		if result.Reused.Has(pack.Name) {
			packs = append(packs, pack)
		}
	}
	segments, err := index.WriteSegments(ctx, r.store, r.sealer, packs)
	if err != nil {
		return 0, err
	}
	for _, segment := range segments {
		size += uint64(segment.Size)
	}
	return size, db.Segmented(ctx, segments...)
}

// packsOf returns the packs that a session used.
func packsOf(result ingest.Result) []packfile.Name {
	names := slices.Collect(maps.Keys(result.Reused))
	for _, pack := range result.New {
		names = append(names, pack.Name)
	}
	return names
}
