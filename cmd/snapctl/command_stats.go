package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/gc/retention"
)

// statsOptions are the options of snapctl stats.
type statsOptions struct {
	by     string
	growth string
	free   bool
}

func (o *statsOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.by, "by", "", "what each takes, by `what`: snapshot, source or label:KEY")
	f.StringVar(&o.growth, "growth", "", "what each `period` added: day, week or month")
	f.BoolVar(&o.free, "free", false, "what forgetting the named snapshots would free")
}

const statsLong = `Without an option it adds up the whole repository. With --by, --growth or --free
it reads all directories of all snapshots.

"logical" is the size of the files, once for each snapshot. "stored" is what their
blobs take in packs, each counted once. "unique" is the part that no other line
reaches, "shared" the rest. Blobs are compressed together, so that sizes of stored
ones are estimates.`

func newStatsCommand(c *cli) *cobra.Command {
	var o statsOptions
	cmd := c.command(spec{
		use: "stats [--free SNAP...]", group: groupAdvanced, args: cobra.ArbitraryArgs, exits: exitsPartial,
		short: "print how much the repository holds, and for whom", long: statsLong,
		example: "  snapctl stats\n  snapctl stats --by source\n  snapctl stats --by label:team --json\n" +
			"  snapctl stats --growth week\n  snapctl stats --free 4f1d0c22 90ab73fe",
	}, func(ctx context.Context, args []string) error { return c.stats(ctx, args, &o) })
	o.addFlags(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("by", "growth", "free")
	return cmd
}

func (c *cli) stats(ctx context.Context, names []string, o *statsOptions) error {
	if o.free != (len(names) > 0) {
		return &usageError{err: errors.New("--free and names of snapshots belong together")}
	}
	var do func(context.Context, *engine.Repository) error
	switch {
	case o.by != "":
		by, err := parseUsageBy(o.by)
		if err != nil {
			return err
		}
		do = func(ctx context.Context, repo *engine.Repository) error { return c.usage(ctx, repo, by) }
	case o.growth != "":
		period, err := oneOf("--growth", o.growth, []string{"day", "week", "month"}, []retention.Period{retention.Day, retention.Week, retention.Month})
		if err != nil {
			return err
		}
		do = func(ctx context.Context, repo *engine.Repository) error { return c.growth(ctx, repo, period) }
	case o.free:
		do = func(ctx context.Context, repo *engine.Repository) error { return c.wouldFree(ctx, repo, names) }
	default:
		do = c.wholeStats
	}
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		c.talk.begin("stats")
		defer c.talk.done()
		return do(ctx, repo)
	})
}

func (c *cli) wholeStats(ctx context.Context, repo *engine.Repository) error {
	stats, err := repo.Stats(ctx)
	if err != nil {
		return err
	}
	return errors.Join(c.printer().print(statsReportOf(repo.ID(), stats)), c.incomplete(engine.Gaps{Unreadable: stats.Unreadable}))
}

// warnOfGaps names what could not be counted.
func (c *cli) warnOfGaps(gaps engine.Gaps) {
	for _, u := range gaps.Unreadable {
		c.talk.warn("snapshot %v cannot be read, and is not counted: %v", u.ID, u.Err)
	}
	if gaps.Missing > 0 {
		c.talk.warn("%s cannot be had, and what they name is not counted", plural(gaps.Missing, "blob"))
	}
}

// incomplete is the error that ends a command which could not count everything.
func (c *cli) incomplete(gaps engine.Gaps) error {
	c.warnOfGaps(gaps)
	if gaps.Complete() {
		return nil
	}
	return &hinted{fmt.Errorf("%w: not everything could be counted", engine.ErrPartial), hintDamaged}
}

// statsReport is how much a repository holds.
type statsReport struct {
	Repository    string   `json:"repository"`
	Snapshots     uint64   `json:"snapshots"`
	Packs         uint64   `json:"packs"`
	Segments      uint64   `json:"segments"`
	Blobs         uint64   `json:"blobs"`
	StoredBytes   uint64   `json:"stored_bytes"` // of all objects
	PackBytes     uint64   `json:"pack_bytes"`
	IndexBytes    uint64   `json:"index_bytes"`
	SnapshotBytes uint64   `json:"snapshot_bytes"`
	LogicalBytes  uint64   `json:"logical_bytes"` // of all files of all snapshots
	UniqueBytes   uint64   `json:"unique_bytes"`  // of the blobs in packs, before compression, each counted once
	Duplicates    *weight  `json:"duplicates"`    // further copies of blobs
	DeadPacks     uint64   `json:"dead_packs"`    // condemned by a collection, and still there
	DeadBytes     uint64   `json:"dead_bytes"`
	DamagedPacks  []string `json:"damaged_packs"` // marked by a check
}

func statsReportOf(id string, s *engine.Stats) statsReport {
	damaged := make([]string, len(s.DamagedPacks))
	for i, name := range s.DamagedPacks {
		damaged[i] = name.String()
	}
	return statsReport{
		id, s.Snapshots, s.Packs, s.Segments, s.Blobs, s.StoredBytes, s.PackBytes, s.IndexBytes, s.SnapshotBytes, s.LogicalBytes, s.UniqueBytes,
		weightOf(s.Duplicates), s.DeadPacks, s.DeadBytes, damaged,
	}
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
	bytes("duplicates", r.Duplicates.StoredBytes)
	if r.DeadPacks > 0 {
		fmt.Fprintf(w, "%-16s %d, %s\n", "dead packs", r.DeadPacks, size(r.DeadBytes))
	}
	if len(r.DamagedPacks) > 0 {
		count("damaged packs", uint64(len(r.DamagedPacks)))
	}
	for _, name := range r.DamagedPacks {
		fmt.Fprintf(w, "  packs/%s\n", name)
	}
}

// weight is what some blobs take, in JSON.
type weight struct {
	Blobs       uint64 `json:"blobs"`
	Bytes       uint64 `json:"bytes"`        // before compression
	StoredBytes uint64 `json:"stored_bytes"` // in packs, about
}

func weightOf(w engine.Weight) *weight { return &weight{w.Blobs, w.Bytes, w.Stored} }

// stored is the stored size for people.
func (w *weight) stored() string {
	return fmt.Sprintf("%s (%d bytes, %s)", size(w.StoredBytes), w.StoredBytes, plural(w.Blobs, "blob"))
}

// usageBy says what the lines of a report of usage are.
type usageBy struct {
	kind  string // "snapshot", "source" or "label"
	label string
}

func parseUsageBy(text string) (usageBy, error) {
	key, byLabel := strings.CutPrefix(text, "label:")
	if byLabel && key != "" {
		return usageBy{"label", key}, nil
	}
	if text == "snapshot" || text == "source" {
		return usageBy{kind: text}, nil
	}
	return usageBy{}, &usageError{err: fmt.Errorf("--by=%s is not one of snapshot, source, label:KEY", text)}
}

// withoutLabel names the line of the snapshots that lack the label; the others begin
// with an equals sign.
const withoutLabel = ""

// name names the line that a snapshot belongs to.
func (b usageBy) name(info engine.Info) string {
	switch b.kind {
	case "source":
		return info.Manifest.Source
	case "label":
		value, ok := info.Labels[b.label]
		if !ok {
			return withoutLabel
		}
		return "=" + value
	}
	return info.ID.String()
}
