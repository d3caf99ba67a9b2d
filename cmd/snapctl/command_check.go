package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine"
)

func newCheckCommand(c *cli) *cobra.Command {
	var readData string
	var store bool
	cmd := c.command(spec{
		use: "check [SNAP]...", group: groupDefault, args: cobra.ArbitraryArgs, exits: exitsRepository,
		short: "verify that everything that snapshots need is there and whole",
		long: `Without --read-data it is checked that the objects are there and have the right
sizes, and every directory is read. With it, files are read too, decrypted and
compared with their ids. Damage is named, with the files that it affects, and the
exit status is 13. Damaged packs are marked in the repository, so that the next
snapshot of a workspace stores again what they held of it.

With --store nothing of that is done: it is tried what the store guarantees, with
small objects that are removed again, and recorded.`,
		example: "  snapctl check\n  snapctl check --read-data\n  snapctl check --read-data=10% --json\n  snapctl check --store",
	}, func(ctx context.Context, args []string) error {
		if store {
			return c.checkStore(ctx)
		}
		return c.check(ctx, args, readData)
	})
	cmd.Flags().StringVar(&readData, "read-data", "", "read this `share` of the packs whole, such as 10%; all if none is given")
	cmd.Flags().Lookup("read-data").NoOptDefVal = "100%"
	cmd.Flags().BoolVar(&store, "store", false, "try what the store guarantees, and look at nothing else")
	cmd.MarkFlagsMutuallyExclusive("store", "read-data")
	return cmd
}

func (c *cli) check(ctx context.Context, snaps []string, readData string) error {
	var opts engine.CheckOptions
	if readData != "" {
		share, err := parseShare(readData)
		if err != nil {
			return err
		}
		opts.ReadData = share
	}
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		for _, snap := range snaps {
			if strings.HasSuffix(snap, "%") {
				return &usageError{err: fmt.Errorf("%q is no snapshot", snap), hint: "the share stands behind an equals sign: --read-data=" + snap}
			}
			id, err := repo.Resolve(ctx, snap, engine.Filter{})
			if err != nil {
				return err
			}
			opts.Snapshots = append(opts.Snapshots, id)
		}
		c.talk.begin("check")
		report, err := repo.Check(ctx, opts)
		c.talk.done()
		if report == nil {
			return err
		}
		if err != nil && errors.Is(err, engine.ErrDamaged) {
			err = &hinted{err, "what is not named is whole: restore it with --path; damaged files come back from another copy of the repository, or a new snapshot of the workspace"}
		}
		return errors.Join(err, c.printCheck(report))
	})
}

func (c *cli) printCheck(r *engine.CheckReport) error {
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
	c.talk.say("checked %s, %s, %s, %s read, in %s: %s", plural(r.Snapshots, "snapshot"), plural(r.Packs, "pack"), plural(r.Blobs, "blob"),
		size(r.ReadBytes), seconds(r.Duration), verdict(len(r.Problems), harmful))
	return p.print(checkSummary{
		Type: "summary", Snapshots: r.Snapshots, Packs: r.Packs, Segments: r.Segments, Trees: r.Trees, Blobs: r.Blobs,
		ReadPacks: r.ReadPacks, ReadBytes: r.ReadBytes, Problems: len(r.Problems), Damage: harmful, DurationMS: r.Duration.Milliseconds(),
	})
}

func verdict(problems, harmful int) string {
	switch {
	case problems == 0:
		return "no problems"
	case harmful == 0:
		return plural(uint64(problems), "problem") + ", none of which loses anything"
	}
	return fmt.Sprintf("%s, %d with loss of data", plural(uint64(problems), "problem"), harmful)
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
		fmt.Fprintf(w, ": %s", printable(strings.ReplaceAll(r.Error, "\n", "; ")))
	}
	if r.Harmless {
		w.WriteString(" (loses nothing)")
	}
	fmt.Fprintln(w)
	for _, a := range r.Affected {
		fmt.Fprintf(w, "  %s %s\n", a.Snapshot[:12], displayPath(a.raw()))
	}
	if r.More > 0 {
		fmt.Fprintf(w, "  and %s more\n", plural(r.More, "path"))
	}
}

type checkSummary struct {
	Type       string `json:"type"`
	Snapshots  uint64 `json:"snapshots"`
	Packs      uint64 `json:"packs"`
	Segments   uint64 `json:"segments"`
	Trees      uint64 `json:"trees"`
	Blobs      uint64 `json:"blobs"`
	ReadPacks  uint64 `json:"read_packs"`
	ReadBytes  uint64 `json:"read_bytes"`
	Problems   int    `json:"problems"`
	Damage     int    `json:"damage"` // problems that lose data
	DurationMS int64  `json:"duration_ms"`
}

func (checkSummary) text(*bufio.Writer) {}
