package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
)

// diffOptions are the options of snapctl diff.
type diffOptions struct {
	choose chooseOptions
	tree   treeOptions
	times  bool
	path   string
	stat   bool
}

func (o *diffOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.times, "times", false, "report entries of which only the modification time differs")
	f.StringVar(&o.path, "path", "", "compare only what is below this `path`")
	f.BoolVar(&o.stat, "stat", false, "print only how much differs")
	o.choose.addFlags(f)
	o.tree.addFlags(f)
}

func newDiffCommand(c *cli) *cobra.Command {
	var o diffOptions
	cmd := c.command(spec{
		use: "diff A [B|DIR]", group: groupDefault, args: cobra.RangeArgs(1, 2), exits: exitsPartial,
		short: "show what differs between two snapshots, or a snapshot and a directory",
		long: `With one snapshot it is compared with its parent. The second argument is a
snapshot if it looks like a SNAP, and a directory otherwise: write ./latest for a
directory of that name. Lines begin with + for what only the second has, - for
what only the first has, and M for what differs. Equal subtrees cost nothing.
The options from --exclude on say what of a directory is compared.`,
		example: "  snapctl diff latest\n  snapctl diff 4f1d0c22 latest --path src\n  snapctl diff latest /workspace --stat",
	}, func(ctx context.Context, args []string) error { return c.diff(ctx, args, o) })
	o.addFlags(cmd.Flags())
	return cmd
}

var snapSyntax = regexp.MustCompile(`^(latest|[0-9a-f]{6,64})$`)

func (c *cli) diff(ctx context.Context, args []string, o diffOptions) error {
	return c.withSnapshot(ctx, args[0], o.choose, func(repo *engine.Repository, first engine.ID) error {
		p := c.printer()
		opts := engine.DiffOptions{Times: o.times, Path: o.path}
		visit := func(change engine.Change) error {
			if o.stat {
				return nil
			}
			return p.print(changeReportOf(change, o.times))
		}
		stats, err := c.compare(ctx, repo, first, args[1:], o, opts, visit)
		if err != nil && !errors.Is(err, engine.ErrPartial) {
			return err
		}
		return errors.Join(err, p.print(diffSummaryOf(stats, o.stat)))
	})
}

// compare picks the two sides.
func (c *cli) compare(ctx context.Context, repo *engine.Repository, first engine.ID, rest []string, o diffOptions, opts engine.DiffOptions, visit func(engine.Change) error) (engine.DiffStats, error) {
	if len(rest) == 0 {
		info, err := repo.Show(ctx, first)
		if err != nil {
			return engine.DiffStats{}, err
		}
		if info.Manifest.Parent.IsZero() {
			return engine.DiffStats{}, &usageError{err: fmt.Errorf("snapshot %s has no parent to compare it with", shortID(first)), hint: "name a second snapshot or a directory"}
		}
		return repo.Diff(ctx, info.Manifest.Parent, first, opts, visit)
	}
	if !snapSyntax.MatchString(rest[0]) {
		if err := checkSource(rest[0]); err != nil {
			return engine.DiffStats{}, err
		}
		tree := engine.SnapshotOptions{Path: rest[0]}
		if err := o.tree.apply(&tree); err != nil {
			return engine.DiffStats{}, err
		}
		return repo.DiffDir(ctx, first, tree, opts, visit)
	}
	filter, err := o.choose.filter()
	if err != nil {
		return engine.DiffStats{}, err
	}
	second, err := repo.Resolve(ctx, rest[0], filter)
	if err != nil {
		return engine.DiffStats{}, err
	}
	return repo.Diff(ctx, first, second, opts, visit)
}

// changeReport is one difference.
type changeReport struct {
	Type   string `json:"type"`
	Action string `json:"action"`
	pathFields
	Kind     string   `json:"kind"` // of the new entry, or of the removed one
	OldKind  string   `json:"old_kind,omitempty"`
	What     []string `json:"what,omitempty"` // of a changed entry
	OldBytes uint64   `json:"old_bytes"`      // size of the old file
	NewBytes uint64   `json:"new_bytes"`      // size of the new file
}

// changeReportOf leaves a differing time out unless it was asked for: whatever is
// written has another time.
func changeReportOf(c engine.Change, times bool) changeReport {
	c.Aspects.Time = c.Aspects.Time && times
	r := changeReport{Type: "change", Action: string(c.Action), pathFields: pathOf(c.Path), What: c.Aspects.Names()}
	if c.Old != nil {
		r.Kind, r.OldKind, r.OldBytes = c.Old.Kind.String(), c.Old.Kind.String(), c.Old.Size
	}
	if c.New != nil {
		r.Kind, r.NewBytes = c.New.Kind.String(), c.New.Size
	}
	return r
}

var diffMarks = map[string]string{"added": "+", "removed": "-", "changed": "M"}

func (r changeReport) text(w *bufio.Writer) {
	fmt.Fprintf(w, "%s %s", diffMarks[r.Action], displayPath(r.raw()))
	if r.Kind == "dir" {
		w.WriteString("/")
	}
	if len(r.What) > 0 {
		fmt.Fprintf(w, " (%s)", strings.Join(r.What, ", "))
	}
	fmt.Fprintln(w)
}

// diffSummary says how much differs.
type diffSummary struct {
	Type         string `json:"type"`
	Added        uint64 `json:"added"`
	Removed      uint64 `json:"removed"`
	Changed      uint64 `json:"changed"`
	AddedBytes   uint64 `json:"added_bytes"`
	RemovedBytes uint64 `json:"removed_bytes"`
	SkippedTrees uint64 `json:"skipped_trees"`

	stat bool
}

func diffSummaryOf(s engine.DiffStats, stat bool) diffSummary {
	return diffSummary{"summary", s.Added, s.Removed, s.Changed, s.AddedBytes, s.RemovedBytes, s.SkippedTrees, stat}
}

func (r diffSummary) text(w *bufio.Writer) {
	if r.stat {
		fmt.Fprintf(w, "%d added, %d removed, %d changed; %s more, %s less\n", r.Added, r.Removed, r.Changed, size(r.AddedBytes), size(r.RemovedBytes))
	}
}
