package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/restore"
)

// restoreOptions are the options of snapctl restore.
type restoreOptions struct {
	choose     chooseOptions
	paths      []string
	delete     bool
	dryRun     bool
	owner      string
	noOwner    bool
	special    string
	privileged bool
	rescan     bool
	sync       bool
}

func (o *restoreOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.paths, "path", nil, "restore only this `path` of the snapshot, and what is below it (repeatable)")
	f.BoolVar(&o.delete, "delete", false, "delete what is in DIR and not in the snapshot")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "print what would be done, do nothing")
	f.StringVar(&o.owner, "owner", "auto", "`who` owns what is restored: stored, caller, or auto, which is stored for root and caller for others")
	f.BoolVar(&o.noOwner, "no-owner", false, "the same as --owner=caller")
	f.StringVar(&o.special, "special", "skip-devices", "`which` FIFOs, sockets and devices are made: skip-devices, all or none")
	f.BoolVar(&o.privileged, "privileged", false, "restore setuid and setgid bits and capabilities")
	f.BoolVar(&o.rescan, "rescan", false, "compare files that are there by content, not by size and time")
	f.BoolVar(&o.sync, "sync", false, "flush what was written to the disk before the command ends")
	o.choose.addFlags(f)
}

func newRestoreCommand(c *cli) *cobra.Command {
	var o restoreOptions
	cmd := c.command(spec{
		use: "restore SNAP DIR", group: groupDefault, args: cobra.ExactArgs(2), exits: exitsPartial,
		short: "bring a snapshot back into a directory",
		long: `What is right already is left alone, so that a second run changes nothing. Files
that the snapshot does not have stay, unless --delete is given. Nothing is ever
written outside of DIR, whatever the snapshot holds.`,
		example: "  snapctl restore latest /workspace\n" +
			"  snapctl restore latest /workspace --label agent=7 --delete --dry-run\n" +
			"  snapctl restore 4f1d0c22 /tmp/look --path src/main.go",
	}, func(ctx context.Context, args []string) error { return c.restore(ctx, args[0], args[1], o) })
	o.addFlags(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("owner", "no-owner")
	return cmd
}

func (c *cli) restore(ctx context.Context, snap, dir string, o restoreOptions) error {
	opts, err := o.engineOptions(dir)
	if err != nil {
		return err
	}
	if err := c.spareRepository(opts); err != nil {
		return err
	}
	return c.withSnapshot(ctx, snap, o.choose, func(repo *engine.Repository, id engine.ID) error {
		if o.dryRun {
			return c.planRestore(ctx, repo, id, opts)
		}
		c.talk.begin("restore")
		result, err := repo.Restore(ctx, id, opts)
		c.talk.done()
		if result == nil {
			return err
		}
		report := restoreReportOf(result)
		c.sayRestore(report, result.Duration)
		return errors.Join(err, c.printer().print(report))
	})
}

// spareRepository refuses to write into the repository, and to delete a
// directory that holds it or an identity that opens it: that would end with every
// snapshot gone.
func (c *cli) spareRepository(opts engine.RestoreOptions) error {
	place, err := c.repoPlace()
	if err != nil {
		return err
	}
	target := resolved(opts.Target)
	scopes := []string{target}
	if len(opts.Paths) > 0 {
		scopes = nil
	}
	for _, p := range opts.Paths {
		scopes = append(scopes, filepath.Join(target, p))
	}
	for _, scope := range scopes {
		switch {
		case place.isAround(scope):
			return &hinted{err: fmt.Errorf("%s is inside of the repository %s", opts.Target, place), hint: "restore into another directory; nothing was done"}
		case opts.Delete && place.isBelow(scope):
			return &hinted{err: fmt.Errorf("--delete would delete the repository %s, which is inside of %s", place, opts.Target), hint: "move the repository, or restore without --delete; nothing was done"}
		case opts.Delete && c.holdsIdentity(scope):
			return &hinted{err: fmt.Errorf("--delete would delete an identity that opens the repository, which is inside of %s", opts.Target), hint: "move the identity, or restore without --delete; nothing was done"}
		}
	}
	return nil
}

// holdsIdentity tells whether an identity file lies in the directory.
func (c *cli) holdsIdentity(dir string) bool {
	files := c.identityFiles(c.globals.keys)
	if path, err := c.identityPath(); err == nil {
		files = append(slices.Clone(files), path)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		_, err := os.Lstat(file)
		return err == nil && beneath(resolved(file), dir)
	})
}

// resolved returns the absolute path behind symbolic links, as far as it exists.
func resolved(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	if parent := filepath.Dir(abs); parent != abs {
		return filepath.Join(resolved(parent), filepath.Base(abs))
	}
	return abs
}

