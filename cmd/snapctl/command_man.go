package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manDate is the date of all man pages, so that they change only if their text
// does.
var manDate = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// newManCommand writes the man pages. It is for the build, not for users.
func newManCommand(c *cli) *cobra.Command {
	var cmd *cobra.Command
	cmd = c.command(spec{
		use: "man DIR", args: cobra.ExactArgs(1), hidden: true,
		short:   "write the man pages into a directory",
		example: "  snapctl man docs/man",
	}, func(_ context.Context, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return err
		}
		root := cmd.Root()
		prepareMan(root)
		return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &manDate, Source: "snapctl", Manual: "snapctl"}, args[0])
	})
	return cmd
}

// prepareMan puts the exit status into the text that becomes the page.
func prepareMan(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	if exits := cmd.Annotations[annotationExits]; exits != "" {
		table := "    " + strings.ReplaceAll(strings.TrimSuffix(exits, "\n"), "\n", "\n    ")
		cmd.Long += "\n\n# EXIT STATUS\n\n" + table
	}
	for _, sub := range cmd.Commands() {
		prepareMan(sub)
	}
}
