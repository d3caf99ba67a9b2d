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
	"github.com/snapctl/snapctl/providers/objectstore"
)

// initOptions say who can open the new repository.
type initOptions struct {
	recipients  []string
	ask         bool
	compression string
	like        string
	likeKeys    keyOptions
}

func (o *initOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.recipients, "recipient", nil, "age `recipient` who can open it, age1... (repeatable)")
	f.BoolVar(&o.ask, "passphrase", false, "ask for a passphrase on the terminal")
	f.StringVar(&o.compression, "compression", "default", "`effort` of compression, for ever: fastest, default or better")
	f.StringVar(&o.like, "like", "", "make it of the family of the repository at this `place`, so that snapshots can be pushed and pulled between them")
	o.likeKeys.prefix = "remote-"
	o.likeKeys.addFlags(f)
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
instead; with several of them, any one opens the repository.

With --like the repository there is opened by the same key, or by the one that the
options --remote-... name.

In a bucket it is tried what the store guarantees, and recorded.`,
		example: "  snapctl init\n" +
			"  snapctl init --repo 's3://backups/agents?endpoint=https://minio.example:9000'\n" +
			"  snapctl init --repo s3://backups/agents --like /srv/snapshots\n" +
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
	p, err := c.repoPlace()
	if err != nil {
		return err
	}
	if o.like == "" {
		return c.initAt(ctx, p, o, engine.InitOptions{Compression: level})
	}
	like := place(o.like)
	if err := like.check(); err != nil {
		return err
	}
	sibling := func(_ backing, repo *engine.Repository) error {
		return c.initAt(ctx, p, o, engine.InitOptions{Compression: level, Like: repo})
	}
	keys := c.remoteKeys(o.likeKeys)
	err = c.withPlace(ctx, like, keys, sibling)
	if errors.Is(err, engine.ErrWrongKey) && keys.prefix == "" { // they are those of the new one
		err = c.withPlace(ctx, like, o.likeKeys, sibling)
	}
	return err
}

func (c *cli) initAt(ctx context.Context, p place, o initOptions, opts engine.InitOptions) (err error) {
	if opts.OpenOptions, err = c.openOptions(p); err != nil {
		return err
	}
	if err := c.checkPlace(ctx, p); err != nil {
		return atPlace(p, err)
	}
	var r initReport
	if opts.Holders, r, err = c.holders(ctx, o); err != nil {
		return err
	}
	store, err := c.create(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	repo, err := engine.Init(ctx, store, opts)
	if err != nil {
		return atPlace(p, err)
	}
	r.Repository, r.Path = repo.ID(), string(p)
	if !r.Encrypted {
		c.acceptPlain(repo.ID())
	}
	c.sayInit(r)
	return errors.Join(c.tryStore(ctx, p, repo), c.printer().print(r), repo.Close())
}

// tryStore finds out what a bucket guarantees. A directory keeps what its
// filesystem promises. The repository is made already, so a store that does not
// answer the probe is no failure.
func (c *cli) tryStore(ctx context.Context, p place, repo *engine.Repository) error {
	if !p.isURL() {
		return nil
	}
	c.talk.begin("try what the store guarantees")
	report, err := repo.Probe(ctx)
	c.talk.done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		c.talk.warn("it is not known what the store guarantees, try `snapctl check --store`: %v", err)
		return nil
	}
	c.sayGuarantees(report)
	return nil
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
func (c *cli) checkPlace(ctx context.Context, p place) error {
	if p.isURL() {
		return c.checkFree(ctx, p)
	}
	entries, err := os.ReadDir(string(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.checkFree(ctx, p); err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, ".") && name != "keys" && name != "lost+found" {
			return &hinted{fmt.Errorf("the directory is not empty: it holds %s", quote(name)), "name a new or an empty directory"}
		}
	}
	return nil
}

// checkFree refuses a place where there is a repository.
func (c *cli) checkFree(ctx context.Context, p place) error {
	store, err := c.open(p)
	if err != nil {
		return err
	}
	defer store.Close()
	repo, err := engine.Open(ctx, store, engine.OpenOptions{})
	if err == nil {
		return errors.Join(engine.ErrExists, repo.Close())
	}
	var stored *objectstore.Error
	switch {
	case errors.Is(err, engine.ErrConfigGone):
		return err
	case errors.Is(err, engine.ErrNoRepository):
		return nil
	case errors.As(err, &stored) && p.isURL():
		return err // no answer, no access, no bucket
	case errors.Is(err, engine.ErrDamaged):
		return fmt.Errorf("%w: %w", engine.ErrExists, err)
	}
	return engine.ErrExists // locked, damaged or new: a repository all the same
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
	named, err := c.namedCredentials(ctx, c.globals.keys)
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
