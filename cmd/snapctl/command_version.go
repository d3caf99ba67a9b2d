package main

import (
	"bufio"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/snapctl/snapctl/engine/config"
)

// version is set by the linker in release builds:
// -ldflags "-X main.version=v1.2.3".
var version string

// versionReport says what this program is.
type versionReport struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Format  int    `json:"format"` // the newest repository format that it knows
}

func (r versionReport) text(w *bufio.Writer) {
	fmt.Fprintf(w, "snapctl %s, format %d, %s %s/%s\n", r.Version, r.Format, r.Go, r.OS, r.Arch)
}

func buildVersion() versionReport {
	r := versionReport{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Format: config.Version}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				r.Commit = s.Value
			}
		}
		if r.Version == "" {
			r.Version = info.Main.Version
		}
	}
	if r.Version == "" {
		r.Version = "(devel)"
	}
	return r
}

func newVersionCommand(c *cli) *cobra.Command {
	return c.command(spec{
		use: "version", group: groupAdvanced, args: cobra.NoArgs,
		short:   "print the version of the program and of the format",
		example: "  snapctl version\n  snapctl version --json",
	}, func(context.Context, []string) error { return c.printer().print(buildVersion()) })
}
