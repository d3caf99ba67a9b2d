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

// Stats is the size of a repository.
type Stats struct {
	Snapshots, Packs, Segments, Blobs uint64
	StoredBytes                       uint64 // of all objects
	PackBytes                         uint64
	IndexBytes                        uint64
	SnapshotBytes                     uint64 // of snapshots, labels and pending ones
	LogicalBytes                      uint64 // of the files of all snapshots together
	UniqueBytes                       uint64 // plaintext of the blobs in the packs
}

// Stats measures the repository: one listing of all objects, one read of every
// manifest.
func (r *Repository) Stats(ctx context.Context) (*Stats, error) {
	s, err := r.stats(ctx)
	return s, failed("stats", "", err)
}

func (r *Repository) stats(ctx context.Context) (*Stats, error) {
	s := &Stats{}
	for _, part := range []struct {
		prefix string
		bytes  *uint64
		count  *uint64
	}{
		{packPrefix, &s.PackBytes, &s.Packs}, {"index/", &s.IndexBytes, &s.Segments},
		{"snapshots/", &s.SnapshotBytes, new(uint64)}, {"labels/", &s.SnapshotBytes, new(uint64)},
		{"pending/", &s.SnapshotBytes, new(uint64)}, {"", &s.StoredBytes, new(uint64)},
	} {
		for info, err := range r.store.List(ctx, part.prefix, "") {
			if err != nil {
				return nil, err
			}
			*part.bytes += uint64(info.Size)
			*part.count++
		}
	}
	infos, err := r.loadAll(ctx)
	if err != nil {
		return nil, err
	}
	s.Snapshots = uint64(len(infos))
	for _, info := range infos {
		s.LogicalBytes += info.Manifest.Counts.Bytes
	}
	return s, r.indexStats(ctx, s)
}

func (r *Repository) indexStats(ctx context.Context, s *Stats) error {
	db, err := r.index(ctx)
	if err != nil {
		return err
	}
	for pack, err := range db.Packs(ctx) {
		if err != nil {
			return err
		}
		s.Blobs += uint64(pack.Blobs())
		for _, frame := range pack.Frames {
			s.UniqueBytes += uint64(frame.Content)
		}
	}
	return nil
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
	there := index.PackSet{}
	for info, err := range r.store.List(ctx, packPrefix, "") {
		if err != nil {
			return err
		}
		if name, err := packfile.ParseName(strings.TrimPrefix(info.Key, packPrefix)); err == nil {
			there[name] = struct{}{}
		}
	}
	db, err := r.index(ctx)
	if err != nil {
		return err
	}
	for pack, err := range db.Packs(ctx) {
		if err != nil {
			return err
		}
		if there.Has(pack.Name) || view.Avoid().Has(pack.Name) {
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
