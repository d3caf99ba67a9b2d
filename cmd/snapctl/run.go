package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// streams are the three standard files of a process.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// cli is one run of the program: where it reads and writes, what surrounds it,
// and the options that every command has.
type cli struct {
	in      io.Reader
	rawOut  io.Writer
	out     *bufio.Writer // over rawOut; flushed when the command is done
	talk    *talker
	env     environ
	globals globalOptions
	started bool // the command line was understood and a command runs
}

// run is the whole program: it does what args say and returns the exit code.
// lookup is the environment, which nothing else reads.
func run(ctx context.Context, args []string, std streams, lookup func(string) (string, bool)) int {
	c := &cli{
		in:     std.in,
		rawOut: std.out,
		out:    bufio.NewWriterSize(std.out, 64<<10),
		env:    environ{lookup},
	}
	c.talk = newTalker(std.err, c.env)
	if slices.Contains(args, "--json") { // also for errors that come before the flags are read
		c.talk.json = true
	}
	root := newRootCommand(c)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	c.talk.done()
	if !c.started && err != nil && !errors.As(err, new(*usageError)) {
		err = &usageError{err: err, hint: hintCommands(root, args)}
	}
	if flushErr := c.out.Flush(); flushErr != nil && err == nil {
		err = fmt.Errorf("write output: %w", flushErr)
	}
	return c.finish(ctx, err)
}

// hintCommands says what commands there are, or which of them was meant.
func hintCommands(root *cobra.Command, args []string) string {
	cmd, rest, err := root.Find(args)
	if err == nil && cmd != root {
		return fmt.Sprintf("`%s --help` shows how it is used", cmd.CommandPath())
	}
	hint := "`snapctl --help` shows the commands"
	if len(rest) > 0 {
		root.SuggestionsMinimumDistance = 2
		if near := root.SuggestionsFor(rest[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "? " + hint
		}
	}
	return hint
}

// finish tells what went wrong, if something did, and picks the exit code.
func (c *cli) finish(ctx context.Context, err error) int {
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return exitDone
	}
	if ctx.Err() != nil {
		err = errInterrupted
	}
	f := explain(err)
	c.talk.fail(f)
	return f.code
}
