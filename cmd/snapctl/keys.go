package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// keyOptions are the ways to name the key that opens the repository. Secrets
// come from files, commands or the environment: what stands in argv is seen by
// everybody on the machine.
type keyOptions struct {
	identities        []string
	passphraseFile    string
	passphraseCommand string
	insecure          bool
}

func (o *keyOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.identities, "identity", "i", nil, "age identity `file` (repeatable; $"+envIdentity+")")
	f.StringVar(&o.passphraseFile, "passphrase-file", "", "`file` that holds the passphrase ($"+envPassphraseFile+")")
	f.StringVar(&o.passphraseCommand, "passphrase-command", "", "shell `command` that prints the passphrase ($"+envPassphraseCommand+")")
	f.BoolVar(&o.insecure, "insecure-no-encryption", false, "make or use a repository whose key lies next to the data")
}

// unlock opens the repository in a store. Keys that are named are the only
// ones tried. Otherwise it is the identity in the user's config directory, and
// then a passphrase, if there is a terminal to ask on.
func (c *cli) unlock(ctx context.Context, store objectstore.Store) (*engine.Repository, error) {
	opts := c.openOptions()
	named, err := c.namedCredentials(ctx)
	if err != nil {
		return nil, err
	}
	opts.Credentials = named.credentials
	opts.Credentials.Insecure = c.globals.keys.insecure
	if !named.any {
		if opts.Credentials.Identities, err = c.defaultIdentities(); err != nil {
			return nil, err
		}
	}
	repo, err := engine.Open(ctx, store, opts)
	if err == nil && c.globals.keys.insecure {
		c.acceptPlain(repo.ID())
	}
	if !errors.Is(err, engine.ErrWrongKey) || c.globals.keys.insecure {
		return repo, err
	}
	if plain, err := c.openPlain(ctx, store, opts); plain != nil || err != nil {
		return plain, err
	}
	if named.any {
		return nil, err
	}
	passphrase, asked, promptErr := askPassphrase(ctx, "passphrase of the repository")
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
func (c *cli) namedCredentials(ctx context.Context) (credentials, error) {
	var named credentials
	for _, path := range c.identityFiles() {
		identities, err := readIdentities(path)
		if err != nil {
			return named, err
		}
		named.credentials.Identities = append(named.credentials.Identities, identities...)
		named.any = true
	}
	source, err := c.passphraseSource()
	if err != nil || source == nil {
		return named, err
	}
	named.credentials.Passphrase, err = source(ctx)
	named.any = true
	return named, err
}
