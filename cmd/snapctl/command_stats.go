package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine"
)

func newStatsCommand(c *cli) *cobra.Command {
	return c.command(spec{
		use: "stats", group: groupAdvanced, args: cobra.NoArgs, exits: exitsRepository,
		short:   "print how much the repository holds",
		example: "  snapctl stats\n  snapctl stats --json",
	}, func(ctx context.Context, _ []string) error {
		return c.withRepository(ctx, func(repo *engine.Repository) error {
			stats, err := repo.Stats(ctx)
			if err != nil {
				return err
			}
			return c.printer().print(statsReportOf(repo.ID(), stats))
		})
	})
}

// statsReport is how much a repository holds.
type statsReport struct {
	Repository    string `json:"repository"`
	Snapshots     uint64 `json:"snapshots"`
	Packs         uint64 `json:"packs"`
	Segments      uint64 `json:"segments"`
	Blobs         uint64 `json:"blobs"`
	StoredBytes   uint64 `json:"stored_bytes"` // of all objects
	PackBytes     uint64 `json:"pack_bytes"`
	IndexBytes    uint64 `json:"index_bytes"`
	SnapshotBytes uint64 `json:"snapshot_bytes"`
	LogicalBytes  uint64 `json:"logical_bytes"` // of all files of all snapshots
	UniqueBytes   uint64 `json:"unique_bytes"`  // of the blobs in packs, before compression
}

func statsReportOf(id string, s *engine.Stats) statsReport {
	return statsReport{id, s.Snapshots, s.Packs, s.Segments, s.Blobs, s.StoredBytes, s.PackBytes, s.IndexBytes, s.SnapshotBytes, s.LogicalBytes, s.UniqueBytes}
}

func (r statsReport) text(w *bufio.Writer) {
	count := func(name string, n uint64) { fmt.Fprintf(w, "%-16s %d\n", name, n) }
	bytes := func(name string, n uint64) { fmt.Fprintf(w, "%-16s %s (%d bytes)\n", name, size(n), n) }
	fmt.Fprintf(w, "%-16s %s\n", "repository", r.Repository)
	count("snapshots", r.Snapshots)
	count("packs", r.Packs)
	count("segments", r.Segments)
	count("blobs", r.Blobs)
	bytes("stored", r.StoredBytes)
	bytes("  packs", r.PackBytes)
	bytes("  index", r.IndexBytes)
	bytes("  snapshots", r.SnapshotBytes)
	bytes("logical", r.LogicalBytes)
	bytes("unique", r.UniqueBytes)
}
