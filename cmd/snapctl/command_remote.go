package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine"
)

func newRemoteCommand(c *cli) *cobra.Command {
	return parent(spec{
		use: "remote", group: groupAdvanced, short: "name the repositories to push to and pull from",
		long:    "The names are kept in the repository, without keys or credentials.",
		example: "  snapctl remote add origin 's3://backups/agents?endpoint=https://minio.example:9000'\n  snapctl push origin",
	}, newRemoteAddCommand(c), newRemoteListCommand(c), newRemoteRemoveCommand(c))
}

func newRemoteAddCommand(c *cli) *cobra.Command {
	return c.command(spec{
		use: "add NAME PLACE", args: cobra.ExactArgs(2), exits: exitsRepository,
		short: "give the place of a repository a name, or a name another place",
		long:  "PLACE is an absolute path, or an s3:// URL. It need not exist yet.",
		example: "  snapctl remote add origin s3://backups/agents\n" +
			"  snapctl remote add disk /mnt/usb/snapshots",
	}, func(ctx context.Context, args []string) error {
		p := place(args[1])
		if err := p.check(); err != nil {
			return err
		}
		switch {
		case p == "":
			return &usageError{err: errors.New("the place is empty"), hint: "give the path of a directory, or an s3:// URL"}
		case p.isURL():
			if _, err := p.bucketOptions(); err != nil {
				return err
			}
		default:
			p = place(resolved(string(p))) // the next command may run elsewhere
		}
		return c.withRepository(ctx, func(repo *engine.Repository) error {
			if err := repo.SetRemote(ctx, engine.Remote{Name: args[0], Place: string(p)}); err != nil {
				return err
			}
			return c.printer().print(remoteReport{args[0], string(p)})
		})
	})
}

func newRemoteListCommand(c *cli) *cobra.Command {
	return c.command(spec{
		use: "list", args: cobra.NoArgs, exits: exitsRepository,
		short: "list the remotes", example: "  snapctl remote list\n  snapctl remote list --json",
	}, func(ctx context.Context, _ []string) error {
		return c.withRepository(ctx, func(repo *engine.Repository) error {
			remotes, err := repo.Remotes(ctx)
			report := remoteListReport{Remotes: make([]remoteReport, len(remotes))}
			for i, r := range remotes {
				report.Remotes[i] = remoteReport(r)
			}
			return errors.Join(err, c.printer().print(report))
		})
	})
}

func newRemoteRemoveCommand(c *cli) *cobra.Command {
	return c.command(spec{
		use: "remove NAME", args: cobra.ExactArgs(1), exits: exitsRepository,
		short:   "forget the name; the repository there stays as it is",
		example: "  snapctl remote remove origin",
	}, func(ctx context.Context, args []string) error {
		return c.withRepository(ctx, func(repo *engine.Repository) error {
			return hintRemotes(repo.RemoveRemote(ctx, args[0]))
		})
	})
}

func hintRemotes(err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return &hinted{err, "`snapctl remote list` shows the remotes, `snapctl remote add` makes one"}
	}
	return err
}

type remoteReport struct {
	Name  string `json:"name"`
	Place string `json:"place"`
}

func (r remoteReport) text(w *bufio.Writer) { fmt.Fprintf(w, "%s\t%s\n", r.Name, quote(r.Place)) }

type remoteListReport struct {
	Remotes []remoteReport `json:"remotes"`
}

func (r remoteListReport) text(w *bufio.Writer) {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, remote := range r.Remotes {
		fmt.Fprintf(table, "%s\t%s\n", remote.Name, quote(remote.Place))
	}
	table.Flush()
}
