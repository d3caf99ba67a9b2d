package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

// initOptions say who can open the new repository.
type initOptions struct {
	recipients  []string
	ask         bool
	compression string
}

func (o *initOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.recipients, "recipient", nil, "age `recipient` who can open it, age1... (repeatable)")
	f.BoolVar(&o.ask, "passphrase", false, "ask for a passphrase on the terminal")
	f.StringVar(&o.compression, "compression", "default", "`effort` of compression, for ever: fastest, default or better")
}

// compressions are the values of --compression.
var compressions = map[string]engine.Compression{
	"fastest": engine.CompressFastest, "default": engine.CompressDefault, "better": engine.CompressBetter,
}

func newInitCommand(c *cli) *cobra.Command {
	var o initOptions
	cmd := c.command(spec{
		use: "init", group: groupDefault, args: cobra.NoArgs,
		short: "make a repository",
		long: `The repository is encrypted. Without options its key is an age identity in the
config directory of the user, which is made if there is none: back it up, since
without it nobody can read the repository. Each of --identity, --passphrase-file,
--passphrase-command, --passphrase and --recipient names a holder of the key
instead; with several of them, any one opens the repository.`,
		example: "  snapctl init\n" +
			"  snapctl init --compression fastest\n" +
			"  snapctl init --repo /srv/snapshots --passphrase-file /run/secrets/snapctl\n" +
			"  snapctl init --recipient age1kuy8kf06vdd0k5v28f5y9zfrh8jrp2sg0vh4lm7dus06yuv2pf7ssmhrnd",
	}, func(ctx context.Context, _ []string) error { return c.init(ctx, o) })
	o.addFlags(cmd.Flags())
	return cmd
}

// initReport is the new repository.
type initReport struct {
	Repository string   `json:"repository"`
	Path       string   `json:"path"`
	Encrypted  bool     `json:"encrypted"`
	Identity   string   `json:"identity,omitempty"` // the file whose loss is the loss of everything
	Recipients []string `json:"recipients,omitempty"`
}

func (r initReport) text(w *bufio.Writer) { fmt.Fprintln(w, r.Repository) }

func (c *cli) init(ctx context.Context, o initOptions) error {
	level, ok := compressions[o.compression]
	if !ok {
		return &usageError{err: fmt.Errorf("--compression %q: it is fastest, default or better", o.compression)}
	}
	path, err := c.repoPath()
	if err != nil {
		return err
	}
	if err := c.checkPlace(ctx, path); err != nil {
		return atPlace(path, err)
	}
	holders, r, err := c.holders(ctx, o)
	if err != nil {
		return err
	}
	store, err := file.Create(path)
	if err != nil {
		return err
	}
	defer store.Close()
	repo, err := engine.Init(ctx, store, engine.InitOptions{OpenOptions: c.openOptions(), Holders: holders, Compression: level})
	if err != nil {
		return atPlace(path, err)
	}
	r.Repository, r.Path = repo.ID(), path
	if !r.Encrypted {
		c.acceptPlain(repo.ID())
	}
	c.sayInit(r)
	return errors.Join(c.printer().print(r), repo.Close())
}

func (c *cli) sayInit(r initReport) {
	c.talk.say("made repository %s in %s", r.Repository, quote(r.Path))
	switch {
	case !r.Encrypted:
		c.talk.warn("the repository is not encrypted: whoever can read it can read everything")
	case r.Identity != "":
		c.talk.say("back up the identity %s: without it nobody can read the repository", quote(r.Identity))
	}
}

// checkPlace refuses a directory that holds something else already: a
// repository in the middle of a workspace is a mistake. What starts with a dot
// and the keys of an interrupted attempt do not count.
func (c *cli) checkPlace(ctx context.Context, path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	store, err := file.Open(path)
	if err != nil {
		return err
	}
	defer store.Close()
	repo, err := engine.Open(ctx, store, engine.OpenOptions{})
	if err == nil {
		return errors.Join(engine.ErrExists, repo.Close())
	}
	if !errors.Is(err, engine.ErrNoRepository) {
		return engine.ErrExists // locked, damaged or new: a repository all the same
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, ".") && name != "keys" && name != "lost+found" {
			return &hinted{fmt.Errorf("the directory is not empty: it holds %s", quote(name)), "name a new or an empty directory"}
		}
	}
	return nil
}

// holders returns who the options let open the repository.
func (c *cli) holders(ctx context.Context, o initOptions) ([]keyring.Holder, initReport, error) {
	if c.globals.keys.insecure {
		return c.plainHolder(o)
	}
	r := initReport{Encrypted: true, Recipients: o.recipients}
	holders, err := recipientHolders(o.recipients)
	if err != nil {
		return nil, r, err
	}
	named, err := c.namedCredentials(ctx)
	if err != nil {
		return nil, r, err
	}
	if o.ask {
		if named.credentials.Passphrase != "" {
			return nil, r, &usageError{err: errors.New("--passphrase asks for a passphrase that is given already")}
		}
		if named.credentials.Passphrase, err = newPassphrase(ctx); err != nil {
			return nil, r, err
		}
	}
	if len(holders) == 0 && !named.any && !o.ask {
		return c.identityHolder()
	}
	fromCredentials, err := credentialHolders(named.credentials)
	return append(holders, fromCredentials...), r, err
}

func (c *cli) plainHolder(o initOptions) ([]keyring.Holder, initReport, error) {
	k := c.globals.keys
	if len(o.recipients) > 0 || o.ask || len(k.identities) > 0 || k.passphraseFile != "" || k.passphraseCommand != "" {
		return nil, initReport{}, &usageError{err: errors.New("--insecure-no-encryption leaves nothing for a key to protect"), hint: "give either it or a key"}
	}
	return []keyring.Holder{keyring.NewPlain()}, initReport{}, nil
}

func (c *cli) identityHolder() ([]keyring.Holder, initReport, error) {
	identity, path, err := c.ensureIdentity()
	if err != nil {
		return nil, initReport{}, err
	}
	holder, err := keyring.NewIdentityHolder(identity)
	if err != nil {
		return nil, initReport{}, err
	}
	abs, err := filepath.Abs(path)
	return []keyring.Holder{holder}, initReport{Encrypted: true, Identity: abs}, err
}

func recipientHolders(recipients []string) ([]keyring.Holder, error) {
	var holders []keyring.Holder
	for _, text := range recipients {
		holder, err := keyring.ParseRecipient(text)
		if err != nil {
			return nil, &usageError{err: fmt.Errorf("--recipient: %w", err), hint: "a recipient is the public half of an identity: `age-keygen -y FILE` prints it"}
		}
		holders = append(holders, holder)
	}
	return holders, nil
}

func credentialHolders(given keyring.Credentials) ([]keyring.Holder, error) {
	var holders []keyring.Holder
	for _, identity := range given.Identities {
		holder, err := keyring.NewIdentityHolder(identity)
		if err != nil {
			return nil, err
		}
		holders = append(holders, holder)
	}
	if given.Passphrase != "" {
		holder, err := keyring.NewPassphrase(given.Passphrase)
		if err != nil {
			return nil, err
		}
		holders = append(holders, holder)
	}
	return holders, nil
}
