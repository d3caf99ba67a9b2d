package keyring

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"filippo.io/age"
	"github.com/snapctl/snapctl/engine/config"
)

// Kind says how a key is wrapped. The values are part of the format; do not change.
type Kind uint8

// The kinds of keys.
const (
	Passphrase Kind = 1 // age scrypt
	X25519     Kind = 2 // an age recipient, age1...
	Plugin     Kind = 3 // a recipient of an age plugin, age1name1...
	Plain      Kind = 4 // not wrapped: it keeps nobody out
	Hybrid     Kind = 5 // a post-quantum age recipient, age1pq1...
)

var kindNames = [...]string{Passphrase: "passphrase", X25519: "x25519", Plugin: "plugin", Plain: "plain", Hybrid: "hybrid"}

// String is one word, as the command line prints it.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

func (k Kind) valid() bool { return k >= Passphrase && k <= Hybrid }

// hasRecipient reports whether a key of the kind names its public recipient.
func (k Kind) hasRecipient() bool { return k == X25519 || k == Plugin || k == Hybrid }

// Info describes a key object: what can be known of it without opening it.
type Info struct {
	ID          ID
	Kind        Kind
	Repository  config.ID
	Fingerprint Fingerprint // of the material that is wrapped
	Created     time.Time   // UTC, whole seconds
	Recipient   string      // of the kinds X25519, Plugin and Hybrid: the public recipient
	Comment     string      // for people: who the holder is
}

// String describes the holder for people, as in `passphrase "ops"`.
func (k Info) String() string {
	name := k.Kind.String()
	switch {
	case k.Kind == Plain:
		name = "plain key (not encrypted)"
	case k.Kind.hasRecipient():
		name = shorten(k.Recipient)
	}
	if k.Comment == "" {
		return name
	}
	return fmt.Sprintf("%s %q", name, k.Comment)
}

// shorten cuts recipients that are no use on a line: a post-quantum one has
// about 2,000 characters. An X25519 recipient has 62.
func shorten(recipient string) string {
	const limit = 80
	if len(recipient) <= limit {
		return recipient
	}
	return recipient[:limit-3] + "..."
}

// Bounds of key objects. What is longer is damaged, or refused by the writer.
const (
	MaxComment   = 256     // bytes
	MaxRecipient = 4 << 10 // bytes
)

// Holder is who a key is wrapped for, and how. The functions NewPassphrase,
// NewPlain, NewIdentityHolder and ParseRecipient make one.
type Holder struct {
	kind      Kind
	recipient age.Recipient // nil for Plain
	text      string        // the public recipient, for kinds that have one
	comment   string
	proof     Credentials // opens the key, if the secret is known
}

// String describes the holder for people.
func (h Holder) String() string {
	return Info{Kind: h.kind, Recipient: h.text, Comment: h.comment}.String()
}

// GoString keeps the secrets out of logs.
func (h Holder) GoString() string { return "keyring.Holder(" + h.String() + ")" }

// WithComment returns the holder with a comment for people, stored in the open:
// at most 256 bytes of UTF-8 without control characters.
func (h Holder) WithComment(comment string) (Holder, error) {
	if err := checkComment(comment); err != nil {
		return Holder{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	h.comment = comment
	return h, nil
}

// workFactor is log2 of the cost of scrypt: 0.1 s and 32 MiB. A passphrase that
// people choose needs more than that, but a repository is opened by every
// command.
const workFactor = 15

// NewPassphrase returns a holder who knows a passphrase, which must not be empty.
func NewPassphrase(passphrase string) (Holder, error) {
	recipient, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return Holder{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	recipient.SetWorkFactor(workFactor)
	return Holder{kind: Passphrase, recipient: recipient, proof: Credentials{Passphrase: passphrase}}, nil
}

// NewPlain returns the holder of a key that is not wrapped: everyone.
func NewPlain() Holder { return Holder{kind: Plain, proof: Credentials{Insecure: true}} }

// NewIdentityHolder returns the holder of an age identity, of which only the
// public half is stored. Identities of plugins do not tell their recipient: use
// ParseRecipient for those.
func NewIdentityHolder(identity age.Identity) (Holder, error) {
	proof := Credentials{Identities: []age.Identity{identity}}
	switch i := identity.(type) {
	case *age.X25519Identity:
		r := i.Recipient()
		return Holder{kind: X25519, recipient: r, text: r.String(), proof: proof}, nil
	case *age.HybridIdentity:
		r := i.Recipient()
		return Holder{kind: Hybrid, recipient: r, text: r.String(), proof: proof}, nil
	}
	return Holder{}, fmt.Errorf("%w: an identity of this type does not tell its recipient", ErrInvalid)
}

// ParseRecipient returns the holder of an age recipient: age1..., age1pq1...
// (post-quantum) or age1name1... (of the plugin age-plugin-name, which is run
// when a key is wrapped).
func ParseRecipient(recipient string) (Holder, error) {
	h, err := parseRecipient(recipient)
	if err == nil {
		err = checkRecipient(h.kind, h.text)
	}
	if err != nil {
		// The text stays out of the message: it may be an identity, pasted by mistake.
		return Holder{}, fmt.Errorf("%w: not an age recipient, which starts with age1", ErrInvalid)
	}
	return h, nil
}

func parseRecipient(text string) (Holder, error) {
	switch {
	case strings.HasPrefix(text, "age1pq1"):
		r, err := age.ParseHybridRecipient(text)
		return Holder{kind: Hybrid, recipient: r, text: text}, err
	case strings.HasPrefix(text, "age1") && strings.Count(text, "1") > 1:
		r, err := newPluginRecipient(text)
		return Holder{kind: Plugin, recipient: r, text: text}, err
	default:
		r, err := age.ParseX25519Recipient(text)
		return Holder{kind: X25519, recipient: r, text: text}, err
	}
}

// checkRecipient holds for every key object: names of plugins may have more
// characters than Bech32 data, but none that a terminal would act on.
func checkRecipient(kind Kind, text string) error {
	if !kind.hasRecipient() {
		if text != "" {
			return fmt.Errorf("a %v key with a recipient", kind)
		}
		return nil
	}
	if !strings.HasPrefix(text, "age1") || len(text) > MaxRecipient {
		return fmt.Errorf("recipient of %d bytes does not start with age1", len(text))
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' || 'A' <= c && c <= 'Z' {
			return fmt.Errorf("recipient %q", text)
		}
	}
	return nil
}

// checkComment keeps control characters out of comments: they are printed on
// terminals, and a key object may come from anyone who can write to the store.
func checkComment(comment string) error {
	if len(comment) > MaxComment || !utf8.ValidString(comment) {
		return fmt.Errorf("comment is not UTF-8 of at most %d bytes", MaxComment)
	}
	if strings.ContainsFunc(comment, isControl) {
		return fmt.Errorf("comment %q holds a control character", comment)
	}
	return nil
}

// isControl tells the characters that a terminal acts on: C0, DEL, C1, the line
// and paragraph separators and those that turn the direction of text. The list
// is part of the format: it must not change with the Unicode tables of a release.
func isControl(r rune) bool {
	switch {
	case r < ' ', '\x7f' <= r && r <= '\u009f', r == '\u200e', r == '\u200f':
		return true
	}
	return '\u2028' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069'
}
