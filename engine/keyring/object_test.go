package keyring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/packfile/wire"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func putRaw(t *testing.T, store objectstore.Store, id ID, b []byte) {
	t.Helper()
	if _, err := store.Put(t.Context(), objectName(id), bytes.NewReader(b), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// goldenMaterial is what the golden key objects wrap.
var goldenMaterial = Material{Data: [32]byte{1, 2, 3}, ID: [32]byte{4, 5, 6}}

// TestGoldenKeysOpen holds files that must open for ever.
func TestGoldenKeysOpen(t *testing.T) {
	repository := config.ID{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	identities := must(ParseIdentities(must(os.Open("testdata/v0/identities"))))
	all := Credentials{Passphrase: "correct horse battery staple", Identities: identities, Insecure: true}
	for _, tc := range []struct{ id, kind, recipient string }{
		{"80d4d4de0a2c79841c60584a482f601c", "passphrase", ""},
		{"94b019575dfb1dfe9273b167dea046cc", "x25519", "age1"},
		{"a4efd480fde52bb4a4b94bb8207f3e14", "hybrid", "age1pq1"},
		{"e133818785ea8b3c4060c69028f86938", "plain", ""},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			b := must(os.ReadFile(filepath.Join("testdata/v0", tc.kind)))
			store := mem.New()
			putRaw(t, store, must(ParseID(tc.id)), b)
			m, key, err := Unlock(t.Context(), store, repository, all)
			if err != nil || m != goldenMaterial {
				t.Fatalf("Unlock = %v, %v", m, err)
			}
			if key.Kind.String() != tc.kind || key.Comment != "golden" || !key.Created.Equal(created) || !strings.HasPrefix(key.Recipient, tc.recipient) {
				t.Errorf("key is %+v", key)
			}
			if again := must(DecodeObject(b)).Encode(); !bytes.Equal(again, b) {
				t.Error("it re-encodes to other bytes")
			}
		})
	}
}

func TestFingerprintIsGolden(t *testing.T) {
	if got, want := goldenMaterial.Fingerprint().String(), "8bcfa2469a5eb8cfc566272c6573bf9e"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
}

// damages calls f with every truncation of b, and b with each bit flipped.
func damages(b []byte, f func(what string, i int, bad []byte)) {
	for n := range b {
		f("cut", n, b[:n])
	}
	for i := range b {
		for bit := range 8 {
			bad := bytes.Clone(b)
			bad[i] ^= 1 << bit
			f("flipped", i, bad)
		}
	}
	f("longer", len(b), append(bytes.Clone(b), 0))
}

// TestDamagedObjectsDoNotOpen spoils objects where they lie: their names show it.
func TestDamagedObjectsDoNotOpen(t *testing.T) {
	identity, holder := identityHolder()
	c := withIdentity(identity)
	c.Insecure = true
	for _, h := range []Holder{holder, NewPlain()} {
		o := must(wrap(repo, NewMaterial(), h, time.Now()))
		store := mem.New()
		damages(o.Encode(), func(what string, i int, bad []byte) {
			putRaw(t, store, o.ID, bad)
			if _, _, err := Unlock(t.Context(), store, repo, c); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%v key %s at byte %d: %v, want ErrDamaged", h, what, i, err)
			}
		})
	}
}

// TestForgedObjectsDoNotOpen spoils objects and gives them the name of what
// they became, as somebody who can write to the store does.
func TestForgedObjectsDoNotOpen(t *testing.T) {
	identity, holder := identityHolder()
	for _, tc := range []struct {
		holder Holder
		c      Credentials
	}{
		{must(holder.WithComment("ci")), withIdentity(identity)},
		{NewPlain(), Credentials{Insecure: true}},
	} {
		m := NewMaterial()
		good := must(wrap(repo, m, tc.holder, time.Now())).Encode()
		damages(good, func(what string, i int, bad []byte) {
			o, err := DecodeObject(bad)
			if err != nil {
				return
			}
			if got, err := o.open(tc.c); err == nil {
				t.Fatalf("%v key %s at byte %d opens as %v", tc.holder, what, i, got)
			}
		})
	}
}

