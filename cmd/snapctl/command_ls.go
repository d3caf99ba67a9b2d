package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/manifest"
)

// lsOptions are the options of snapctl ls.
type lsOptions struct {
	choose    chooseOptions
	long      bool
	recursive bool
}

func (o *lsOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVarP(&o.long, "long", "l", false, "print mode, owner, size and time too")
	f.BoolVarP(&o.recursive, "recursive", "R", false, "print what is in directories, all the way down")
	o.choose.addFlags(f)
}

func newLsCommand(c *cli) *cobra.Command {
	var o lsOptions
	cmd := c.command(spec{
		use: "ls SNAP [PATH]", group: groupDefault, args: cobra.RangeArgs(1, 2), exits: exitsRepository,
		short: "list the files of a snapshot",
		long: `Paths are below the root of the snapshot. One that holds characters which cannot
be printed is quoted, in the syntax of Go.`,
		example: "  snapctl ls latest\n  snapctl ls -l -R latest src\n  snapctl ls -R --json 4f1d0c22",
	}, func(ctx context.Context, args []string) error {
		path := ""
		if len(args) == 2 {
			path = args[1]
		}
		return c.ls(ctx, args[0], path, o)
	})
	o.addFlags(cmd.Flags())
	return cmd
}

func (c *cli) ls(ctx context.Context, snap, path string, o lsOptions) error {
	depth := engine.Shallow
	if o.recursive {
		depth = engine.Recursive
	}
	return c.withSnapshot(ctx, snap, o.choose, func(repo *engine.Repository, id engine.ID) error {
		p := c.printer()
		summary := lsSummary{Type: "summary", Snapshot: id.String()}
		for e, err := range repo.Ls(ctx, id, path, depth) {
			if err != nil {
				return err
			}
			report := entryReportOf(e)
			report.long = o.long
			report.header = summary.Entries == 0 && e.Kind == manifest.Dir
			if err := p.print(report); err != nil {
				return err
			}
			summary.Entries++
			summary.Bytes += e.Size
		}
		return p.print(summary)
	})
}

// entryReport is one entry of a tree.
type entryReport struct {
	Type string `json:"type"`
	pathFields
	Kind      string  `json:"kind"`
	Mode      string  `json:"mode"` // octal
	UID       uint32  `json:"uid"`
	GID       uint32  `json:"gid"`
	MTime     string  `json:"mtime"`
	Size      uint64  `json:"size"`
	Node      *string `json:"node,omitempty"` // of a directory
	Target    *string `json:"target,omitempty"`
	TargetB64 string  `json:"target_b64,omitempty"`
	Major     *uint32 `json:"major,omitempty"`
	Minor     *uint32 `json:"minor,omitempty"`
	Xattrs    []xattr `json:"xattrs,omitempty"`

	entry  manifest.Entry
	long   bool
	header bool // it is the directory that was asked for, which text leaves out
}

// xattr is an extended attribute in JSON. The value of a long one is a blob and
// not shown.
type xattr struct {
	Name    string  `json:"name"`
	NameB64 string  `json:"name_b64,omitempty"`
	Size    int     `json:"size"`
	Value   *string `json:"value_b64,omitempty"`
}

func entryReportOf(e engine.LsEntry) entryReport {
	r := entryReport{
		Type: "entry", pathFields: pathOf(e.Path), Kind: e.Kind.String(), Mode: octal(e.Mode),
		UID: e.UID, GID: e.GID, MTime: stamp(e.MTime), Size: e.Size, entry: e.Entry,
	}
	switch e.Kind {
	case manifest.Dir:
		r.Node = idOrNull(e.Node)
	case manifest.Symlink:
		r.Target, r.TargetB64 = &r.entry.Target, exactBytes(e.Target)
	case manifest.CharDevice, manifest.BlockDevice:
		r.Major, r.Minor = &r.entry.Device.Major, &r.entry.Device.Minor
	}
	for _, x := range e.Xattrs {
		out := xattr{Name: x.Name, NameB64: exactBytes(x.Name), Size: int(x.Size)}
		if x.Blob.IsZero() {
			value := base64.StdEncoding.EncodeToString(x.Value)
			out.Size, out.Value = len(x.Value), &value
		}
		r.Xattrs = append(r.Xattrs, out)
	}
	return r
}

func (r entryReport) text(w *bufio.Writer) {
	if r.header {
		return
	}
	if !r.long {
		fmt.Fprintln(w, displayPath(r.raw()))
		return
	}
	e := &r.entry
	volume := fmt.Sprint(e.Size)
	if e.Kind == manifest.CharDevice || e.Kind == manifest.BlockDevice {
		volume = fmt.Sprintf("%d,%d", e.Device.Major, e.Device.Minor)
	}
	fmt.Fprintf(w, "%s %5d %5d %10s %s %s", modeString(e.Kind, e.Mode), e.UID, e.GID, volume, shortTime(e.MTime), displayPath(r.raw()))
	if e.Kind == manifest.Symlink {
		fmt.Fprintf(w, " -> %s", quote(e.Target))
	}
	fmt.Fprintln(w)
}

type lsSummary struct {
	Type     string `json:"type"`
	Snapshot string `json:"snapshot"`
	Entries  uint64 `json:"entries"`
	Bytes    uint64 `json:"bytes"`
}

func (lsSummary) text(*bufio.Writer) {}
