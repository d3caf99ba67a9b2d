package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine"
)

func newShowCommand(c *cli) *cobra.Command {
	var choose chooseOptions
	cmd := c.command(spec{
		use: "show SNAP", group: groupDefault, args: cobra.ExactArgs(1), exits: exitsRepository,
		short:   "show what a snapshot says about itself, and what it lacks",
		example: "  snapctl show latest\n  snapctl show 4f1d0c22 --json",
	}, func(ctx context.Context, args []string) error {
		return c.withSnapshot(ctx, args[0], choose, func(repo *engine.Repository, id engine.ID) error {
			info, err := repo.Show(ctx, id)
			if err != nil {
				return err
			}
			return c.printer().print(showReport{manifestReportOf(info), omissionsOf(info.Manifest.Omissions)})
		})
	})
	choose.addFlags(cmd.Flags())
	return cmd
}

// showReport is a manifest with its omissions.
type showReport struct {
	manifestReport
	Omissions []omission `json:"omissions"`
}

func (r showReport) text(w *bufio.Writer) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	row("snapshot", "%s", r.Snapshot)
	row("root", "%s", r.Root)
	if r.Parent != nil {
		row("parent", "%s", *r.Parent)
	}
	row("time", "%s", r.Time)
	row("source", "%s", quote(r.Source))
	row("labels", "%s", labelText(r.Labels))
	row("consistency", "%s", r.Consistency)
	row("holds", "%s, %d directories, %s, %d others, %s", plural(r.Files, "file"), r.Dirs, plural(r.Symlinks, "symlink"), r.Others, size(r.Bytes))
	row("lacks", "%d left out by rules, %d unreadable, %d torn, %d vanished", r.LeftOut, r.Unreadable, r.Torn, r.Vanished)
	row("tool", "%s", quote(r.Tool))
	for _, o := range r.Omissions {
		row(o.Class, "%s: %s", quote(o.raw()), printable(o.Reason))
	}
}