func TestEditedDescriptionDoesNotOpen(t *testing.T) {
	identity, holder := identityHolder()
	for name, edit := range map[string]func(*Object){
		"repository":  func(o *Object) { o.Repository = other },
		"comment":     func(o *Object) { o.Comment = "someone else" },
		"recipient":   func(o *Object) { _, h := identityHolder(); o.Recipient = h.text },
		"kind":        func(o *Object) { o.Kind = Plugin },
		"time":        func(o *Object) { o.Created = o.Created.Add(time.Second) },
		"random":      func(o *Object) { o.Random[0]++ },
		"fingerprint": func(o *Object) { o.Fingerprint[0]++ },
	} {
		o := must(wrap(repo, NewMaterial(), holder, time.Now()))
		edit(o)
		o = must(DecodeObject(o.Encode()))
		store := mem.New()
		putRaw(t, store, o.ID, o.Encode())
		if _, _, err := Unlock(t.Context(), store, o.Repository, withIdentity(identity)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s edited: %v, want ErrDamaged", name, err)
		}
	}
}

func TestKeyOfAnotherRepositoryIsPassedOver(t *testing.T) {
	identity, holder := identityHolder()
	me, myself := identityHolder()
	mine, theirs := mem.New(), mem.New()
	m := NewMaterial()
	must(Create(t.Context(), mine, repo, m, myself))
	moved := must(Create(t.Context(), theirs, other, NewMaterial(), holder))[0]
	putRaw(t, mine, moved.ID, must(objectstore.ReadAll(t.Context(), theirs, objectName(moved.ID), MaxObject)))
	if _, _, err := Unlock(t.Context(), mine, repo, withIdentity(identity)); !errors.Is(err, ErrWrongKey) {
		t.Errorf("with the moved key: %v, want ErrWrongKey", err)
	}
	if got, _, err := Unlock(t.Context(), mine, repo, Credentials{Identities: []age.Identity{identity, me}}); err != nil || got != m {
		t.Errorf("with the right key: %v, %v", got, err)
	}
}

// TestDamagedKeyHidesNoOther lets one key open although another is damaged,
// and tells of the damage if none does.
func TestDamagedKeyHidesNoOther(t *testing.T) {
	store, m := mem.New(), NewMaterial()
	a, aHolder := identityHolder()
	b, bHolder := identityHolder()
	keys := must(Create(t.Context(), store, repo, m, aHolder, bHolder))
	putRaw(t, store, keys[0].ID, []byte("garbage"))
	if got, _, err := Unlock(t.Context(), store, repo, withIdentity(b)); err != nil || got != m {
		t.Errorf("the sound key: %v, %v", got, err)
	}
	_, _, err := Unlock(t.Context(), store, repo, withIdentity(a))
	if !errors.Is(err, ErrWrongKey) || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), keys[0].ID.String()) {
		t.Errorf("the damaged key: %v, want ErrWrongKey and ErrDamaged", err)
	}
}

func TestNewerKeySaysSo(t *testing.T) {
	store, m := mem.New(), NewMaterial()
	b := must(wrap(repo, m, NewPlain(), time.Now())).Encode()
	b[len(magic)] = 3
	putRaw(t, store, idOf(b), b)
	var newer *config.VersionError
	if _, _, err := Unlock(t.Context(), store, repo, Credentials{Insecure: true}); !errors.As(err, &newer) || newer.Version != 3 {
		t.Errorf("Unlock = %v, want a VersionError of version 3", err)
	}
	if _, err := List(t.Context(), store, repo); !errors.Is(err, config.ErrNewerVersion) {
		t.Errorf("List = %v, want ErrNewerVersion", err)
	}
}

// TestExpensivePassphraseIsRefused: the work factor stands in the object.
func TestExpensivePassphraseIsRefused(t *testing.T) {
	o := must(wrap(repo, NewMaterial(), must(NewPassphrase("p")), time.Now()))
	for _, factor := range []string{"19", "22", "30", "64"} {
		forged := *o
		forged.Wrapped = bytes.Replace(o.Wrapped, []byte(" 15\n"), []byte(" "+factor+"\n"), 1)
		if bytes.Equal(forged.Wrapped, o.Wrapped) {
			t.Fatal("no work factor of 15 in the age header")
		}
		_, err := forged.open(Credentials{Passphrase: "p"})
		if err == nil || !strings.Contains(err.Error(), "work factor too large") {
			t.Errorf("factor %s: %v, want a refusal", factor, err)
		}
	}
}