// beneath tells if path is dir or below it.
func beneath(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func (o *restoreOptions) engineOptions(dir string) (engine.RestoreOptions, error) {
	opts := engine.RestoreOptions{
		Target: dir, Paths: o.paths, Delete: o.delete,
		Rescan: o.rescan, Privileged: o.privileged, Sync: o.sync,
	}
	for _, p := range o.paths {
		if p == "" || slices.Contains(strings.Split(p, "/"), "..") {
			return opts, &usageError{err: fmt.Errorf("--path=%s is not a path of a snapshot", p)}
		}
	}
	if o.noOwner {
		o.owner = "caller"
	}
	var err error
	opts.Owner, err = oneOf("--owner", o.owner, []string{"auto", "stored", "caller"},
		[]engine.OwnerPolicy{engine.OwnerAuto, engine.OwnerStored, engine.OwnerCaller})
	if err != nil {
		return opts, err
	}
	opts.Special, err = oneOf("--special", o.special, []string{"skip-devices", "all", "none"},
		[]engine.SpecialPolicy{engine.SpecialSkipDevices, engine.SpecialAll, engine.SpecialNone})
	return opts, err
}

// restoreReport is the receipt.
type restoreReport struct {
	Type         string     `json:"type"`
	Snapshot     string     `json:"snapshot"`
	Root         string     `json:"root"`
	Time         string     `json:"time"`        // when the snapshot was taken
	AgeSeconds   int64      `json:"age_seconds"` // between then and now
	Files        uint64     `json:"files"`
	Dirs         uint64     `json:"dirs"`
	Symlinks     uint64     `json:"symlinks"`
	Others       uint64     `json:"others"`
	Bytes        uint64     `json:"bytes"`
	Created      uint64     `json:"created"`
	Updated      uint64     `json:"updated"`
	Fixed        uint64     `json:"fixed"` // only owner, mode, xattrs or time
	Unchanged    uint64     `json:"unchanged"`
	Deleted      uint64     `json:"deleted"`
	WrittenBytes uint64     `json:"written_bytes"`
	Partial      bool       `json:"partial"`
	FailedCount  uint64     `json:"failed_count"`
	Failed       []omission `json:"failed"` // the first of them
	SkippedCount uint64     `json:"skipped_count"`
	Skipped      []omission `json:"skipped"` // the first of them
	DurationMS   int64      `json:"duration_ms"`
}

func restoreReportOf(r *engine.RestoreResult) restoreReport {
	report := restoreReport{
		Type: "summary", Snapshot: r.Snapshot.String(), Root: r.Root.String(),
		Time: r.Taken.UTC().Format(time.RFC3339Nano), AgeSeconds: int64(r.Age.Seconds()),
		Files: r.Files, Dirs: r.Dirs, Symlinks: r.Symlinks, Others: r.Others, Bytes: r.Bytes,
		Created: r.Created, Updated: r.Updated, Fixed: r.Fixed, Unchanged: r.Unchanged, Deleted: r.Deleted,
		WrittenBytes: r.WrittenBytes, Partial: r.FailedCount > 0,
		FailedCount: r.FailedCount, Failed: []omission{}, SkippedCount: r.SkippedCount, Skipped: []omission{},
		DurationMS: r.Duration.Milliseconds(),
	}
	for _, f := range r.Failed {
		report.Failed = append(report.Failed, omission{pathOf(f.Path), "failed", f.Err.Error()})
	}
	for _, s := range r.Skipped {
		report.Skipped = append(report.Skipped, omission{pathOf(s.Path), "skipped", s.Reason})
	}
	return report
}

func (restoreReport) text(*bufio.Writer) {} // the files are the data

func (c *cli) sayRestore(r restoreReport, took time.Duration) {
	c.warnOmissions("not restored", r.Failed, r.FailedCount)
	c.warnOmissions("left out", r.Skipped, r.SkippedCount)
	c.talk.say("restored %s of %s: %d created, %d updated, %d fixed, %d unchanged, %d deleted, %s written, in %s", plural(r.Files, "file"), r.Snapshot[:12],
		r.Created, r.Updated, r.Fixed, r.Unchanged, r.Deleted, size(r.WrittenBytes), seconds(took))
}

// actionReport is one step of a plan.
type actionReport struct {
	Type   string `json:"type"`
	Action string `json:"action"`
	pathFields
	Kind   string `json:"kind"`
	Bytes  uint64 `json:"bytes"`
	Reason string `json:"reason,omitempty"`
}

func (r actionReport) text(w *bufio.Writer) {
	fmt.Fprintf(w, "%-8s %s", r.Action, displayPath(r.raw()))
	if r.Reason != "" {
		fmt.Fprintf(w, " (%s)", printable(r.Reason))
	}
	fmt.Fprintln(w)
}

// planSummary counts the steps of a plan.
type planSummary struct {
	Type     string            `json:"type"`
	DryRun   bool              `json:"dry_run"`
	Snapshot string            `json:"snapshot"`
	Actions  map[string]uint64 `json:"actions"` // how many of each kind
	Bytes    uint64            `json:"bytes"`
}

func (planSummary) text(*bufio.Writer) {}

// counts are the actions for people, as in "2 create, 1 delete".
func (s planSummary) counts() string {
	var counts []string
	for _, action := range slices.Sorted(maps.Keys(s.Actions)) {
		counts = append(counts, fmt.Sprintf("%d %s", s.Actions[action], action))
	}
	if len(counts) == 0 {
		return "nothing to do"
	}
	return strings.Join(counts, ", ") + "; " + size(s.Bytes)
}

// planRestore prints what a restore would do.
func (c *cli) planRestore(ctx context.Context, repo *engine.Repository, id engine.ID, opts engine.RestoreOptions) error {
	p := c.printer()
	summary := planSummary{Type: "summary", DryRun: true, Snapshot: id.String(), Actions: map[string]uint64{}}
	err := repo.PlanRestore(ctx, id, opts, func(change engine.RestoreChange) error {
		action := change.Action.String()
		summary.Actions[action]++
		summary.Bytes += change.Bytes
		return p.print(actionReport{"action", action, pathOf(change.Path), change.Kind.String(), change.Bytes, change.Reason})
	})
	if err != nil {
		return err
	}
	c.talk.say("nothing was done: this was a dry run; %s", summary.counts())
	if err := p.print(summary); err != nil {
		return err
	}
	if n := summary.Actions[restore.Conflict.String()]; n > 0 {
		return fmt.Errorf("%w: %s could not be restored", engine.ErrPartial, plural(n, "path"))
	}
	return nil
}
