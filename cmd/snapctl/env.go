package main

import (
	"errors"
	"path/filepath"
)

// The variables of the environment that the program reads.
const (
	envRepo              = "SNAPCTL_REPO"
	envStateDir          = "SNAPCTL_STATE_DIR"
	envIdentity          = "SNAPCTL_IDENTITY"
	envPassphrase        = "SNAPCTL_PASSPHRASE"
	envPassphraseFile    = "SNAPCTL_PASSPHRASE_FILE"
	envPassphraseCommand = "SNAPCTL_PASSPHRASE_COMMAND"
	envRemotePrefix      = "SNAPCTL_REMOTE_" // of the four above, for the other repository of push and pull
	envDataHome          = "XDG_DATA_HOME"
	envCacheHome         = "XDG_CACHE_HOME"
	envConfigHome        = "XDG_CONFIG_HOME"
	envHome              = "HOME"
	envTerm              = "TERM"
)

// envTable is what `snapctl help environment` and the documentation show.
var envTable = []struct{ name, meaning string }{
	{envRepo, "where the repository is (replaces --repo)"},
	{envStateDir, "where local state is kept (replaces --state-dir)"},
	{envIdentity, "age identity files, separated by colons (replaces --identity)"},
	{envPassphrase, "the passphrase itself"},
	{envPassphraseFile, "a file that holds the passphrase (replaces --passphrase-file)"},
	{envPassphraseCommand, "a command that prints the passphrase (replaces --passphrase-command)"},
	{envRemotePrefix + "...", "the four above for the remote of push and pull (replaces --remote-...)"},
	{"AWS_...", "credentials and region of buckets, as Amazon's tools take them"},
	{envDataHome, "the default repository is snapctl/repo below it; ~/.local/share if unset"},
	{envCacheHome, "local state is in snapctl below it; ~/.cache if unset"},
	{envConfigHome, "the identity is snapctl/identity.txt below it; ~/.config if unset"},
	{envTerm, "if it is `dumb`, progress is not drawn"},
}

// environ is the environment.
type environ struct{ lookup func(string) (string, bool) }

// get returns a variable. An empty one counts as unset.
func (e environ) get(name string) string {
	value, _ := e.lookup(name)
	return value
}

var errNoHome = errors.New("neither HOME nor the XDG variables say where the user's files are")

// userDir returns the folder of an XDG base directory variable, or its default
// below the home directory. A relative value is invalid and ignored, as the XDG
// Base Directory Specification has it.
func (e environ) userDir(xdg, fallback string) (string, error) {
	if dir := e.get(xdg); filepath.IsAbs(dir) {
		return filepath.Join(dir, "snapctl"), nil
	}
	if home := e.get(envHome); home != "" {
		return filepath.Join(home, fallback, "snapctl"), nil
	}
	return "", errNoHome
}
