package keyring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

const pluginName = "snaptest"

// pluginSecret is what the test plugin keeps for its holders.
const pluginSecret = "AGE-SECRET-KEY-15322EACACM5MUX966E4EY75M8MGDRUFYER3UNFAPGTFUP0HAS0EQ02FGR2"

// TestMain lets the test binary be its own age plugin: the client runs the real
// protocol against a real process.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "age-plugin-"+pluginName {
		os.Exit(pluginMain())
	}
	os.Exit(m.Run())
}

func pluginMain() int {
	p, err := plugin.New(pluginName)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	identity, err := age.ParseX25519Identity(pluginSecret)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p.HandleRecipient(func(data []byte) (age.Recipient, error) {
		if string(data) == "asks" {
			return asking{p}, nil
		}
		return identity.Recipient(), nil
	})
	p.HandleIdentity(func(data []byte) (age.Identity, error) {
		if string(data) == "asks" {
			return asking{p}, nil
		}
		return identity, nil
	})
	return p.Main()
}

// asking is a holder who wants to be asked for a PIN.
type asking struct{ p *plugin.Plugin }

func (a asking) Wrap([]byte) ([]*age.Stanza, error) {
	_, err := a.p.RequestValue("what is the PIN", true)
	return nil, errors.Join(err, errors.New("no PIN"))
}

func (a asking) Unwrap([]*age.Stanza) ([]byte, error) {
	_, err := a.p.RequestValue("what is the PIN", true)
	return nil, errors.Join(err, errors.New("no PIN"))
}

// installPlugin puts the test binary on the PATH under the plugin's name.
func installPlugin(t *testing.T) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(dir, "age-plugin-"+pluginName)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

func pluginHolder(t *testing.T, data string) Holder {
	t.Helper()
	h, err := ParseRecipient(plugin.EncodeRecipient(pluginName, []byte(data)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func pluginCredentials(t *testing.T, data string) Credentials {
	t.Helper()
	ids, err := ParseIdentities(strings.NewReader(plugin.EncodeIdentity(pluginName, []byte(data)) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return Credentials{Identities: ids}
}
