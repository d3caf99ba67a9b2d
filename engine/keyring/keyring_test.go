package keyring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

var (
	repo  = config.ID{1}
	other = config.ID{2}
)

// must turns a failed preparation into a panic: it cannot fail in these tests.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// identityHolder returns a new identity and its holder.
func identityHolder() (age.Identity, Holder) {
	file, _, err := NewIdentity()
	identities := must(ParseIdentities(strings.NewReader(file)))
	return identities[0], must(NewIdentityHolder(must(identities[0], err)))
}

func withIdentity(i age.Identity) Credentials { return Credentials{Identities: []age.Identity{i}} }

func TestEveryKindOpens(t *testing.T) {
	installPlugin(t)
	identity, x25519 := identityHolder()
	post := must(age.GenerateHybridIdentity())
	for _, tc := range []struct {
		kind   Kind
		holder Holder
		opens  Credentials
	}{
		{Passphrase, must(NewPassphrase("correct horse")), Credentials{Passphrase: "correct horse"}},
		{X25519, x25519, withIdentity(identity)},
		{X25519, must(ParseRecipient(x25519.text)), withIdentity(identity)},
		{Hybrid, must(NewIdentityHolder(post)), withIdentity(post)},
		{Hybrid, must(ParseRecipient(post.Recipient().String())), withIdentity(post)},
		{Plugin, pluginHolder(t, "quiet"), pluginCredentials(t, "quiet")},
		{Plain, NewPlain(), Credentials{Insecure: true}},
	} {
		t.Run(tc.kind.String(), func(t *testing.T) {
			store, m := mem.New(), NewMaterial()
			holder := must(tc.holder.WithComment("der Käpt'n"))
			keys, err := Create(t.Context(), store, repo, m, holder)
			if err != nil {
				t.Fatal(err)
			}
			if k := keys[0]; k.Kind != tc.kind || k.Comment != "der Käpt'n" || k.Fingerprint != m.Fingerprint() || k.Recipient != tc.holder.text {
				t.Errorf("key is %+v", k)
			}
			got, key, err := Unlock(t.Context(), store, repo, tc.opens)
			if err != nil || got != m || key != keys[0] {
				t.Errorf("Unlock = %v, %v, %v", got, key, err)
			}
			got, key, err = UnlockKey(t.Context(), store, repo, keys[0].ID, tc.opens)
			if err != nil || got != m || key != keys[0] {
				t.Errorf("UnlockKey = %v, %v, %v", got, key, err)
			}
			if _, _, err := Unlock(t.Context(), store, repo, Credentials{}); !errors.Is(err, ErrWrongKey) {
				t.Errorf("without credentials: %v, want ErrWrongKey", err)
			}
		})
	}
}

func TestEveryHolderOpens(t *testing.T) {
	store, m := mem.New(), NewMaterial()
	alice, aliceHolder := identityHolder()
	bob, bobHolder := identityHolder()
	keys, err := Create(t.Context(), store, repo, m, aliceHolder, must(NewPassphrase("one")), bobHolder)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []Credentials{withIdentity(alice), {Passphrase: "one"}, withIdentity(bob)} {
		if got, key, err := Unlock(t.Context(), store, repo, c); err != nil || got != m || key != keys[i] {
			t.Errorf("holder %d: %v, %v, %v", i, got, key, err)
		}
	}
}

func TestWrongCredentialsSayWhatWasTriedAndWhoCan(t *testing.T) {
	store := mem.New()
	_, ci := identityHolder()
	stranger, _ := identityHolder()
	ops := must(must(NewPassphrase("right")).WithComment("ops"))
	ci = must(ci.WithComment("ci"))
	if _, err := Create(t.Context(), store, repo, NewMaterial(), ops, ci, NewPlain()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		c     Credentials
		tried string
	}{
		{Credentials{}, "tried nothing;"},
		{Credentials{Passphrase: "wrong"}, "tried a passphrase;"},
		{withIdentity(stranger), "tried an identity;"},
		{Credentials{Passphrase: "wrong", Identities: []age.Identity{stranger, stranger}}, "tried a passphrase and 2 identities;"},
	} {
		_, _, err := Unlock(t.Context(), store, repo, tc.c)
		if !errors.Is(err, ErrWrongKey) || errors.Is(err, ErrDamaged) {
			t.Fatalf("%v: %v, want ErrWrongKey alone", tc.c, err)
		}
		for _, want := range []string{tc.tried, "it can be opened with:", `passphrase "ops"`, ci.text + ` "ci"`, "plain key (not encrypted)"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: message %q lacks %q", tc.c, err, want)
			}
		}
	}
}

