package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The groups of commands in the help.
const (
	groupDefault  = "default"
	groupAdvanced = "advanced"
)

const rootLong = `Save the workspace of a sandbox as an immutable, deduplicated snapshot, and
bring it back anywhere.

SNAP is a snapshot id, a unique prefix of it of at least 6 digits, or "latest":
the newest snapshot that passes --label and --source where a command has them.`

// spec is what a command says about itself.
type spec struct {
	use     string
	group   string
	short   string // a sentence without its period
	long    string // paragraphs after that sentence; may be empty
	example string
	exits   []int // beyond those of every command
	args    cobra.PositionalArgs
	hidden  bool
}

func newRootCommand(c *cli) *cobra.Command {
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:           "snapctl",
		Short:         "save and restore the workspaces of sandboxes",
		Long:          rootLong,
		Example:       "  snapctl init\n  snapctl snapshot /workspace\n  snapctl restore latest /workspace",
		Annotations:   map[string]string{annotationExits: exitTable(exitCodes())},
		Version:       buildVersion().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		// The hint has the suggestions: an error is one line.
		DisableSuggestions: true,
		CompletionOptions:  cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRun: func(*cobra.Command, []string) {
			c.talk.json, c.talk.quiet, c.talk.verbose = c.globals.json, c.globals.quiet, c.globals.verbose
		},
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.talk.w)
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate(helpTemplate)
	root.SetVersionTemplate("snapctl {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misuse(cmd, err) })
	root.SetHelpCommandGroupID(groupAdvanced)
	c.globals.addFlags(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: groupDefault, Title: "Commands:"}, &cobra.Group{ID: groupAdvanced, Title: "Advanced commands:"})
	root.AddCommand(
		newInitCommand(c), newSnapshotCommand(c), newRestoreCommand(c), newListCommand(c), newShowCommand(c),
		newLsCommand(c), newCatCommand(c), newDiffCommand(c), newLabelCommand(c), newForgetCommand(c),
		newPushCommand(c), newPullCommand(c), newGCCommand(c), newCheckCommand(c), newStatsCommand(c), newKeyCommand(c), newRemoteCommand(c), newRepairCommand(c),
		newVersionCommand(c), newCompletionCommand(c), newManCommand(c), newEnvironmentTopic())
	return root
}

// command makes a command that runs do. What do gets is the context of the
// process and the arguments without the options.
func (c *cli) command(s spec, do func(context.Context, []string) error) *cobra.Command {
	cmd := newCommand(s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.started = true
		err := c.globals.network.check()
		if err == nil {
			err = do(cmd.Context(), args)
		}
		if usage := (*usageError)(nil); errors.As(err, &usage) && usage.hint == "" {
			return misuse(cmd, usage.err)
		}
		return err
	}
	return cmd
}

// parent makes a command that only has subcommands.
func parent(s spec, subcommands ...*cobra.Command) *cobra.Command {
	cmd := newCommand(s)
	cmd.AddCommand(subcommands...)
	var names []string
	for _, sub := range subcommands {
		names = append(names, sub.Name())
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		problem := fmt.Errorf("%s needs one of: %s", cmd.CommandPath(), strings.Join(names, ", "))
		if len(args) > 0 {
			problem = fmt.Errorf("unknown command %q: %w", args[0], problem)
		}
		return misuse(cmd, problem)
	}
	return cmd
}

func newCommand(s spec) *cobra.Command {
	long := strings.ToUpper(s.short[:1]) + s.short[1:] + "."
	if s.long != "" {
		long += "\n\n" + s.long
	}
	return &cobra.Command{
		Use: s.use, GroupID: s.group, Short: s.short, Long: long, Example: s.example, Hidden: s.hidden,
		Args:                  s.args,
		DisableFlagsInUseLine: true,
		Annotations:           map[string]string{annotationExits: exitTable(append([]int{exitDone, exitFailed, exitUsage, exitInterrupted}, s.exits...))},
	}
}

// misuse is a usage error of a command, with the way to its help.
func misuse(cmd *cobra.Command, err error) error {
	return &usageError{err: err, hint: fmt.Sprintf("`%s --help` shows how it is used", cmd.CommandPath())}
}

// exitsRepository are the exit codes of every command that opens a repository.
var exitsRepository = []int{exitNoRepository, exitBusy, exitWrongKey, exitDamaged}

// exitsPartial are those and the one for an incomplete result.
var exitsPartial = append([]int{exitIncomplete}, exitsRepository...)

// annotationExits is where a command keeps the EXIT STATUS section of its help.
const annotationExits = "exits"

func exitCodes() []int {
	var codes []int
	for code := range exitMeanings {
		codes = append(codes, code)
	}
	return codes
}

func exitTable(codes []int) string {
	slices.Sort(codes)
	var b strings.Builder
	for _, code := range codes {
		fmt.Fprintf(&b, "  %-4d %s\n", code, exitMeanings[code])
	}
	return b.String()
}

const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

const usageTemplate = `Usage:{{if .Runnable}}{{if not .HasAvailableSubCommands}}
  {{.UseLine}} [OPTIONS]{{end}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}
{{- if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableLocalFlags}}

Options:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Options of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasHelpSubCommands}}

More help:{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  {{rpad .CommandPath .CommandPathPadding}} {{.Short}}{{end}}{{end}}{{end}}{{with index .Annotations "exits"}}

EXIT STATUS
{{.}}{{end}}`
