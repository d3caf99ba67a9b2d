package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine"
)

func newLabelCommand(c *cli) *cobra.Command {
	var choose chooseOptions
	var remove []string
	cmd := c.command(spec{
		use: "label SNAP [KEY=VALUE]...", group: groupDefault, args: cobra.MinimumNArgs(1), exits: exitsRepository,
		short:   "show the labels of a snapshot, or change them",
		example: "  snapctl label latest\n  snapctl label 4f1d0c22 keep=yes stage=tested\n  snapctl label 4f1d0c22 --remove stage",
	}, func(ctx context.Context, args []string) error { return c.label(ctx, args[0], choose, args[1:], remove) })
	cmd.Flags().StringArrayVar(&remove, "remove", nil, "take away the label with this `key` (repeatable)")
	choose.addFlags(cmd.Flags())
	return cmd
}

func (c *cli) label(ctx context.Context, snap string, choose chooseOptions, assignments, remove []string) error {
	set, err := parseLabels(assignments)
	if err != nil {
		return err
	}
	for _, key := range remove {
		if _, both := set[key]; both {
			return &usageError{err: fmt.Errorf("label %q is both set and removed", key)}
		}
	}
	return c.withSnapshot(ctx, snap, choose, func(repo *engine.Repository, id engine.ID) error {
		labels, err := c.changeLabels(ctx, repo, id, set, remove)
		if err != nil {
			return err
		}
		return c.printer().print(labelReport{id.String(), labels})
	})
}

func (c *cli) changeLabels(ctx context.Context, repo *engine.Repository, id engine.ID, set map[string]string, remove []string) (map[string]string, error) {
	info, err := repo.Show(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, key := range remove {
		if _, ok := info.Labels[key]; !ok {
			return nil, &hinted{fmt.Errorf("snapshot %s has no label %q; nothing was changed", shortID(id), key), "`snapctl label " + shortID(id) + "` shows its labels"}
		}
	}
	if len(set)+len(remove) == 0 {
		return info.Labels, nil
	}
	return repo.Label(ctx, id, set, remove)
}

// labelReport is the labels in force.
type labelReport struct {
	Snapshot string            `json:"snapshot"`
	Labels   map[string]string `json:"labels"`
}

func (r labelReport) text(w *bufio.Writer) {
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		fmt.Fprintln(w, quote(key+"="+r.Labels[key]))
	}
}