func TestWrongKeyOfOneKey(t *testing.T) {
	store := mem.New()
	keys := must(Create(t.Context(), store, repo, NewMaterial(), must(NewPassphrase("right"))))
	if _, _, err := UnlockKey(t.Context(), store, repo, keys[0].ID, Credentials{Passphrase: "wrong"}); !errors.Is(err, ErrWrongKey) {
		t.Errorf("wrong passphrase: %v, want ErrWrongKey", err)
	}
	if _, _, err := UnlockKey(t.Context(), store, repo, ID{7}, Credentials{}); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("no such key: %v, want ErrNotExist", err)
	}
	if _, _, err := UnlockKey(t.Context(), store, other, keys[0].ID, Credentials{Passphrase: "right"}); !errors.Is(err, ErrDamaged) {
		t.Errorf("another repository: %v, want ErrDamaged", err)
	}
}

func TestPlainKeyNeedsPermission(t *testing.T) {
	store := mem.New()
	if _, err := Create(t.Context(), store, repo, NewMaterial(), NewPlain()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Unlock(t.Context(), store, repo, Credentials{Passphrase: "x"}); !errors.Is(err, ErrWrongKey) {
		t.Errorf("Unlock = %v, want ErrWrongKey", err)
	}
}

func TestRepositoryWithoutKeysIsDamaged(t *testing.T) {
	store := mem.New()
	if _, _, err := Unlock(t.Context(), store, repo, Credentials{Passphrase: "x"}); !errors.Is(err, ErrDamaged) || errors.Is(err, ErrWrongKey) {
		t.Errorf("empty store: %v, want ErrDamaged alone", err)
	}
	if _, err := Create(t.Context(), store, other, NewMaterial(), NewPlain()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Unlock(t.Context(), store, repo, Credentials{Insecure: true}); !errors.Is(err, ErrDamaged) {
		t.Errorf("only keys of another repository: %v, want ErrDamaged", err)
	}
	if _, err := Create(t.Context(), store, repo, NewMaterial()); !errors.Is(err, ErrInvalid) {
		t.Errorf("Create without holders: %v, want ErrInvalid", err)
	}
}

// TestStoreErrorIsNotAWrongKey: the key that could not be read may be the one.
func TestStoreErrorIsNotAWrongKey(t *testing.T) {
	inner := mem.New()
	a, aHolder := identityHolder()
	b, bHolder := identityHolder()
	keys := must(Create(t.Context(), inner, repo, NewMaterial(), aHolder, bHolder))
	store := fault.New(inner, fault.On(fault.Get, objectName(keys[0].ID), fault.Fail(objectstore.ErrDenied)))
	if _, _, err := Unlock(t.Context(), store, repo, withIdentity(a)); !errors.Is(err, objectstore.ErrDenied) || errors.Is(err, ErrWrongKey) {
		t.Errorf("Unlock = %v, want ErrDenied alone", err)
	}
	if _, _, err := Unlock(t.Context(), store, repo, withIdentity(b)); err != nil {
		t.Errorf("the other key: %v", err)
	}
}

// TestUnlockDuringARotation lists the old key, and finds only the new one.
func TestUnlockDuringARotation(t *testing.T) {
	m, holder := NewMaterial(), NewPlain()
	past := mem.New()
	old := must(Create(t.Context(), past, repo, m, holder))
	present := past.Clone()
	must(Rotate(t.Context(), present, repo, m, old[0].ID, holder))
	store := fault.New(present, fault.Nth(1, fault.Stale(past)))
	if got, _, err := Unlock(t.Context(), store, repo, Credentials{Insecure: true}); err != nil || got != m {
		t.Errorf("Unlock = %v, %v", got, err)
	}
}

// TestUnlockEndsOnAStoreThatLies names a key that is never there.
func TestUnlockEndsOnAStoreThatLies(t *testing.T) {
	past := mem.New()
	must(Create(t.Context(), past, repo, NewMaterial(), NewPlain()))
	store := fault.New(mem.New(), fault.On(fault.List, "", fault.Stale(past)))
	if _, _, err := Unlock(t.Context(), store, repo, Credentials{Insecure: true}); !errors.Is(err, ErrDamaged) {
		t.Errorf("Unlock = %v, want ErrDamaged", err)
	}
}

func TestCancelledContext(t *testing.T) {
	store, m := mem.New(), NewMaterial()
	key := must(Create(t.Context(), store, repo, m, NewPlain()))[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, unlock := Unlock(ctx, store, repo, Credentials{Insecure: true})
	_, list := List(ctx, store, repo)
	_, add := Add(ctx, store, repo, m, NewPlain())
	_, rotate := Rotate(ctx, store, repo, m, key.ID, NewPlain())
	remove := Remove(ctx, store, repo, key.ID)
	for i, err := range []error{unlock, list, add, rotate, remove} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: %v, want context.Canceled", i, err)
		}
	}
}

func TestListIsSortedByAge(t *testing.T) {
	store, m := mem.New(), NewMaterial()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var want []Info
	for _, day := range []int{5, 1, 4, 2, 3, 3} {
		o := must(wrap(repo, m, must(NewPlain().WithComment(fmt.Sprint("day ", day))), start.AddDate(0, 0, day)))
		if err := put(t.Context(), store, o); err != nil {
			t.Fatal(err)
		}
		want = append(want, o.Info)
	}
	slices.SortFunc(want, func(a, b Info) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID.String(), b.ID.String())
	})
	must(Create(t.Context(), store, other, NewMaterial(), NewPlain())) // is of another repository
	got, err := List(t.Context(), store, repo)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("List = %v, %v, want %v", got, err, want)
	}
}

