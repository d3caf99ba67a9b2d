package seal

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestResealOpensUnderTheOtherKey(t *testing.T) {
	from := New(Key{Secret: [32]byte{1}, Family: [16]byte{2}}, Default)
	for name, to := range map[string]*Sealer{
		"same key":     New(Key{Secret: [32]byte{1}, Family: [16]byte{2}}, Fastest),
		"other key":    New(Key{Secret: [32]byte{9}, Family: [16]byte{2}}, Default),
		"other family": New(Key{Secret: [32]byte{1}, Family: [16]byte{3}}, Default),
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				content := rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 300).Draw(t, "content")
				sealed := from.Seal(nil, DataFrame, content, content)
				again, err := from.Reseal([]byte("before"), DataFrame, content, slices.Clone(sealed), to)
				if err != nil || !bytes.HasPrefix(again, []byte("before")) {
					t.Fatalf("reseal: %q, %v", again, err)
				}
				again = again[len("before"):]
				if same := bytes.Equal(again, sealed); same != (to.key == from.key) {
					t.Errorf("resealed to the same bytes: %v", same)
				}
				got, err := to.Open(nil, DataFrame, again, len(content))
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("opened %q, %v; want %q", got, err, content)
				}
			})
		})
	}
}

func TestResealRefusesDamage(t *testing.T) {
	from, to := New(Key{Secret: [32]byte{1}}, Default), New(Key{Secret: [32]byte{2}}, Default)
	sealed := from.Seal(nil, DataFrame, []byte("id"), []byte("content"))
	for i := range sealed {
		bad := slices.Clone(sealed)
		bad[i] ^= 1
		dst := []byte("before")
		got, err := from.Reseal(dst, DataFrame, []byte("id"), bad, to)
		if !errors.Is(err, ErrDamaged) || string(got) != "before" {
			t.Fatalf("byte %d: %q, %v", i, got, err)
		}
	}
	for n := range sealed {
		if _, err := from.Reseal(nil, DataFrame, nil, slices.Clone(sealed[:n]), to); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	if _, err := from.Reseal(nil, TreeFrame, nil, slices.Clone(sealed), to); !errors.Is(err, ErrDamaged) {
		t.Errorf("as another unit: %v", err)
	}
}
