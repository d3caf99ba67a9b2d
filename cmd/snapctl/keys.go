package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// keyOptions are the ways to name the key that opens the repository. Secrets
// come from files, commands or the environment: what stands in argv is seen by
// everybody on the machine.
type keyOptions struct {
	prefix            string // of the options and variables: "" or "remote-"
	identities        []string
	passphraseFile    string
	passphraseCommand string
	insecure          bool
}

func (o *keyOptions) addFlags(f *pflag.FlagSet) {
	shorthand := "i"
	if o.prefix != "" {
		shorthand = ""
	}
	f.StringArrayVarP(&o.identities, o.prefix+"identity", shorthand, nil, "age identity `file` (repeatable; $"+o.env(envIdentity)+")")
	f.StringVar(&o.passphraseFile, o.prefix+"passphrase-file", "", "`file` that holds the passphrase ($"+o.env(envPassphraseFile)+")")
	f.StringVar(&o.passphraseCommand, o.prefix+"passphrase-command", "", "shell `command` that prints the passphrase ($"+o.env(envPassphraseCommand)+")")
	f.BoolVar(&o.insecure, o.prefix+"insecure-no-encryption", false, "make or use a repository whose key lies next to the data")
}

// env is the variable that stands for an option of the same name.
func (o *keyOptions) env(name string) string {
	if o.prefix == "" {
		return name
	}
	return strings.Replace(name, "SNAPCTL_", envRemotePrefix, 1)
}

// unlock opens the repository in a store. Keys that are named are the only
// ones tried. Otherwise it is the identity in the user's config directory, and
// then a passphrase, if there is a terminal to ask on.
func (c *cli) unlock(ctx context.Context, p place, store objectstore.Store, keys keyOptions, how ...opening) (*engine.Repository, error) {
	opts, err := c.openOptions(p)
	if err != nil {
		return nil, err
	}
	for _, adjust := range how {
		adjust(&opts)
	}
	named, err := c.namedCredentials(ctx, keys)
	if err != nil {
		return nil, err
	}
	opts.Credentials = named.credentials
	opts.Credentials.Insecure = keys.insecure
	if !named.any {
		if opts.Credentials.Identities, err = c.defaultIdentities(); err != nil {
			return nil, err
		}
	}
	repo, err := engine.Open(ctx, store, opts)
	if err == nil && keys.insecure {
		c.acceptPlain(repo.ID())
	}
	if !errors.Is(err, engine.ErrWrongKey) || keys.insecure {
		return repo, err
	}
	if plain, err := c.openPlain(ctx, store, opts); plain != nil || err != nil {
		return plain, err
	}
	if named.any {
		return nil, err
	}
	passphrase, asked, promptErr := askPassphrase(ctx, "passphrase of the repository "+quote(string(p)))
	if !asked {
		return nil, err
	}
	if promptErr != nil {
		return nil, promptErr
	}
	opts.Credentials.Passphrase = passphrase
	return engine.Open(ctx, store, opts)
}

// openPlain opens a repository without encryption if this user has accepted
// it: by making it, or by --insecure-no-encryption before. Otherwise whoever
// can write to the store could put a repository without encryption in the place
// of one with, and read what is saved next. The repository is nil if it has
// encryption after all.
func (c *cli) openPlain(ctx context.Context, store objectstore.Store, opts engine.OpenOptions) (*engine.Repository, error) {
	opts.Credentials = engine.Credentials{Insecure: true}
	repo, err := engine.Open(ctx, store, opts)
	if errors.Is(err, engine.ErrWrongKey) {
		return nil, nil
	}
	if err != nil || c.plainAccepted(repo.ID()) {
		return repo, err
	}
	id := repo.ID()
	return nil, errors.Join(&hinted{
		err:  fmt.Errorf("%w: repository %s is not encrypted", engine.ErrWrongKey, id),
		hint: "if that is what you expect, say --insecure-no-encryption once",
	}, repo.Close())
}

// credentials are keys with the knowledge whether somebody named them.
type credentials struct {
	credentials keyring.Credentials
	any         bool
}

// namedCredentials are the keys that the command line or the environment names.
func (c *cli) namedCredentials(ctx context.Context, keys keyOptions) (credentials, error) {
	var named credentials
	for _, path := range c.identityFiles(keys) {
		identities, err := readIdentities(path)
		if err != nil {
			return named, err
		}
		named.credentials.Identities = append(named.credentials.Identities, identities...)
		named.any = true
	}
	source, err := c.passphraseSource(keys)
	if err != nil || source == nil {
		return named, err
	}
	named.credentials.Passphrase, err = source(ctx)
	named.any = true
	return named, err
}
