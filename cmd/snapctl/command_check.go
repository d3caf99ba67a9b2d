package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/verified"
)

func newCheckCommand(c *cli) *cobra.Command {
	var readData string
	var store bool
	var cmd *cobra.Command
	cmd = c.command(spec{
		use: "check [SNAP]...", group: groupDefault, args: cobra.ArbitraryArgs, exits: exitsRepository,
		short: "verify that everything that snapshots need is there and whole",
		long: `Without --read-data it is checked that the objects are there and have the right
sizes, and every directory is read. With it, files are read too, decrypted and
compared with their ids; with a share or a number of bytes, the part of the
repository that was never read, or for which it is longest ago. The repository
keeps a record of what was read when, so that a part every day comes round to all.

Damage is named, with the files that it affects, and the exit status is 13.
Damaged packs are marked in the repository, so that the next snapshot of a
workspace stores again what they held of it. What only costs space is named too.

With --store nothing of that is done: it is tried what the store guarantees, with
small objects that are removed again, and recorded.`,
		example: "  snapctl check\n  snapctl check --read-data\n  snapctl check --read-data=5% --json\n  snapctl check --read-data=20GiB\n  snapctl check --store",
	}, func(ctx context.Context, args []string) error {
		if store {
			return c.checkStore(ctx)
		}
		if cmd.Flags().Changed("read-data") && readData == "" { // a variable that was not set
			return &usageError{err: errors.New("--read-data= says no part"), hint: "write --read-data for all, or a share such as --read-data=5%"}
		}
		return c.check(ctx, args, readData)
	})
	cmd.Flags().StringVar(&readData, "read-data", "", "read this `part` of the packs whole, such as 5% or 20GiB; all if none is given")
	cmd.Flags().Lookup("read-data").NoOptDefVal = "100%"
	cmd.Flags().BoolVar(&store, "store", false, "try what the store guarantees, and look at nothing else")
	cmd.MarkFlagsMutuallyExclusive("store", "read-data")
	return cmd
}

// parseReadData reads a share such as 5%, or a number of bytes with a unit.
func parseReadData(text string) (opts engine.CheckOptions, err error) {
	if text == "" {
		return opts, nil
	}
	if strings.HasSuffix(text, "%") {
		opts.ReadData, err = parseShare(text)
		return opts, err
	}
	opts.ReadBytes, err = parseSize(text)
	if err != nil || opts.ReadBytes == 0 || !hasUnit(text) {
		return opts, &usageError{err: fmt.Errorf("--read-data: %q is no part of a repository", text), hint: "write a share such as 5%, or a number of bytes with its unit, such as 20GiB"}
	}
	return opts, nil
}

// hasUnit reports whether a number of bytes says what it counts.
func hasUnit(text string) bool { return strings.Trim(text, "0123456789.") != "" }

func (c *cli) check(ctx context.Context, snaps []string, readData string) error {
	opts, err := parseReadData(readData)
	if err != nil {
		return err
	}
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		if opts.Snapshots, err = resolveAll(ctx, repo, snaps); err != nil {
			return err
		}
		c.talk.begin("check")
		report, err := repo.Check(ctx, opts)
		c.talk.done()
		if report == nil {
			return err
		}
		if err != nil && errors.Is(err, engine.ErrDamaged) {
			err = &hinted{err, hintProblems(report.Problems)}
		}
		return errors.Join(err, c.printCheck(report, readData != ""))
	})
}

