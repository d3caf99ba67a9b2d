package main

import (
	"bufio"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine"
)

func newRepairCommand(c *cli) *cobra.Command {
	index := c.command(spec{
		use: "index", args: cobra.NoArgs, exits: exitsRepository,
		short:   "build the index anew from the packs",
		example: "  snapctl repair index",
	}, func(ctx context.Context, _ []string) error { return c.repairIndex(ctx) })
	return parent(spec{use: "repair", group: groupAdvanced, short: "repair what can be built anew", example: "  snapctl repair index"}, index)
}

func (c *cli) repairIndex(ctx context.Context) error {
	return c.withRepository(ctx, func(repo *engine.Repository) error {
		c.talk.begin("repair index")
		result, err := repo.RepairIndex(ctx)
		c.talk.done()
		if result == nil {
			return err
		}
		p := c.printer()
		for _, problem := range result.Damaged {
			err = errors.Join(err, p.print(problemReportOf(problem)))
		}
		c.talk.say("indexed %s in %s, %s written", plural(result.Blobs, "blob"), plural(result.Packs, "pack"), plural(result.Segments, "segment"))
		return errors.Join(err, p.print(repairSummary{"summary", result.Packs, result.Blobs, result.Segments, len(result.Damaged)}))
	})
}

type repairSummary struct {
	Type     string `json:"type"`
	Packs    uint64 `json:"packs"`
	Blobs    uint64 `json:"blobs"`
	Segments uint64 `json:"segments"`
	Damaged  int    `json:"damaged"`
}

func (repairSummary) text(*bufio.Writer) {}
