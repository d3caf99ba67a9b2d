package keyring

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/snapctl/snapctl/engine/config"
)

// Credentials are the secrets to try on the keys of a repository. The zero value
// opens nothing.
type Credentials struct {
	Passphrase string         // empty if there is none
	Identities []age.Identity // see ParseIdentities
	// Insecure allows a key that is not wrapped. Without it, a store that
	// turns into an unencrypted repository overnight does not open.
	Insecure bool
}

// maxWorkFactor bounds what a hostile key object can cost: 2^18 is 1 s and
// 256 MiB, and what the age program uses by itself. Version 0 writes 15.
const maxWorkFactor = 18

// forKind returns the age identities that may open a key of the kind. Plugin
// identities are tried on native recipients as well: a plugin may keep the
// secret of one.
func (c Credentials) forKind(kind Kind) []age.Identity {
	if kind.hasRecipient() {
		return c.Identities
	}
	if kind != Passphrase || c.Passphrase == "" {
		return nil
	}
	identity, err := age.NewScryptIdentity(c.Passphrase)
	if err != nil {
		return nil // only for an empty passphrase
	}
	identity.SetMaxWorkFactor(maxWorkFactor)
	return []age.Identity{identity}
}

// String says for people what the credentials are, not what they hold.
func (c Credentials) String() string {
	var parts []string
	if c.Passphrase != "" {
		parts = append(parts, "a passphrase")
	}
	switch n := len(c.Identities); {
	case n == 1:
		parts = append(parts, "an identity")
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d identities", n))
	}
	if c.Insecure {
		parts = append(parts, "plain keys")
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " and ")
}

// GoString keeps the secrets out of logs.
func (c Credentials) GoString() string { return "keyring.Credentials(" + c.String() + ")" }

// wrap makes the key object of a holder, and opens it again before it leaves
// the process if the holder's secret is known.
func wrap(repository config.ID, m Material, h Holder, created time.Time) (*Object, error) {
	if !h.kind.valid() {
		return nil, fmt.Errorf("%w: empty holder", ErrInvalid)
	}
	o := &Object{Info: Info{
		Kind: h.kind, Repository: repository, Fingerprint: m.Fingerprint(),
		Created: created.UTC().Truncate(time.Second), Recipient: h.text, Comment: h.comment,
	}}
	rand.Read(o.Random[:])
	wrapped, err := encrypt(h.recipient, o.content(m))
	if err != nil {
		return nil, fmt.Errorf("wrap key for %v: %w", o.Info, err)
	}
	o.Wrapped = wrapped
	o, err = DecodeObject(o.Encode())
	if err != nil {
		return nil, fmt.Errorf("wrap key for %v %q: %w", h.kind, h.comment, err)
	}
	if h.proof.canTry(o.Kind) {
		_, err = o.open(h.proof) // checks the fingerprint, hence the material
	}
	if err != nil {
		return nil, fmt.Errorf("wrap key for %v: it does not open again: %w", o.Info, err)
	}
	return o, nil
}

// encrypt returns content itself if there is no recipient.
func encrypt(recipient age.Recipient, content []byte) ([]byte, error) {
	if recipient == nil {
		return content, nil
	}
	var file bytes.Buffer
	w, err := age.Encrypt(&file, recipient)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return file.Bytes(), nil
}

// errNoMatch says that the credentials are not those of the holder.
var errNoMatch = errors.New("wrapped for another holder")

func (c Credentials) canTry(kind Kind) bool {
	return kind == Plain && c.Insecure || len(c.forKind(kind)) > 0
}

// open unwraps the material. errNoMatch says that the credentials do not fit;
// other errors that the key or a plugin is at fault.
func (o *Object) open(c Credentials) (Material, error) {
	if !c.canTry(o.Kind) {
		return Material{}, errNoMatch
	}
	if o.Kind == Plain {
		return o.material(o.Wrapped)
	}
	r, err := age.Decrypt(bytes.NewReader(o.Wrapped), c.forKind(o.Kind)...)
	var content []byte
	if err == nil {
		content, err = io.ReadAll(io.LimitReader(r, contentSize+1))
	}
	switch {
	case errors.Is(err, age.ErrIncorrectIdentity):
		return Material{}, errNoMatch
	case err != nil:
		return Material{}, fmt.Errorf("unwrap key %v: %w", o.ID, err)
	}
	return o.material(content)
}
