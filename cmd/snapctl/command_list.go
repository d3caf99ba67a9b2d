package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/manifest"
)

// listOptions are the options of snapctl list.
type listOptions struct {
	choose chooseOptions
	after  string
	before string
	newest int
}

func (o *listOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.after, "after", "", "only snapshots taken after this `time`: 2026-01-31, RFC 3339, or an age such as 2h or 3d")
	f.StringVar(&o.before, "before", "", "only snapshots taken before this `time`")
	f.IntVar(&o.newest, "newest", 0, "only the newest `n`")
	o.choose.addFlags(f)
}

func (o *listOptions) filter(now time.Time) (engine.Filter, error) {
	filter, err := o.choose.filter()
	if err == nil && o.after != "" {
		filter.After, err = parseTime(o.after, now)
	}
	if err == nil && o.before != "" {
		filter.Before, err = parseTime(o.before, now)
	}
	if err == nil && o.newest < 0 {
		err = &usageError{err: fmt.Errorf("--newest=%d is negative", o.newest)}
	}
	filter.Newest = o.newest
	return filter, err
}

func newListCommand(c *cli) *cobra.Command {
	var o listOptions
	cmd := c.command(spec{
		use: "list", group: groupDefault, args: cobra.NoArgs, exits: exitsRepository,
		short:   "list the snapshots of the repository, oldest first",
		example: "  snapctl list\n  snapctl list --label agent=7 --after 3d\n  snapctl list --source /workspace --newest 1 --json",
	}, func(ctx context.Context, _ []string) error { return c.list(ctx, o) })
	o.addFlags(cmd.Flags())
	return cmd
}

func (c *cli) list(ctx context.Context, o listOptions) error {
	filter, err := o.filter(time.Now())
	if err != nil {
		return err
	}
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		infos, err := repo.List(ctx, filter)
		report := listReport{Snapshots: make([]manifestReport, len(infos))}
		for i, info := range infos {
			report.Snapshots[i] = manifestReportOf(info)
		}
		return errors.Join(err, c.printer().print(report))
	})
}

type listReport struct {
	Snapshots []manifestReport `json:"snapshots"`
}

func (r listReport) text(w *bufio.Writer) {
	if len(r.Snapshots) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SNAPSHOT\tTIME\tFILES\tSIZE\tSTATE\tSOURCE\tLABELS")
	for _, s := range r.Snapshots {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", s.Snapshot[:12], shortTime(s.time), s.Files, size(s.Bytes), s.state(), quote(s.Source), labelText(s.Labels))
	}
	table.Flush()
}

// manifestReport is a snapshot as list and show describe it.
type manifestReport struct {
	Snapshot string  `json:"snapshot"`
	Root     string  `json:"root"`
	Links    *string `json:"links"`
	Parent   *string `json:"parent"`
	Time     string  `json:"time"`
	sourceFields
	Labels      map[string]string `json:"labels"`
	Consistency string            `json:"consistency"`
	Files       uint64            `json:"files"`
	Dirs        uint64            `json:"dirs"`
	Symlinks    uint64            `json:"symlinks"`
	Others      uint64            `json:"others"`
	Bytes       uint64            `json:"bytes"`
	Partial     bool              `json:"partial"`
	LeftOut     uint64            `json:"left_out"`
	Unreadable  uint64            `json:"unreadable"`
	Torn        uint64            `json:"torn"`
	Vanished    uint64            `json:"vanished"`
	Tool        string            `json:"tool"`

	time manifest.Time
}

func manifestReportOf(info engine.Info) manifestReport {
	m, n := info.Manifest, info.Manifest.Counts
	labels := info.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return manifestReport{
		Snapshot: info.ID.String(), Root: m.Root.String(), Links: idOrNull(m.Links), Parent: idOrNull(m.Parent),
		Time: stamp(m.Time), sourceFields: sourceOf(m.Source), Labels: labels, Consistency: m.Consistency.String(),
		Files: n.Files, Dirs: n.Dirs, Symlinks: n.Symlinks, Others: n.Others, Bytes: n.Bytes,
		Partial: n.Unreadable > 0 || n.Torn > 0, LeftOut: n.Excluded, Unreadable: n.Unreadable, Torn: n.Torn, Vanished: n.Vanished,
		Tool: m.Tool, time: m.Time,
	}
}

func (r manifestReport) state() string {
	if r.Partial {
		return "partial"
	}
	return r.Consistency
}

// labelText is a set of labels on a line, in the order of keys.
func labelText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, quote(key+"="+labels[key]))
	}
	return strings.Join(parts, " ")
}
