package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// pushOptions are the options of push and pull.
type pushOptions struct {
	remote keyOptions
	choose chooseOptions
	all    bool
	dryRun bool
}

func newPushOptions() *pushOptions { return &pushOptions{remote: keyOptions{prefix: "remote-"}} }

func (o *pushOptions) addFlags(f *pflag.FlagSet) {
	o.choose.addFlags(f)
	f.BoolVar(&o.all, "all", false, "all snapshots that pass --label and --source")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "say what would be copied, copy nothing")
	o.remote.addFlags(f)
}

const pushLong = `REMOTE is a name that "snapctl remote add" gave, a path, or an s3:// URL. It must be
of one family with this repository: made with "snapctl init --like". SNAP is one or
more snapshots; "latest" if none is named.

Only what the other side lacks travels. When the command is interrupted, snapshots
that it has named are there, and the next run goes on where it ended. The keys of
this repository are tried on the remote unless --remote-... or SNAPCTL_REMOTE_...
names others.`

func newPushCommand(c *cli) *cobra.Command {
	o := newPushOptions()
	cmd := c.command(spec{
		use: "push REMOTE [SNAP]...", group: groupDefault, args: cobra.MinimumNArgs(1), exits: exitsPartial,
		short: "copy snapshots into another repository", long: pushLong,
		example: "  snapctl push origin\n" +
			"  snapctl push origin --all --label agent=7\n" +
			"  snapctl push 's3://backups/agents?endpoint=https://minio.example:9000' 4f1d0c22 --dry-run",
	}, func(ctx context.Context, args []string) error {
		return c.transfer(ctx, args, o, func(here, there *engine.Repository) direction {
			return direction{verb: "push", done: "pushed", from: here, to: there, run: here.Push, peer: there}
		})
	})
	o.addFlags(cmd.Flags())
	return cmd
}

func newPullCommand(c *cli) *cobra.Command {
	o := newPushOptions()
	cmd := c.command(spec{
		use: "pull REMOTE [SNAP]...", group: groupDefault, args: cobra.MinimumNArgs(1), exits: exitsPartial,
		short: "copy snapshots from another repository into this one", long: pushLong,
		example: "  snapctl pull origin\n" +
			"  snapctl pull origin --all --source /workspace\n" +
			"  snapctl pull /mnt/usb/snapshots 4f1d0c22",
	}, func(ctx context.Context, args []string) error {
		return c.transfer(ctx, args, o, func(here, there *engine.Repository) direction {
			return direction{verb: "pull", done: "pulled", from: there, to: here, run: here.Pull, peer: there}
		})
	})
	o.addFlags(cmd.Flags())
	return cmd
}

// direction is a push or a pull.
type direction struct {
	verb, done string
	from, to   *engine.Repository
	peer       *engine.Repository // what run takes
	run        func(context.Context, *engine.Repository, ...engine.ID) (*engine.PushResult, error)
}

func (c *cli) transfer(ctx context.Context, args []string, o *pushOptions, direct func(here, there *engine.Repository) direction) error {
	if o.all && len(args) > 1 {
		return &usageError{err: errors.New("--all leaves no snapshot to be named"), hint: "give either it or snapshots"}
	}
	return c.withStore(ctx, func(store backing, here *engine.Repository) error {
		p, err := c.remotePlace(ctx, here, args[0])
		if err != nil {
			return err
		}
		return c.withPlace(ctx, p, c.remoteKeys(o.remote), func(other backing, there *engine.Repository) error {
			d := direct(here, there)
			ids, listErr := chosen(ctx, d.from, args[1:], o)
			if listErr != nil && (len(ids) == 0 || !errors.Is(listErr, engine.ErrDamaged)) {
				return listErr
			}
			if d.verb == "pull" {
				other = store
			}
			return errors.Join(listErr, c.runTransfer(ctx, d, ids, o.dryRun, other)) // what can be read is copied
		})
	})
}

// remotePlace finds what a remote's name stands for. What has a slash is a place.
func (c *cli) remotePlace(ctx context.Context, here *engine.Repository, name string) (place, error) {
	if p := place(name); p.isURL() || strings.Contains(name, "/") {
		return p, p.check()
	}
	remote, err := here.Remote(ctx, name)
	return place(remote.Place), hintDirectory(name, hintRemotes(err))
}

// hintDirectory tells somebody who named a directory as if it were a remote how to
// name it.
func hintDirectory(name string, err error) error {
	info, statErr := os.Stat(name)
	if err == nil || statErr != nil || !info.IsDir() || errors.As(err, new(*objectstore.Error)) || errors.Is(err, engine.ErrDamaged) {
		return err
	}
	return &hinted{err, fmt.Sprintf("write %s if you mean the directory: what has no slash is the name of a remote", quote("./"+name))}
}

