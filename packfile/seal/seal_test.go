package seal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

var testKey = Key{Secret: [32]byte{1, 2, 3}, Family: [16]byte{4, 5, 6}}

// constantly replaces the kernel's randomness, as in a virtual machine that is
// resumed again and again from one image.
func constantly(s *Sealer) *Sealer {
	s.randomly = func(b []byte) { clear(b) }
	return s
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}

func text(n int) []byte {
	return bytes.Repeat([]byte("all work and no play makes jack a dull boy\n"), n/43+1)[:n]
}

func TestRoundTrip(t *testing.T) {
	sealers := []*Sealer{New(testKey, Default), New(testKey, Fastest), New(testKey, Better)}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(sealers).Draw(t, "sealer")
		unit := Unit(rapid.IntRange(int(DataFrame), int(Damage)).Draw(t, "unit"))
		content := append(noise(rapid.IntRange(0, 1<<16).Draw(t, "noise")), text(rapid.IntRange(0, 1<<18).Draw(t, "text"))...)
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "prefix")

		sealed := s.Seal(bytes.Clone(prefix), unit, content, content)
		if !bytes.HasPrefix(sealed, prefix) {
			t.Fatal("Seal changed what dst held")
		}
		sealed = sealed[len(prefix):]
		if len(sealed) > len(content)+Overhead {
			t.Fatalf("%d bytes sealed into %d", len(content), len(sealed))
		}
		opened, err := s.Open(bytes.Clone(prefix), unit, sealed, len(content))
		if err != nil || !bytes.Equal(opened, append(prefix, content...)) {
			t.Fatalf("opened %d bytes of %d: %v", len(opened), len(content), err)
		}
	})
}

func TestContentCompresses(t *testing.T) {
	for level := Default; level <= Better; level++ {
		if n := len(New(testKey, level).Seal(nil, DataFrame, nil, text(1<<20))); n > 1<<14 {
			t.Errorf("level %d: 1 MiB of repeated text takes %d bytes", level, n)
		}
	}
}

func TestSealUsesTheRoomOfDst(t *testing.T) {
	for _, content := range [][]byte{text(1 << 20), noise(1 << 20), noise(1), nil} {
		dst := make([]byte, 3, 4+len(content)+Overhead+maxExpansion(len(content)))
		if sealed := New(testKey, Default).Seal(dst, DataFrame, content, content); &sealed[0] != &dst[0] {
			t.Errorf("%d bytes of content: Seal allocated although dst had room", len(content))
		}
	}
}

func TestMaxContent(t *testing.T) {
	s := New(testKey, Fastest)
	content := make([]byte, MaxContent)
	if got, err := s.Open(nil, Segment, s.Seal(nil, Segment, nil, content), MaxContent); err != nil || !bytes.Equal(got, content) {
		t.Errorf("MaxContent: %d bytes, %v", len(got), err)
	}
	defer func() {
		if recover() == nil {
			t.Error("sealing more than MaxContent does not panic")
		}
	}()
	s.Seal(nil, Segment, nil, make([]byte, MaxContent+1))
}

// Whatever is changed in a unit, it does not open, and dst stays as it was.
func TestTampering(t *testing.T) {
	s := New(testKey, Default)
	for name, content := range map[string][]byte{"stored": noise(20), "compressed": text(200), "empty": nil} {
		sealed := s.Seal(nil, DataFrame, content, content)
		for bit := range 8 * len(sealed) {
			altered := bytes.Clone(sealed)
			altered[bit/8] ^= 1 << (bit % 8)
			mustNotOpen(t, s, DataFrame, altered, name)
		}
		for n := range len(sealed) {
			mustNotOpen(t, s, DataFrame, bytes.Clone(sealed[:n]), name)
			mustNotOpen(t, s, DataFrame, append(bytes.Clone(sealed[:n]), sealed[n+1:]...), name)
		}
		mustNotOpen(t, s, DataFrame, append(bytes.Clone(sealed), 0), name)
	}
}

func TestConfusion(t *testing.T) {
	s := New(testKey, Default)
	sealed := s.Seal(nil, DataFrame, nil, []byte("content"))
	for unit := Unit(0); unit < 20; unit++ {
		if unit != DataFrame {
			mustNotOpen(t, s, unit, bytes.Clone(sealed), unit.String())
		}
	}
	secret, family := testKey, testKey
	secret.Secret[31]++
	family.Family[15]++
	mustNotOpen(t, New(secret, Default), DataFrame, bytes.Clone(sealed), "other secret")
	mustNotOpen(t, New(family, Default), DataFrame, bytes.Clone(sealed), "other family")
	mustNotOpen(t, s.At("name"), DataFrame, bytes.Clone(sealed), "with a name")
	named := s.At("name").Seal(nil, DataFrame, nil, []byte("content"))
	for _, name := range []string{"", "nam", "names", "mane"} {
		mustNotOpen(t, s.At(name), DataFrame, bytes.Clone(named), name)
	}
	if _, err := s.At("other").At("name").Open(nil, DataFrame, named, 100); err != nil {
		t.Errorf("the unit does not open under its name: %v", err)
	}
	if _, err := s.Open(nil, DataFrame, sealed, 100); err != nil {
		t.Errorf("the unit itself does not open: %v", err)
	}
}

func mustNotOpen(t *testing.T, s *Sealer, unit Unit, sealed []byte, what string) {
	t.Helper()
	dst := []byte("kept")
	got, err := s.Open(dst, unit, sealed, MaxContent)
	if !errors.Is(err, ErrDamaged) || string(got) != "kept" {
		t.Fatalf("%s: opened %q, %v; want nothing and ErrDamaged", what, got, err)
	}
}

