package keyring

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

// maxIdentityFile bounds an identity file in bytes: several hundred identities.
const maxIdentityFile = 1 << 20

// NewIdentity draws an X25519 identity. file is the content of its identity
// file, as age-keygen writes it: whoever has it opens what is wrapped for
// recipient.
func NewIdentity() (file, recipient string, err error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", fmt.Errorf("draw an identity: %w", err)
	}
	recipient = identity.Recipient().String()
	file = fmt.Sprintf("# created: %s\n# public key: %s\n%s\n", time.Now().Format(time.RFC3339), recipient, identity)
	return file, recipient, nil
}

// ParseIdentities reads a file of age identities, one on a line, of at most
// 1 MiB: native ones (AGE-SECRET-KEY-1..., AGE-SECRET-KEY-PQ-1...) and those of
// plugins (AGE-PLUGIN-NAME-1...). Empty lines and lines that start with "#" are
// comments. An identity of a plugin runs the program age-plugin-name when a key
// is unwrapped; a plugin that wants to talk to the user fails, and one that
// hangs is not interrupted. Errors never show a line, which may be a secret.
func ParseIdentities(r io.Reader) ([]age.Identity, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxIdentityFile+1))
	if err != nil {
		return nil, fmt.Errorf("read identities: %w", err)
	}
	if len(text) > maxIdentityFile {
		return nil, fmt.Errorf("%w: identity file is longer than %d bytes", ErrInvalid, maxIdentityFile)
	}
	if bytes.HasPrefix(text, []byte("age-encryption.org/")) || bytes.HasPrefix(text, []byte("-----BEGIN AGE")) {
		return nil, fmt.Errorf("%w: identity file is itself encrypted", ErrInvalid)
	}
	var identities []age.Identity
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, maxIdentityFile+1)
	for n := 1; scanner.Scan(); n++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		identity, err := parseIdentity(line)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d is not an age identity", ErrInvalid, n)
		}
		identities = append(identities, identity)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read identities: %w", err)
	}
	if len(identities) == 0 {
		return nil, fmt.Errorf("%w: identity file holds no identity", ErrInvalid)
	}
	return identities, nil
}

func parseIdentity(line string) (age.Identity, error) {
	switch {
	case strings.HasPrefix(line, "AGE-PLUGIN-"):
		_, _, err := plugin.ParseIdentity(line)
		return pluginIdentity(line), err
	case strings.HasPrefix(line, "AGE-SECRET-KEY-PQ-1"):
		return age.ParseHybridIdentity(line)
	}
	return age.ParseX25519Identity(line)
}

// pluginIdentity is an identity of a plugin, in its encoding. A client of the
// plugin is made for each use, so that what the plugin asked for is known.
type pluginIdentity string

// String keeps the encoding out of logs: it may be a secret.
func (p pluginIdentity) String() string { return "plugin identity" }

// GoString keeps it out of logs as well.
func (p pluginIdentity) GoString() string { return "keyring.pluginIdentity" }

// Unwrap implements age.Identity.
func (p pluginIdentity) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	var asked question
	client, err := plugin.NewIdentity(string(p), asked.refuse())
	if err != nil {
		return nil, err
	}
	fileKey, err := client.Unwrap(stanzas)
	return fileKey, asked.explain(err)
}

// pluginRecipient is a recipient of a plugin, in its encoding.
type pluginRecipient string

func newPluginRecipient(text string) (pluginRecipient, error) {
	_, _, err := plugin.ParseRecipient(text)
	return pluginRecipient(text), err
}

// Wrap implements age.Recipient.
func (p pluginRecipient) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	stanzas, _, err := p.WrapWithLabels(fileKey)
	return stanzas, err
}

// WrapWithLabels implements age.RecipientWithLabels.
func (p pluginRecipient) WrapWithLabels(fileKey []byte) ([]*age.Stanza, []string, error) {
	var asked question
	client, err := plugin.NewRecipient(string(p), asked.refuse())
	if err != nil {
		return nil, nil, err
	}
	stanzas, labels, err := client.WrapWithLabels(fileKey)
	return stanzas, labels, asked.explain(err)
}

// question is what a plugin wanted to ask or tell the user, who is not there.
type question string

var errNoUser = errors.New("there is nobody to answer")

func (q *question) refuse() *plugin.ClientUI {
	return &plugin.ClientUI{
		DisplayMessage: func(_, message string) error {
			*q = question(message)
			return errNoUser
		},
		RequestValue: func(_, prompt string, _ bool) (string, error) {
			*q = question(prompt)
			return "", errNoUser
		},
		Confirm: func(_, prompt, _, _ string) (bool, error) {
			*q = question(prompt)
			return false, errNoUser
		},
	}
}

func (q *question) explain(err error) error {
	if err == nil || *q == "" {
		return err
	}
	return fmt.Errorf("plugin wants to interact (%q), %w: %w", string(*q), errNoUser, err)
}