// remoteKeys are the keys of the remote, or those of this repository if nobody
// named any.
func (c *cli) remoteKeys(o keyOptions) keyOptions {
	named := len(o.identities) > 0 || o.passphraseFile != "" || o.passphraseCommand != "" || o.insecure
	for _, name := range []string{envIdentity, envPassphrase, envPassphraseFile, envPassphraseCommand} {
		named = named || c.env.get(o.env(name)) != ""
	}
	if named {
		return o
	}
	return c.globals.keys
}

// chosen returns the snapshots that are to be copied.
func chosen(ctx context.Context, from *engine.Repository, names []string, o *pushOptions) ([]engine.ID, error) {
	filter, err := o.choose.filter()
	if err != nil {
		return nil, err
	}
	if o.all {
		return everything(ctx, from, filter)
	}
	if len(names) == 0 {
		names = []string{engine.Latest}
	}
	ids := make([]engine.ID, len(names))
	for i, name := range names {
		if ids[i], err = from.Resolve(ctx, name, filter); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// everything returns the snapshots that pass the filter. Those that cannot be read
// come with the error ErrDamaged.
func everything(ctx context.Context, from *engine.Repository, filter engine.Filter) ([]engine.ID, error) {
	infos, err := from.List(ctx, filter)
	ids := make([]engine.ID, len(infos))
	for i, info := range infos {
		ids[i] = info.ID
	}
	if err == nil && len(ids) == 0 {
		err = &hinted{errors.New("no snapshot passes the filter"), "`snapctl list` shows the snapshots"}
	}
	return ids, err
}

func (c *cli) runTransfer(ctx context.Context, d direction, ids []engine.ID, dryRun bool, target backing) error {
	c.talk.begin(d.verb)
	run := d.run
	if dryRun {
		run = func(ctx context.Context, _ *engine.Repository, ids ...engine.ID) (*engine.PushResult, error) {
			return d.from.PlanPush(ctx, d.to, ids...)
		}
	}
	result, err := run(ctx, d.peer, ids...)
	c.talk.done()
	if result == nil {
		return err
	}
	if !dryRun {
		c.tidy(ctx, target)
	}
	if err != nil && len(result.Snapshots) == 0 {
		return err // nothing was done that could be told
	}
	return errors.Join(err, c.printTransfer(d, result, dryRun))
}

func (c *cli) printTransfer(d direction, r *engine.PushResult, dryRun bool) error {
	p := c.printer()
	present, lost := 0, 0
	for _, s := range r.Snapshots {
		if s.Present {
			present++
		}
		if s.Err != nil {
			lost++
			c.talk.warn("snapshot %v was not %s: %v", s.ID, d.done, s.Err)
		}
		if err := p.print(pushedReportOf(s)); err != nil {
			return err
		}
	}
	did := d.done
	if dryRun {
		did = "would have " + d.done
	}
	if pushed := len(r.Snapshots) - lost; pushed > 0 || lost == 0 {
		c.talk.say("%s %s, %d of them there already; %s copied, %s stored, in %s", did, plural(uint64(pushed), "snapshot"), present,
			size(r.Bytes), size(r.StoredBytes), seconds(r.Duration))
	}
	return p.print(pushSummary{
		Type: "summary", Snapshots: len(r.Snapshots), Present: present, Blobs: r.Blobs, Bytes: r.Bytes,
		StoredBytes: r.StoredBytes, DryRun: dryRun, DurationMS: r.Duration.Milliseconds(),
	})
}

// pushedReport is what became of one snapshot.
type pushedReport struct {
	Type        string `json:"type"`
	Snapshot    string `json:"snapshot"`
	Present     bool   `json:"present"` // before
	Blobs       uint64 `json:"blobs"`
	Bytes       uint64 `json:"bytes"`
	StoredBytes uint64 `json:"stored_bytes"`
	Error       string `json:"error,omitempty"`
}

func pushedReportOf(s engine.PushedSnapshot) pushedReport {
	r := pushedReport{Type: "snapshot", Snapshot: s.ID.String(), Present: s.Present, Blobs: s.Blobs, Bytes: s.Bytes, StoredBytes: s.StoredBytes}
	if s.Err != nil {
		r.Error = s.Err.Error()
	}
	return r
}

func (r pushedReport) text(w *bufio.Writer) {
	if r.Error == "" {
		fmt.Fprintln(w, r.Snapshot)
	}
}

type pushSummary struct {
	Type        string `json:"type"`
	Snapshots   int    `json:"snapshots"`
	Present     int    `json:"present"`
	Blobs       uint64 `json:"blobs"`
	Bytes       uint64 `json:"bytes"`
	StoredBytes uint64 `json:"stored_bytes"`
	DryRun      bool   `json:"dry_run"`
	DurationMS  int64  `json:"duration_ms"`
}

func (pushSummary) text(*bufio.Writer) {}