// resolveAll finds the snapshots of a check. A part of the repository may have been
// meant for --read-data.
func resolveAll(ctx context.Context, repo *engine.Repository, snaps []string) (ids []engine.ID, err error) {
	for _, snap := range snaps {
		if _, sizeErr := parseSize(snap); strings.HasSuffix(snap, "%") || sizeErr == nil && hasUnit(snap) && len(snap) < engine.MinPrefix {
			return nil, &usageError{err: fmt.Errorf("%q is no snapshot", snap), hint: "the part stands behind an equals sign: --read-data=" + snap}
		}
		id, err := repo.Resolve(ctx, snap, engine.Filter{})
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// hintProblems says what to do about damage: what loses nothing first.
func hintProblems(problems []engine.Problem) string {
	var steps []string
	add := func(step string) {
		if !slices.Contains(steps, step) {
			steps = append(steps, step)
		}
	}
	for _, p := range problems {
		switch {
		case p.Harmless:
		case p.What == engine.Unindexed || strings.HasPrefix(p.Object, "index/"):
			add("run `snapctl repair index`")
		case strings.HasPrefix(p.Object, "pending/"):
			add("run `snapctl repair sessions`")
		case strings.HasPrefix(p.Object, "gc/") && strings.HasSuffix(p.Object, "/final"):
			add(hintLists)
		case strings.HasPrefix(p.Object, "gc/"):
			add("run `snapctl gc`")
		case strings.HasPrefix(p.Object, "labels/"):
			add("run `snapctl repair snapshots`")
		case strings.HasPrefix(p.Object, "packs/"), strings.Contains(p.Object, "blob "), strings.HasPrefix(p.Object, "snapshots/"):
			add("take a new snapshot of the workspace, or push from a copy: that brings back what they hold; then `snapctl repair packs` saves what can be read, and `snapctl repair snapshots` gives up the rest")
		}
	}
	return strings.Join(append([]string{"what is not named is whole"}, steps...), "; ")
}

func (c *cli) printCheck(r *engine.CheckReport, readData bool) error {
	p := c.printer()
	harmful := 0
	for _, problem := range r.Problems {
		if !problem.Harmless {
			harmful++
		}
		if err := p.print(problemReportOf(problem)); err != nil {
			return err
		}
	}
	summary := checkSummary{
		Type: "summary", Snapshots: r.Snapshots, Packs: r.Packs, Segments: r.Segments, Trees: r.Trees, Blobs: r.Blobs,
		ReadPacks: r.ReadPacks, ReadBytes: r.ReadBytes, Problems: len(r.Problems), Damage: harmful,
		Verified: verifiedReportOf(r.Verified), DurationMS: r.Duration.Milliseconds(),
	}
	for _, d := range r.Duplicates {
		summary.DuplicateBlobs += d.Blobs
		summary.DuplicateBytes += d.Bytes
		if !c.globals.json && !c.talk.verbose {
			continue
		}
		if err := p.print(duplicateReport{"duplicate", d.Object, d.Blobs, d.Bytes}); err != nil {
			return err
		}
	}
	if err := c.out.Flush(); err != nil { // people read what is wrong before the sum of it
		return err
	}
	c.talk.say("checked %s, %s, %s, %s read, in %s: %s", plural(r.Snapshots, "snapshot"), plural(r.Packs, "pack"), plural(r.Blobs, "blob"),
		size(r.ReadBytes), seconds(r.Duration), verdict(len(r.Problems), harmful))
	if summary.DuplicateBlobs > 0 {
		c.talk.say("%s of %s are stored more than once, and lose nothing", plural(summary.DuplicateBlobs, "blob"), size(summary.DuplicateBytes))
	}
	if readData {
		c.talk.say("%s", verifiedText(r.Verified))
	}
	return p.print(summary)
}

func verdict(problems, harmful int) string {
	switch {
	case problems == 0:
		return "no problems"
	case harmful == 0:
		return plural(uint64(problems), "problem") + ", none of which affects a snapshot"
	}
	return fmt.Sprintf("%s, %d of which have to be mended", plural(uint64(problems), "problem"), harmful)
}

// problemReport is something that is not as it should be.
type problemReport struct {
	Type     string         `json:"type"`
	Object   string         `json:"object"`
	What     string         `json:"what"`
	Error    string         `json:"error"`
	Harmless bool           `json:"harmless"`
	Affected []affectedPath `json:"affected,omitempty"`
	More     uint64         `json:"more_affected,omitempty"` // beyond those
}

type affectedPath struct {
	Snapshot string `json:"snapshot"`
	pathFields
}

func problemReportOf(p engine.Problem) problemReport {
	r := problemReport{Type: "problem", Object: p.Object, What: string(p.What), Harmless: p.Harmless, More: p.MoreAffected}
	if p.Err != nil {
		r.Error = p.Err.Error()
	}
	for _, a := range p.Affected {
		r.Affected = append(r.Affected, affectedPath{a.Snapshot.String(), pathOf(a.Path)})
	}
	return r
}

func (r problemReport) text(w *bufio.Writer) {
	fmt.Fprintf(w, "%s %s", r.What, quote(r.Object))
	if r.Error != "" {
		why := strings.TrimPrefix(r.Error, r.Object+": ") // it is on this line
		fmt.Fprintf(w, ": %s", printable(strings.ReplaceAll(why, "\n", "; ")))
	}
	if r.Harmless {
		w.WriteString(" (no snapshot is affected)")
	}
	fmt.Fprintln(w)
	for _, a := range r.Affected {
		fmt.Fprintf(w, "  %s %s\n", a.Snapshot[:12], displayPath(a.raw()))
	}
	if r.More > 0 {
		fmt.Fprintf(w, "  and %s more\n", plural(r.More, "path"))
	}
}

// duplicateReport is a pack with blobs that other packs hold too.
type duplicateReport struct {
	Type   string `json:"type"`
	Object string `json:"object"`
	Blobs  uint64 `json:"blobs"`
	Bytes  uint64 `json:"bytes"` // of their plaintext
}

func (r duplicateReport) text(w *bufio.Writer) {
	fmt.Fprintf(w, "duplicated %s: %s, %s (loses nothing)\n", r.Object, plural(r.Blobs, "blob"), size(r.Bytes))
}

type checkSummary struct {
	Type           string         `json:"type"`
	Snapshots      uint64         `json:"snapshots"`
	Packs          uint64         `json:"packs"`
	Segments       uint64         `json:"segments"`
	Trees          uint64         `json:"trees"`
	Blobs          uint64         `json:"blobs"`
	ReadPacks      uint64         `json:"read_packs"`
	ReadBytes      uint64         `json:"read_bytes"`
	Problems       int            `json:"problems"`
	Damage         int            `json:"damage"` // problems that lose data
	DuplicateBlobs uint64         `json:"duplicate_blobs"`
	DuplicateBytes uint64         `json:"duplicate_bytes"`
	Verified       verifiedReport `json:"verified"`
	DurationMS     int64          `json:"duration_ms"`
}

func (checkSummary) text(*bufio.Writer) {}

// verifiedReport says how much of the repository was read whole how recently.
type verifiedReport struct {
	Packs      uint64           `json:"packs"` // of the repository
	Bytes      uint64           `json:"bytes"`
	Within     []verifiedWithin `json:"within"`
	NeverPacks uint64           `json:"never_packs"`
	NeverBytes uint64           `json:"never_bytes"`
	Oldest     *time.Time       `json:"oldest"` // null: no pack was ever read
}

type verifiedWithin struct {
	Hours int64  `json:"hours"`
	Packs uint64 `json:"packs"`
	Bytes uint64 `json:"bytes"`
}

func verifiedReportOf(v engine.Coverage) verifiedReport {
	r := verifiedReport{Packs: v.Packs, Bytes: v.Bytes, NeverPacks: v.Never.Packs, NeverBytes: v.Never.Bytes}
	for i, window := range verified.Windows {
		r.Within = append(r.Within, verifiedWithin{int64(window.Hours()), v.Within[i].Packs, v.Within[i].Bytes})
	}
	if !v.Oldest.IsZero() {
		r.Oldest = &v.Oldest
	}
	return r
}

// verifiedText says the same in a line.
func verifiedText(v engine.Coverage) string {
	if v.Packs == 0 {
		return "there is nothing to read"
	}
	var parts []string
	for i, window := range verified.Windows {
		if i == 0 || v.Within[i] != v.Within[i-1] {
			parts = append(parts, fmt.Sprintf("%s within %s", share(v.Within[i].Bytes, v.Bytes), plural(uint64(window.Hours()/24), "day")))
		}
	}
	text := "of the bytes in packs were read and whole: " + strings.Join(parts, ", ")
	if v.Never.Packs > 0 {
		text += fmt.Sprintf("; never: %s of %s", plural(v.Never.Packs, "pack"), size(v.Never.Bytes))
	}
	return text
}

// share is a part of a whole for people: 100% is all of it, nothing less.
func share(part, all uint64) string {
	if all == 0 || part >= all {
		return "100%"
	}
	return fmt.Sprintf("%.1f%%", float64(min(part*1000/all, 999))/10)
}
