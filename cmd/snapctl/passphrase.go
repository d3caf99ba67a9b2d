package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// maxPassphrase bounds what is read as a passphrase, in bytes. A file that is
// longer was named by mistake.
const maxPassphrase = 4 << 10

// passphraseSource yields a passphrase when it is needed.
type passphraseSource func(context.Context) (string, error)

// passphraseSource returns where the passphrase comes from: the command line,
// and if that names nothing, the environment. Nil if neither says. More than
// one source is a mistake: one of them would silently not count.
func (c *cli) passphraseSource(o keyOptions) (passphraseSource, error) {
	if o.passphraseFile != "" || o.passphraseCommand != "" {
		return pickPassphrase(
			namedSource{"--" + o.prefix + "passphrase-file", fromFile(o.passphraseFile)},
			namedSource{"--" + o.prefix + "passphrase-command", fromCommand(o.passphraseCommand, c.talk.w)})
	}
	return pickPassphrase(
		namedSource{o.env(envPassphrase), fromValue(c.env.get(o.env(envPassphrase)))},
		namedSource{o.env(envPassphraseFile), fromFile(c.env.get(o.env(envPassphraseFile)))},
		namedSource{o.env(envPassphraseCommand), fromCommand(c.env.get(o.env(envPassphraseCommand)), c.talk.w)})
}

type namedSource struct {
	name   string
	source passphraseSource
}

func pickPassphrase(sources ...namedSource) (passphraseSource, error) {
	var picked namedSource
	for _, s := range sources {
		if s.source == nil {
			continue
		}
		if picked.source != nil {
			return nil, &usageError{err: fmt.Errorf("%s and %s both name a passphrase", picked.name, s.name), hint: "give one of them"}
		}
		picked = s
	}
	return picked.source, nil
}

func fromValue(value string) passphraseSource {
	if value == "" {
		return nil
	}
	return func(context.Context) (string, error) { return value, nil }
}

func fromFile(path string) passphraseSource {
	if path == "" {
		return nil
	}
	return func(context.Context) (string, error) {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("read passphrase: %w", err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxPassphrase+1))
		if err != nil {
			return "", fmt.Errorf("read passphrase: %w", err)
		}
		return checkPassphrase(path, text)
	}
}

func fromCommand(command string, stderr io.Writer) passphraseSource {
	if command == "" {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
		var out bounded
		cmd.WaitDelay = time.Second // for children that keep the pipe open when the shell is gone
		cmd.Stdout, cmd.Stderr = &out, stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("run the passphrase command: %w", err)
		}
		return checkPassphrase("the passphrase command", out.Bytes())
	}
}

// bounded keeps the first bytes that are written to it, one more than a
// passphrase may have.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxPassphrase+1-b.Len())])
	return len(p), nil
}

// checkPassphrase takes the one line end that editors and echo leave, and
// nothing else: every other byte may be part of the passphrase.
func checkPassphrase(from string, text []byte) (string, error) {
	passphrase := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case passphrase == "":
		return "", fmt.Errorf("%s gives an empty passphrase", from)
	case len(text) > maxPassphrase:
		return "", fmt.Errorf("%s gives more than %d bytes, which is no passphrase", from, maxPassphrase)
	case strings.ContainsAny(passphrase, "\n\x00"):
		return "", fmt.Errorf("%s gives more than one line, which is no passphrase", from)
	}
	return passphrase, nil
}

var errPassphrasesDiffer = errors.New("the two passphrases are not the same")

// newPassphrase asks for a passphrase that does not exist yet, twice.
func newPassphrase(ctx context.Context) (string, error) {
	const question = "new passphrase"
	first, asked, err := askPassphrase(ctx, question)
	if !asked {
		return "", &usageError{err: errors.New("there is no terminal to ask for a passphrase"), hint: "give it by a file or a command"}
	}
	if err != nil {
		return "", err
	}
	second, _, err := askPassphrase(ctx, question+", again")
	if err == nil && first != second {
		err = errPassphrasesDiffer
	}
	return first, err
}