func TestLimit(t *testing.T) {
	s := New(testKey, Default)
	for _, content := range [][]byte{noise(100), text(100)} {
		for _, limit := range []int{-1 << 63, -1, 0, 99} {
			if _, err := s.Open(nil, Footer, s.Seal(nil, Footer, nil, content), limit); !errors.Is(err, ErrDamaged) {
				t.Errorf("100 bytes open with a limit of %d: %v", limit, err)
			}
		}
		if _, err := s.Open(nil, Footer, s.Seal(nil, Footer, nil, content), 100); err != nil {
			t.Errorf("100 bytes do not open with a limit of 100: %v", err)
		}
	}
}

// With the same randomness, two units share their key and nonce only if they
// are equal altogether: otherwise their exclusive-or would reveal both.
func TestRepeatedRandomness(t *testing.T) {
	ids := []byte("identity")
	reference := constantly(New(testKey, Default)).Seal(nil, DataFrame, ids, text(1000))
	if again := constantly(New(testKey, Default)).Seal(nil, DataFrame, ids, text(1000)); !bytes.Equal(again, reference) {
		t.Error("equal units with equal randomness differ: the salt takes something unknown")
	}

	salts := map[string]string{string(reference[:saltSize]): "reference"}
	for name, sealed := range map[string][]byte{
		"other identity":           constantly(New(testKey, Default)).Seal(nil, DataFrame, []byte("other"), text(1000)),
		"other content":            constantly(New(testKey, Default)).Seal(nil, DataFrame, ids, text(1001)),
		"stored":                   constantly(New(testKey, Default)).Seal(nil, DataFrame, ids, noise(20)),
		"stored, another identity": constantly(New(testKey, Default)).Seal(nil, DataFrame, []byte("other"), noise(20)),
		"stored, another length":   constantly(New(testKey, Default)).Seal(nil, DataFrame, ids, noise(21)),
	} {
		salt := string(sealed[:saltSize])
		if other, ok := salts[salt]; ok {
			t.Errorf("%q and %q have the same salt", name, other)
		}
		salts[salt] = name
	}
}

// The same blobs compress to other bytes at another level.
func TestLevelsDoNotShareASalt(t *testing.T) {
	content := append(text(5000), append(noise(5000), text(5000)...)...)
	a := constantly(New(testKey, Fastest)).Seal(nil, DataFrame, []byte("ids"), content)
	b := constantly(New(testKey, Better)).Seal(nil, DataFrame, []byte("ids"), content)
	if bytes.Equal(a, b) {
		t.Fatal("the levels compress alike: the test needs other content")
	}
	if bytes.Equal(a[:saltSize], b[:saltSize]) {
		t.Error("two bodies are encrypted under one key and nonce")
	}
}

// A pending snapshot and the published one have equal content. GCM with two
// additional data under one key and nonce would give away its authentication key.
func TestUnitsDoNotShareAKey(t *testing.T) {
	s := constantly(New(testKey, Default))
	a := s.Seal(nil, Pending, []byte("m"), []byte("manifest"))
	b := s.Seal(nil, Snapshot, []byte("m"), []byte("manifest"))
	if bytes.Equal(a[saltSize:len(a)-tagSize], b[saltSize:len(b)-tagSize]) {
		t.Error("two units of equal content have equal ciphertexts")
	}
}

// All tombstones of a kind have equal content.
func TestNamesDoNotShareAKey(t *testing.T) {
	s := constantly(New(testKey, Default))
	a := s.At("snapshots/a").Seal(nil, Tombstone, []byte{1}, []byte{1})
	b := s.At("snapshots/b").Seal(nil, Tombstone, []byte{1}, []byte{1})
	if bytes.Equal(a[saltSize:len(a)-tagSize], b[saltSize:len(b)-tagSize]) {
		t.Error("units of equal content have equal ciphertexts under two names")
	}
}

func TestResealSealsForTheName(t *testing.T) {
	s := New(testKey, Default)
	sealed := s.At("here").Seal(nil, Label, nil, []byte("content"))
	again, err := s.At("here").Reseal(nil, Label, nil, sealed, s.At("there"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.At("there").Open(nil, Label, again, 100); err != nil {
		t.Error(err)
	}
}

func TestFreshRandomness(t *testing.T) {
	s := New(testKey, Default)
	seen := map[string]bool{}
	for range 100 {
		seen[string(s.Seal(nil, DataFrame, nil, nil)[:saltSize])] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d salts for 100 units", len(seen))
	}
}

func TestParallelUse(t *testing.T) {
	s := New(testKey, Default)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			content := append(text(10_000*g), noise(1000*g)...)
			var sealed, opened []byte
			for range 30 {
				sealed = s.Seal(sealed[:0], DataFrame, content, content)
				var err error
				if opened, err = s.Open(opened[:0], DataFrame, sealed, len(content)); err != nil || !bytes.Equal(opened, content) {
					t.Errorf("goroutine %d: opened %d bytes of %d: %v", g, len(opened), len(content), err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestUnitsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for unit := DataFrame; unit <= Damage; unit++ {
		seen[unit.String()] = true
	}
	if len(seen) != 13 || seen[""] {
		t.Errorf("names of 13 units: %v", seen)
	}
	if got := Unit(99).String(); got != "unit 99" {
		t.Errorf("unknown unit is called %q", got)
	}
}
