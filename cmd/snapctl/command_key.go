package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
)

// holderOptions say who gets a new key. They differ from the options that say
// which key opens the repository now.
type holderOptions struct {
	recipient         string
	identity          string
	passphraseFile    string
	passphraseCommand string
	ask               bool
	comment           string
}

func (o *holderOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.recipient, "recipient", "", "age `recipient` of the new key, age1...")
	f.StringVar(&o.identity, "new-identity", "", "age identity `file` of the new key")
	f.StringVar(&o.passphraseFile, "new-passphrase-file", "", "`file` that holds the passphrase of the new key")
	f.StringVar(&o.passphraseCommand, "new-passphrase-command", "", "shell `command` that prints the passphrase of the new key")
	f.BoolVar(&o.ask, "new-passphrase", false, "ask for the passphrase of the new key on the terminal")
	f.StringVar(&o.comment, "comment", "", "who holds the key, for `people`; stored in the open")
}

var holderFlags = []string{"recipient", "new-identity", "new-passphrase-file", "new-passphrase-command", "new-passphrase"}

func (o *holderOptions) require(cmd *cobra.Command) {
	o.addFlags(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive(holderFlags...)
	cmd.MarkFlagsOneRequired(holderFlags...)
}

// holder makes the holder that the options name.
func (o *holderOptions) holder(ctx context.Context, stderr io.Writer) (keyring.Holder, error) {
	holder, err := o.bareHolder(ctx, stderr)
	if err != nil || o.comment == "" {
		return holder, err
	}
	return holder.WithComment(o.comment)
}

func (o *holderOptions) bareHolder(ctx context.Context, stderr io.Writer) (keyring.Holder, error) {
	if o.recipient != "" {
		holders, err := recipientHolders([]string{o.recipient})
		if err != nil {
			return keyring.Holder{}, err
		}
		return holders[0], nil
	}
	if o.identity != "" {
		identities, err := readIdentities(o.identity)
		if err != nil {
			return keyring.Holder{}, err
		}
		return keyring.NewIdentityHolder(identities[0])
	}
	source := passphraseSource(newPassphrase)
	switch {
	case o.passphraseFile != "":
		source = fromFile(o.passphraseFile)
	case o.passphraseCommand != "":
		source = fromCommand(o.passphraseCommand, stderr)
	}
	passphrase, err := source(ctx)
	if err != nil {
		return keyring.Holder{}, err
	}
	return keyring.NewPassphrase(passphrase)
}

func newKeyCommand(c *cli) *cobra.Command {
	return parent(spec{
		use: "key", group: groupAdvanced, short: "show and change who can open the repository",
		long: `Adding and removing keys never rewrites data. Removing one does not take back what
its holder knows: whoever has opened the repository once can keep what opens it.`,
		example: "  snapctl key list\n  snapctl key add --recipient age1kuy8kf06vdd0k5v28f5y9zfrh8jrp2sg0vh4lm7dus06yuv2pf7ssmhrnd",
	}, newKeyListCommand(c), newKeyAddCommand(c), newKeyRemoveCommand(c), newKeyRotateCommand(c))
}

func newKeyListCommand(c *cli) *cobra.Command {
	return c.command(spec{
		use: "list", args: cobra.NoArgs, exits: exitsRepository,
		short: "list the keys of the repository", example: "  snapctl key list\n  snapctl key list --json",
	}, func(ctx context.Context, _ []string) error {
		return c.withRepository(ctx, func(repo *engine.Repository) error {
			keys, err := repo.Keys(ctx)
			report := keyListReport{Keys: make([]keyReport, len(keys))}
			for i, key := range keys {
				report.Keys[i] = keyReportOf(key)
			}
			return errors.Join(err, c.printer().print(report))
		})
	})
}

func newKeyAddCommand(c *cli) *cobra.Command {
	var o holderOptions
	cmd := c.command(spec{
		use: "add", args: cobra.NoArgs, exits: exitsRepository,
		short:   "let another holder open the repository",
		example: "  snapctl key add --recipient age1kuy8kf06vdd0k5v28f5y9zfrh8jrp2sg0vh4lm7dus06yuv2pf7ssmhrnd\n  snapctl key add --new-passphrase --comment ops",
	}, func(ctx context.Context, _ []string) error {
		holder, err := o.holder(ctx, c.talk.w)
		if err != nil {
			return err
		}
		return c.withRepository(ctx, func(repo *engine.Repository) error {
			key, err := repo.AddKey(ctx, holder)
			if err != nil {
				return err
			}
			return c.printer().print(keyReportOf(key))
		})
	})
	o.require(cmd)
	return cmd
}

func newKeyRemoveCommand(c *cli) *cobra.Command {
	return c.command(spec{
		use: "remove KEY", args: cobra.ExactArgs(1), exits: exitsRepository,
		short:   "delete a key; the last one stays",
		example: "  snapctl key remove 7c0e94",
	}, func(ctx context.Context, args []string) error {
		return c.withRepository(ctx, func(repo *engine.Repository) error {
			key, err := findKey(ctx, repo, args[0])
			if err != nil {
				return err
			}
			if err := repo.RemoveKey(ctx, key.ID.String()); err != nil {
				return keepLast(err)
			}
			return c.printer().print(keyReportOf(key))
		})
	})
}

func newKeyRotateCommand(c *cli) *cobra.Command {
	var o holderOptions
	cmd := c.command(spec{
		use: "rotate KEY", args: cobra.ExactArgs(1), exits: exitsRepository,
		short:   "replace a key by a new one",
		long:    "The new key is there and proven before the old one goes.",
		example: "  snapctl key rotate 7c0e94 --new-passphrase-file /run/secrets/next",
	}, func(ctx context.Context, args []string) error {
		holder, err := o.holder(ctx, c.talk.w)
		if err != nil {
			return err
		}
		return c.withRepository(ctx, func(repo *engine.Repository) error {
			old, err := findKey(ctx, repo, args[0])
			if err != nil {
				return err
			}
			key, err := repo.RotateKey(ctx, old.ID.String(), holder)
			if err != nil {
				return keepLast(err)
			}
			return c.printer().print(keyReportOf(key))
		})
	})
	o.require(cmd)
	return cmd
}

func keepLast(err error) error {
	if errors.Is(err, keyring.ErrLastKey) {
		return &hinted{err, "add another one first with `snapctl key add`"}
	}
	return err
}

// findKey returns the key that an id, or a unique prefix of it, names.
func findKey(ctx context.Context, repo *engine.Repository, prefix string) (engine.KeyInfo, error) {
	keys, err := repo.Keys(ctx)
	if err != nil {
		return engine.KeyInfo{}, err
	}
	var found []engine.KeyInfo
	for _, key := range keys {
		if prefix != "" && strings.HasPrefix(key.ID.String(), prefix) {
			found = append(found, key)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	problem := fmt.Errorf("no key %q", prefix)
	if len(found) > 1 {
		problem = fmt.Errorf("%s begin with %q", plural(uint64(len(found)), "key"), prefix)
	}
	return engine.KeyInfo{}, &hinted{problem, "`snapctl key list` shows the keys"}
}

// keyReport is a key; what it protects is not in it.
type keyReport struct {
	Key       string `json:"key"`
	Kind      string `json:"kind"`
	Recipient string `json:"recipient,omitempty"`
	Comment   string `json:"comment,omitempty"`
	Created   string `json:"created"`
}

func keyReportOf(k engine.KeyInfo) keyReport {
	return keyReport{k.ID.String(), k.Kind.String(), k.Recipient, k.Comment, k.Created.UTC().Format(time.RFC3339)}
}

func (r keyReport) text(w *bufio.Writer) { fmt.Fprintln(w, r.Key) }

type keyListReport struct {
	Keys []keyReport `json:"keys"`
}

func (r keyListReport) text(w *bufio.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tKIND\tCREATED\tHOLDER")
	for _, k := range r.Keys {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", k.Key, k.Kind, k.Created, quote(strings.TrimSpace(k.Recipient+" "+k.Comment)))
	}
	table.Flush()
}
