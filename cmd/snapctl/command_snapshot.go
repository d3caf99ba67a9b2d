package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/manifest"
)

// treeOptions say what of a directory is saved, or compared.
type treeOptions struct {
	exclude     []string
	excludeFrom []string
	gitIgnore   bool
	cacheDirTag bool
	oneFS       bool
	xattrs      []string
	rescan      bool
	sync        bool
}

func (o *treeOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.exclude, "exclude", "e", nil, "leave out what matches this `pattern`, in the syntax of gitignore (repeatable)")
	f.StringArrayVar(&o.excludeFrom, "exclude-from", nil, "read patterns from a `file`, one a line (repeatable)")
	f.BoolVar(&o.gitIgnore, "gitignore", false, "leave out what .gitignore files name")
	f.BoolVar(&o.cacheDirTag, "cachedir-tag", false, "leave out directories that a CACHEDIR.TAG marks as caches")
	f.BoolVarP(&o.oneFS, "one-file-system", "x", false, "stay on the filesystem of DIR")
	f.StringArrayVar(&o.xattrs, "xattr", nil, "keep this extended attribute too: a `name`, or a prefix that ends with a dot (repeatable)")
	f.BoolVar(&o.rescan, "rescan", false, "read every file, whatever the cache of the last run says")
	f.BoolVar(&o.sync, "sync", false, "flush the filesystem first, so that writes through mappings are seen")
}

func (o *treeOptions) apply(opts *engine.SnapshotOptions) error {
	opts.Exclude = o.exclude
	for _, path := range o.excludeFrom {
		patterns, err := readPatterns(path)
		if err != nil {
			return err
		}
		opts.Exclude = append(opts.Exclude, patterns...)
	}
	opts.GitIgnore, opts.CacheDirTag, opts.OneFS = o.gitIgnore, o.cacheDirTag, o.oneFS
	opts.Xattrs, opts.Rescan, opts.Sync = o.xattrs, o.rescan, o.sync
	return nil
}

// readPatterns returns the patterns in a file, one a line. Blank lines and those
// that begin with # do not count, as in gitignore.
func readPatterns(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read patterns: %w", err)
	}
	var patterns []string
	for line := range bytes.Lines(text) {
		pattern := string(bytes.TrimRight(line, "\r\n"))
		if strings.TrimSpace(pattern) != "" && pattern[0] != '#' {
			patterns = append(patterns, pattern)
		}
	}
	return patterns, nil
}

// snapshotOptions are the options of snapctl snapshot.
type snapshotOptions struct {
	tree          treeOptions
	labels        []string
	source        string
	parent        string
	skipUnchanged bool
	dryRun        bool
	consistency   string
}

func (o *snapshotOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.labels, "label", nil, "give the snapshot a label, `KEY=VALUE` (repeatable)")
	f.StringVar(&o.source, "source", "", "`name` of the workspace in the list, instead of its path")
	f.StringVar(&o.parent, "parent", "", "compare with this `SNAP` instead of the last one of the source")
	f.BoolVar(&o.skipUnchanged, "skip-unchanged", false, "make no snapshot if nothing has changed")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "read and count, write nothing")
	f.StringVar(&o.consistency, "consistency", "live", "how still the workspace stands, in one `word`: quiesced, paused or live")
	o.tree.addFlags(f)
}

func newSnapshotCommand(c *cli) *cobra.Command {
	var o snapshotOptions
	cmd := c.command(spec{
		use: "snapshot DIR", group: groupDefault, args: cobra.ExactArgs(1), exits: exitsPartial,
		short: "save a directory as a snapshot and print its id",
		long: `Only what the repository lacks is stored, and only files that changed since the
last snapshot are read. Files that cannot be read, or that change while they are
read, are named; the snapshot is made without them, or with what was read, and
the exit status is 3.`,
		example: "  snapctl snapshot /workspace\n" +
			"  snapctl snapshot /workspace --label agent=7 --label run=42\n" +
			"  snapctl snapshot /workspace --exclude '*.log' --gitignore --json",
	}, func(ctx context.Context, args []string) error { return c.snapshot(ctx, args[0], o) })
	o.addFlags(cmd.Flags())
	return cmd
}

func (c *cli) snapshot(ctx context.Context, dir string, o snapshotOptions) error {
	opts, err := o.engineOptions(dir)
	if err != nil {
		return err
	}
	if err := checkSource(dir); err != nil {
		return err
	}
	if place, err := c.repoPlace(); err == nil && place.isBelow(resolved(dir)) {
		c.talk.warn("the repository %s lies in %s: each snapshot saves it too; leave it out with --exclude", place, dir)
	}
	return c.withStore(ctx, func(store backing, repo *engine.Repository) error {
		if o.parent != "" {
			if opts.Parent, err = repo.Resolve(ctx, o.parent, engine.Filter{}); err != nil {
				return err
			}
		}
		c.talk.begin("snapshot")
		result, err := repo.Snapshot(ctx, opts)
		c.talk.done()
		if result == nil {
			return err
		}
		if o.dryRun {
			result.Consistency = opts.Consistency
		}
		if !o.dryRun {
			c.tidy(ctx, store)
		}
		c.saySnapshot(result, o.dryRun)
		return errors.Join(err, c.printer().print(snapshotReportOf(result, o.dryRun)))
	}, forSnapshot)
}

