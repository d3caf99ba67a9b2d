// Command snapctl saves workspaces into a repository of deduplicated,
// immutable snapshots and brings them back.
//
// It has flags, output and exit codes, and nothing else: all the work is in
// package engine. What goes to standard output is data; what goes to standard
// error is talk. docs/cli.md describes every command.
package main

import "os"

func main() {
	os.Exit(run(interruptible(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}, os.LookupEnv))
}