func TestListNamesWhatItCannotRead(t *testing.T) {
	store, m := mem.New(), NewMaterial()
	keys := must(Create(t.Context(), store, repo, m, NewPlain(), NewPlain()))
	putRaw(t, store, keys[0].ID, []byte("garbage"))
	got, err := List(t.Context(), store, repo)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), keys[0].ID.String()) {
		t.Errorf("error %v does not name %v", err, keys[0].ID)
	}
	if !slices.Equal(got, keys[1:]) {
		t.Errorf("List = %v, want %v", got, keys[1:])
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	m := NewMaterial()
	identity, holder := identityHolder()
	secret := identity.(*age.X25519Identity).String()
	c := Credentials{Passphrase: "hunter2", Identities: []age.Identity{identity}}
	h := must(NewPassphrase("hunter2"))
	plugin := pluginCredentials(t, "quiet")
	for _, v := range []any{m, &m, c, h, holder, plugin.Identities[0]} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
			text := fmt.Sprintf(verb, v)
			for _, leak := range []string{
				"hunter2", secret, fmt.Sprintf("%x", m.Data), fmt.Sprintf("%x", m.ID), fmt.Sprint(m.Data[:]), "AGE-PLUGIN", fmt.Sprintf("%x", "hunter2"),
			} {
				if strings.Contains(text, leak) {
					t.Errorf("%T printed with %s shows %q", v, verb, leak)
				}
			}
		}
	}
}

func TestMaterialOfAFamily(t *testing.T) {
	m := NewMaterial()
	s := m.Sibling()
	if s.ID != m.ID || s.Data == m.Data || s.Fingerprint() == m.Fingerprint() {
		t.Error("a sibling must share the id key alone")
	}
	if n := NewMaterial(); n.ID == m.ID || n.Data == m.Data || m.Data == ([32]byte{}) || m.ID == ([32]byte{}) {
		t.Error("new material repeats or is empty")
	}
}

func TestTooManyKeys(t *testing.T) {
	store, m := mem.New(), NewMaterial()
	for range MaxKeys {
		if err := put(t.Context(), store, must(wrap(repo, m, NewPlain(), time.Now()))); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Unlock(t.Context(), store, repo, Credentials{Insecure: true}); err != nil {
		t.Errorf("%d keys: %v", MaxKeys, err)
	}
	if _, err := Add(t.Context(), store, repo, m, NewPlain()); !errors.Is(err, ErrInvalid) {
		t.Errorf("one more: %v, want ErrInvalid", err)
	}
	putRaw(t, store, ID{1}, nil)
	if _, _, err := Unlock(t.Context(), store, repo, Credentials{Insecure: true}); err == nil {
		t.Error("more keys than allowed were read")
	}
}