func (o *snapshotOptions) engineOptions(dir string) (engine.SnapshotOptions, error) {
	opts := engine.SnapshotOptions{Path: dir, Source: o.source, SkipUnchanged: o.skipUnchanged, DryRun: o.dryRun}
	var err error
	if opts.Labels, err = parseLabels(o.labels); err != nil {
		return opts, err
	}
	opts.Consistency, err = oneOf("--consistency", o.consistency, []string{"quiesced", "paused", "live"},
		[]manifest.Consistency{manifest.Quiesced, manifest.Paused, manifest.Live})
	if err != nil {
		return opts, err
	}
	return opts, o.tree.apply(&opts)
}

// checkSource refuses what is no directory before a repository is opened.
func checkSource(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &hinted{fmt.Errorf("the source does not exist: %w", err), "give the directory to save; nothing was saved"}
	}
	if err == nil && !info.IsDir() {
		return &hinted{fmt.Errorf("the source %s is not a directory", dir), "give the directory that holds it; nothing was saved"}
	}
	return err
}

// snapshotReport is what a snapshot did.
type snapshotReport struct {
	Type        string     `json:"type"`
	Snapshot    *string    `json:"snapshot"` // null: dry run
	Root        string     `json:"root"`
	Parent      *string    `json:"parent"` // null: none
	Files       uint64     `json:"files"`
	Dirs        uint64     `json:"dirs"`
	Symlinks    uint64     `json:"symlinks"`
	Others      uint64     `json:"others"`
	Bytes       uint64     `json:"bytes"`
	ReadFiles   uint64     `json:"read_files"`
	ReadBytes   uint64     `json:"read_bytes"`
	NewBytes    uint64     `json:"new_bytes"`
	NewBlobs    uint64     `json:"new_blobs"`
	StoredBytes uint64     `json:"stored_bytes"`
	Unchanged   bool       `json:"unchanged"`
	Skipped     bool       `json:"skipped"`
	Partial     bool       `json:"partial"`
	Torn        uint64     `json:"torn"`
	Unreadable  uint64     `json:"unreadable"`
	Vanished    uint64     `json:"vanished"`
	LeftOut     uint64     `json:"left_out"`
	Consistency string     `json:"consistency"`
	Omissions   []omission `json:"omissions"`
	DryRun      bool       `json:"dry_run"`
	DurationMS  int64      `json:"duration_ms"`
}

func snapshotReportOf(r *engine.SnapshotResult, dryRun bool) snapshotReport {
	n := r.Counts
	return snapshotReport{
		Type: "summary", Snapshot: idOrNull(r.Snapshot), Root: r.Root.String(), Parent: idOrNull(r.Parent),
		Files: n.Files, Dirs: n.Dirs, Symlinks: n.Symlinks, Others: n.Others, Bytes: n.Bytes,
		ReadFiles: r.ReadFiles, ReadBytes: r.ReadBytes, NewBytes: r.NewBytes, NewBlobs: r.NewBlobs, StoredBytes: r.StoredBytes,
		Unchanged: r.Unchanged, Skipped: r.Skipped, Partial: r.Partial(),
		Torn: n.Torn, Unreadable: n.Unreadable, Vanished: n.Vanished, LeftOut: n.Excluded,
		Consistency: r.Consistency.String(), Omissions: omissionsOf(r.Omissions),
		DryRun: dryRun, DurationMS: r.Duration.Milliseconds(),
	}
}

// idOrNull is an id in JSON, or null for the one that names nothing.
func idOrNull(id engine.ID) *string {
	if id.IsZero() {
		return nil
	}
	s := id.String()
	return &s
}

func (r snapshotReport) text(w *bufio.Writer) {
	if r.Snapshot != nil {
		fmt.Fprintln(w, *r.Snapshot)
	}
}

func (c *cli) saySnapshot(r *engine.SnapshotResult, dryRun bool) {
	var lacking, leftOut []omission
	for _, o := range omissionsOf(r.Omissions) {
		if o.Class == manifest.Excluded.String() {
			leftOut = append(leftOut, o)
		} else {
			lacking = append(lacking, o)
		}
	}
	c.warnOmissions("not saved as it is", lacking, max(uint64(len(lacking)), r.Counts.Unreadable+r.Counts.Torn))
	for _, o := range leftOut {
		c.talk.detail("left out: %s: %s", displayPath(o.raw()), o.Reason)
	}
	if r.Counts.Excluded > 0 {
		c.talk.say("%s left out by rules", plural(r.Counts.Excluded, "path"))
	}
	did := "saved"
	switch {
	case dryRun:
		did = "would save"
	case r.Skipped:
		did = "nothing changed in"
	}
	c.talk.say("%s %s, %s; %s new, %s stored, in %s", did, plural(r.Counts.Files, "file"), size(r.Counts.Bytes), size(r.NewBytes), size(r.StoredBytes), seconds(r.Duration))
}

// maxNamed is how many paths are named one by one without --verbose.
const maxNamed = 50

// warnOmissions names paths that are not as they should be. All is how many
// there are; the list may hold only the first of them.
func (c *cli) warnOmissions(what string, list []omission, all uint64) {
	if !c.globals.verbose && len(list) > maxNamed {
		list = list[:maxNamed]
	}
	for _, o := range list {
		c.talk.warn("%s: %s: %s", what, displayPath(o.raw()), o.Reason)
	}
	if more := all - min(all, uint64(len(list))); more > 0 {
		c.talk.warn("%s: %s more; --verbose and --json name more of them", what, plural(more, "path"))
	}
}
