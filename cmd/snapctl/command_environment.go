package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newEnvironmentTopic is a page of help without a command.
func newEnvironmentTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("The variables of the environment that snapctl reads. An option on the command\nline goes first; an empty variable counts as unset.\n\n")
	for _, v := range envTable {
		fmt.Fprintf(&b, "  %-28s %s\n", v.name, v.meaning)
	}
	return &cobra.Command{Use: "environment", Short: "the variables of the environment that snapctl reads", Long: b.String()}
}
