package keyring

import (
	"errors"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/plugin"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestNewIdentityIsAnAgeIdentityFile(t *testing.T) {
	file, recipient, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(file, "\n")
	if len(lines) != 4 || lines[3] != "" || lines[1] != "# public key: "+recipient {
		t.Fatalf("file is %q", file)
	}
	created, ok := strings.CutPrefix(lines[0], "# created: ")
	if _, err := time.Parse(time.RFC3339, created); !ok || err != nil {
		t.Errorf("first line is %q: %v", lines[0], err)
	}
	ids, err := age.ParseIdentities(strings.NewReader(file)) // the library that the age program uses
	if err != nil || len(ids) != 1 {
		t.Fatalf("age.ParseIdentities = %v, %v", ids, err)
	}
	if got := ids[0].(*age.X25519Identity).Recipient().String(); got != recipient {
		t.Errorf("recipient %s, want %s", got, recipient)
	}
}

func TestParseIdentities(t *testing.T) {
	x, pq := must(age.GenerateX25519Identity()), must(age.GenerateHybridIdentity())
	text := "# created: today\r\n\r\n" + x.String() + "\r\n\n  " + pq.String() + "  \n" + plugin.EncodeIdentity("yubikey", []byte{1}) + "\n" + x.String()
	ids, err := ParseIdentities(strings.NewReader(text))
	if err != nil || len(ids) != 4 {
		t.Fatalf("ParseIdentities = %d identities, %v, want 4", len(ids), err)
	}
	if got := ids[0].(*age.X25519Identity).String(); got != x.String() {
		t.Error("the first is another identity")
	}
	if got := ids[1].(*age.HybridIdentity).String(); got != pq.String() {
		t.Error("the second is another identity")
	}
}

func TestBadIdentityFilesDoNotShowTheirSecrets(t *testing.T) {
	secret := must(age.GenerateX25519Identity()).String()
	for name, text := range map[string]string{
		"empty":          "",
		"comments alone": "# nothing\n\n",
		"cut":            secret[:len(secret)-1],
		"wrong checksum": secret[:len(secret)-1] + "!",
		"recipient":      "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
		"bad plugin":     "AGE-PLUGIN-X-" + secret,
		"armored":        "-----BEGIN AGE ENCRYPTED FILE-----\n" + secret,
		"encrypted":      "age-encryption.org/v1\n" + secret,
		"long line":      secret + strings.Repeat("A", 1<<17),
		"long file":      strings.Repeat("#\n", 1<<20) + secret,
	} {
		ids, err := ParseIdentities(strings.NewReader(text))
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %d identities, %v, want ErrInvalid", name, len(ids), err)
			continue
		}
		if strings.Contains(err.Error(), secret[20:40]) {
			t.Errorf("%s: message shows the secret: %v", name, err)
		}
	}
}

func TestParseRecipient(t *testing.T) {
	x, pq := must(age.GenerateX25519Identity()), must(age.GenerateHybridIdentity())
	for text, kind := range map[string]Kind{
		x.Recipient().String():                   X25519,
		pq.Recipient().String():                  Hybrid,
		plugin.EncodeRecipient("tpm", []byte{1}): Plugin,
	} {
		if h, err := ParseRecipient(text); err != nil || h.kind != kind || h.text != text {
			t.Errorf("ParseRecipient(%s) = %v, %v, want %v", text, h.kind, err, kind)
		}
	}
	for _, bad := range []string{"", "age1", "age1pq1", "age1x1y", x.String(), strings.ToUpper(x.Recipient().String()), x.Recipient().String() + "q", "ssh-ed25519 AAAA"} {
		_, err := ParseRecipient(bad)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseRecipient(%q) = %v, want ErrInvalid", bad, err)
		} else if bad != "" && strings.Contains(err.Error(), bad) && bad != "age1" {
			t.Errorf("message shows what was pasted: %v", err)
		}
	}
}

func TestHoldersThatCannotBe(t *testing.T) {
	if _, err := NewPassphrase(""); !errors.Is(err, ErrInvalid) {
		t.Errorf("empty passphrase: %v, want ErrInvalid", err)
	}
	for _, comment := range []string{"a\nb", "\x1b[31m", "\xff", "\u0085", "\u202e", "\u2069", "\x7f", strings.Repeat("x", MaxComment+1)} {
		if _, err := NewPlain().WithComment(comment); !errors.Is(err, ErrInvalid) {
			t.Errorf("comment %q: %v, want ErrInvalid", comment, err)
		}
	}
	if _, err := NewPlain().WithComment("Zoë's laptop \U0001FAE0, 2nd floor"); err != nil {
		t.Error(err)
	}
	if _, err := NewIdentityHolder(pluginCredentials(t, "quiet").Identities[0]); !errors.Is(err, ErrInvalid) {
		t.Errorf("plugin identity as holder: %v, want ErrInvalid", err)
	}
	if _, err := Create(t.Context(), mem.New(), repo, NewMaterial(), Holder{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("zero holder: %v, want ErrInvalid", err)
	}
}

func TestPluginThatAsksFails(t *testing.T) {
	installPlugin(t)
	store, m := mem.New(), NewMaterial()
	_, err := Create(t.Context(), store, repo, m, pluginHolder(t, "asks"))
	if !errors.Is(err, errNoUser) || !strings.Contains(err.Error(), "what is the PIN") {
		t.Errorf("wrap: %v, want errNoUser with the question", err)
	}
	must(Create(t.Context(), store, repo, m, pluginHolder(t, "quiet")))
	_, _, err = Unlock(t.Context(), store, repo, pluginCredentials(t, "asks"))
	if !errors.Is(err, ErrWrongKey) || !errors.Is(err, errNoUser) || !strings.Contains(err.Error(), "what is the PIN") {
		t.Errorf("unwrap: %v, want ErrWrongKey and errNoUser with the question", err)
	}
}

// TestMissingPluginDoesNotHideOtherKeys: the program need not be on each machine.
func TestMissingPluginDoesNotHideOtherKeys(t *testing.T) {
	installPlugin(t)
	store, m := mem.New(), NewMaterial()
	mine, other := identityHolder()
	must(Create(t.Context(), store, repo, m, pluginHolder(t, "quiet"), other))
	t.Setenv("PATH", t.TempDir())
	c := pluginCredentials(t, "quiet")
	_, _, err := Unlock(t.Context(), store, repo, c)
	var missing *plugin.NotFoundError
	if !errors.Is(err, ErrWrongKey) || !errors.As(err, &missing) || errors.Is(err, ErrDamaged) {
		t.Errorf("Unlock = %v, want ErrWrongKey and NotFoundError", err)
	}
	c.Identities = append(c.Identities, mine)
	if got, _, err := Unlock(t.Context(), store, repo, c); err != nil || got != m {
		t.Errorf("with an identity: %v, %v", got, err)
	}
}
