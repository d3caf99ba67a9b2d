// Command snapctl saves workspaces into a repository of deduplicated,
// immutable snapshots and brings them back.
//
// It has flags, output and exit codes, and nothing else: all the work is in
// package engine. What goes to standard output is data; what goes to standard
// error is talk. docs/cli.md describes every command.
package main

import (
	"os"
	"runtime/debug"
)

// memoryLimit keeps the process below 256 MiB: what is in use at a time is about
// 130 MiB, and without a limit the collector lets garbage double that. It is
// soft, so that an index that needs more gets it. GOMEMLIMIT replaces it.
const memoryLimit = 200 << 20

func main() {
	if _, given := os.LookupEnv("GOMEMLIMIT"); !given {
		debug.SetMemoryLimit(memoryLimit)
	}
	os.Exit(run(interruptible(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}, os.LookupEnv))
}
