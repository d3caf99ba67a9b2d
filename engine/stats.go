package engine

import (
	"context"
	"strings"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
)

// Stats is the size of a repository. A blob that several packs hold is counted
// once, and its other copies as duplicates.
type Stats struct {
	Snapshots, Packs, Segments, Blobs uint64
	StoredBytes                       uint64 // of all objects
	PackBytes                         uint64
	IndexBytes                        uint64
	SnapshotBytes                     uint64 // of snapshots, labels, pending and forgotten ones
	LogicalBytes                      uint64 // of the files of all snapshots together
	UniqueBytes                       uint64 // plaintext of the blobs in the packs
	Duplicates                        Weight
	DamagedPacks                      []packfile.Name // marked by a check, ascending
	// DeadPacks are packs that a collection has condemned and that are still there.
	DeadPacks, DeadBytes uint64
	// Unreadable are snapshots that are there but damaged.
	Unreadable []UnreadableSnapshot
}

// Stats measures the repository: one listing of all objects, one read of every
// snapshot, and a look at every blob of the index. It takes 16 bytes of memory for
// each blob.
func (r *Repository) Stats(ctx context.Context) (*Stats, error) {
	s, err := r.stats(ctx)
	return s, failed("stats", "", err)
}

func (r *Repository) stats(ctx context.Context) (*Stats, error) {
	all, err := r.survey(ctx)
	if err != nil {
		return nil, err
	}
	s := &Stats{}
	for _, k := range all {
		s.Snapshots++
		if k.err != nil {
			s.Unreadable = append(s.Unreadable, UnreadableSnapshot{k.id, k.err})
			continue
		}
		s.LogicalBytes += k.info.Manifest.Counts.Bytes
	}
	view, err := r.packMarks(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.measure(ctx, r, view); err != nil {
		return nil, err
	}
	s.DamagedPacks = ascending(view.Damaged)
	blobs, err := r.blobTable(ctx, view)
	if err != nil {
		return nil, err
	}
	s.Blobs, s.UniqueBytes, s.Duplicates = uint64(blobs.len()), blobs.total().Bytes, blobs.duplicates
	return s, nil
}

// measure adds up the sizes of all objects.
func (s *Stats) measure(ctx context.Context, r *Repository, view commit.View) error {
	for info, err := range r.store.List(ctx, "", "") {
		if err != nil {
			return err
		}
		size := uint64(info.Size)
		s.StoredBytes += size
		switch folder, rest, _ := strings.Cut(info.Key, "/"); folder + "/" {
		case packPrefix:
			name, err := packfile.ParseName(rest)
			if err != nil {
				continue // not ours: a check names it
			}
			s.Packs++
			s.PackBytes += size
			if view.Dead.Has(name) {
				s.DeadPacks++
				s.DeadBytes += size
			}
		case index.Prefix:
			if _, err := index.ParseSegmentName(rest); err != nil {
				continue
			}
			s.Segments++
			s.IndexBytes += size
		case "snapshots/", "labels/", "pending/", "forgotten/":
			s.SnapshotBytes += size
		}
	}
	return nil
}