func TestMalformedObjectsAreDamaged(t *testing.T) {
	_, holder := identityHolder()
	x25519 := must(wrap(repo, NewMaterial(), holder, time.Now()))
	plain := must(wrap(repo, NewMaterial(), NewPlain(), time.Now()))
	edited := func(o *Object, edit func(*Object)) []byte {
		c := *o
		edit(&c)
		return c.Encode()
	}
	const fixed = 8 + 1 + 1 + 16 + 16 + 16 // bytes before the creation time
	bad := map[string][]byte{
		"another magic":        append([]byte("SNAPPACK"), plain.Encode()[8:]...),
		"kind 0":               edited(plain, func(o *Object) { o.Kind = 0 }),
		"kind 6":               edited(plain, func(o *Object) { o.Kind = 6 }),
		"passphrase recipient": edited(plain, func(o *Object) { o.Kind, o.Recipient = Passphrase, "age1x" }),
		"x25519 alone":         edited(x25519, func(o *Object) { o.Recipient = "" }),
		"escape in recipient":  edited(x25519, func(o *Object) { o.Recipient += "\x1b" }),
		"space in recipient":   edited(x25519, func(o *Object) { o.Recipient += " " }),
		"upper-case recipient": edited(x25519, func(o *Object) { o.Recipient += "A" }),
		"long recipient":       edited(x25519, func(o *Object) { o.Recipient += strings.Repeat("x", MaxRecipient) }),
		"escape in comment":    edited(plain, func(o *Object) { o.Comment = "\x1b[2J" }),
		"comment not UTF-8":    edited(plain, func(o *Object) { o.Comment = "\xff" }),
		"right-to-left":        edited(plain, func(o *Object) { o.Comment = "\u202e" }),
		"long comment":         edited(plain, func(o *Object) { o.Comment = strings.Repeat("x", MaxComment+1) }),
		"after 9999":           edited(plain, func(o *Object) { o.Created = time.Unix(maxSecond+1, 0) }),
		"plain too short":      edited(plain, func(o *Object) { o.Wrapped = o.Wrapped[1:] }),
		"plain too long":       edited(plain, func(o *Object) { o.Wrapped = append(slices.Clone(o.Wrapped), 0) }),
		"too long":             edited(x25519, func(o *Object) { o.Wrapped = make([]byte, MaxObject) }),
		"padded time":          slices.Concat(plain.Encode()[:fixed], []byte{0x80, 0x00}, wire.AppendString(nil, ""), wire.AppendString(nil, ""), plain.Wrapped),
	}
	for name, b := range bad {
		if o, err := DecodeObject(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %+v, %v, want ErrDamaged", name, o, err)
		}
	}
	// The last case is damaged for its padding alone.
	ok := slices.Concat(plain.Encode()[:fixed], binary.AppendUvarint(nil, 0), wire.AppendString(nil, ""), wire.AppendString(nil, ""), plain.Wrapped)
	if _, err := DecodeObject(ok); err != nil {
		t.Errorf("shortest form: %v", err)
	}
}

func TestObjectThatIsTooLongIsNotRead(t *testing.T) {
	store := mem.New()
	putRaw(t, store, ID{1}, make([]byte, MaxObject+1))
	if _, err := List(t.Context(), store, repo); err == nil || !strings.Contains(err.Error(), "larger than the limit") {
		t.Errorf("List = %v, want a limit", err)
	}
}

func TestParseID(t *testing.T) {
	id := ID{0xab, 0xcd}
	if got, err := ParseID(id.String()); err != nil || got != id {
		t.Errorf("ParseID(String) = %v, %v", got, err)
	}
	for _, bad := range []string{"", "ab", strings.Repeat("g", 32), strings.ToUpper(id.String()), id.String() + "00"} {
		if _, err := ParseID(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseID(%q) = %v, want ErrInvalid", bad, err)
		}
	}
}
