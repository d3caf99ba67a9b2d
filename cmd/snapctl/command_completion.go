package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// completionReport is the script that a shell reads.
type completionReport struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func (r completionReport) text(w *bufio.Writer) { w.WriteString(r.Script) }

func newCompletionCommand(c *cli) *cobra.Command {
	var cmd *cobra.Command
	cmd = c.command(spec{
		use: "completion bash|zsh|fish", group: groupAdvanced, args: cobra.ExactArgs(1),
		short: "print a script that completes commands and options in a shell",
		example: "  snapctl completion bash > /etc/bash_completion.d/snapctl\n" +
			"  snapctl completion zsh > \"${fpath[1]}/_snapctl\"\n" +
			"  snapctl completion fish > ~/.config/fish/completions/snapctl.fish",
	}, func(_ context.Context, args []string) error {
		script, err := completionScript(cmd.Root(), args[0])
		if err != nil {
			return err
		}
		return c.printer().print(completionReport{Shell: args[0], Script: script})
	})
	cmd.ValidArgs = []string{"bash", "zsh", "fish"}
	return cmd
}

func completionScript(root *cobra.Command, shell string) (string, error) {
	var b bytes.Buffer
	var err error
	switch shell {
	case "bash":
		err = root.GenBashCompletionV2(&b, true)
	case "zsh":
		err = root.GenZshCompletion(&b)
	case "fish":
		err = root.GenFishCompletion(&b, true)
	default:
		err = &usageError{err: errors.New("unknown shell " + fmt.Sprintf("%q", shell)), hint: "the shells are bash, zsh and fish"}
	}
	return b.String(), err
}
