package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/snapctl/snapctl/engine/keyring"
)

// identityFiles are the files that the command line names, or the environment.
func (c *cli) identityFiles(keys keyOptions) []string {
	if len(keys.identities) > 0 {
		return keys.identities
	}
	return filepath.SplitList(c.env.get(keys.env(envIdentity)))
}

// readIdentities reads an identity file as age-keygen writes it.
func readIdentities(path string) ([]age.Identity, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &hinted{fmt.Errorf("read identity: %w", err), "name an existing age identity file with --identity or " + envIdentity}
	}
	defer f.Close()
	identities, err := keyring.ParseIdentities(f)
	if err != nil {
		return nil, &hinted{fmt.Errorf("read identity %s: %w", path, err), "an age identity file has lines that start with AGE-SECRET-KEY-"}
	}
	return identities, nil
}

func (c *cli) identityPath() (string, error) {
	dir, err := c.env.userDir(envConfigHome, ".config")
	return filepath.Join(dir, "identity.txt"), err
}

// defaultIdentities are those in the user's config directory, if any.
func (c *cli) defaultIdentities() ([]age.Identity, error) {
	path, err := c.identityPath()
	if err != nil {
		return nil, nil // nobody's home: no default
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		c.talk.warn("other users can read the identity %s: chmod 600", path)
	}
	return readIdentities(path)
}

// ensureIdentity returns the identity in the user's config directory, made if
// there is none, and its file.
func (c *cli) ensureIdentity() (identity age.Identity, path string, err error) {
	path, err = c.identityPath()
	if err != nil {
		return nil, "", &usageError{err: err, hint: "name a key with --passphrase-file, --identity or --recipient"}
	}
	existing, err := c.defaultIdentities()
	if err != nil || len(existing) > 0 {
		return first(existing), path, err
	}
	text, _, err := keyring.NewIdentity()
	if err != nil {
		return nil, "", err
	}
	if err := writePrivate(path, text); err != nil {
		return nil, "", fmt.Errorf("write identity: %w", err)
	}
	c.talk.say("made the identity %s", quote(path))
	made, err := readIdentities(path)
	return first(made), path, err
}

func first(identities []age.Identity) age.Identity {
	if len(identities) == 0 {
		return nil
	}
	return identities[0]
}

// writePrivate makes a file that only its owner can read, durably and never in
// part. It fails if the file exists: an identity that is overwritten takes the
// repositories that it opens with it.
func writePrivate(path, text string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(text)
	if err == nil {
		err = temp.Sync()
	}
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// The repositories without encryption that this user has accepted are lines of
// ids in one file of the config directory.

func (c *cli) plainPath() (string, error) {
	dir, err := c.env.userDir(envConfigHome, ".config")
	return filepath.Join(dir, "unencrypted"), err
}

func (c *cli) plainAccepted(id string) bool {
	path, err := c.plainPath()
	if err != nil {
		return false
	}
	text, err := os.ReadFile(path)
	return err == nil && slices.Contains(strings.Fields(string(text)), id)
}

// acceptPlain remembers a repository without encryption. If it cannot, the
// option has to be given again next time.
func (c *cli) acceptPlain(id string) {
	path, err := c.plainPath()
	if err != nil || c.plainAccepted(id) {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.talk.detail("cannot remember the repository: %v", err)
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.talk.detail("cannot remember the repository: %v", err)
		return
	}
	defer f.Close()
	fmt.Fprintln(f, id) // one short line: written whole, whoever else appends
}
