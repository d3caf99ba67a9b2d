package idset

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/snapctl/snapctl/packfile/blob"
)

func id(n uint32) blob.ID {
	var id blob.ID
	binary.BigEndian.PutUint32(id[:], n*2654435761) // spread, and one to one
	id[31] = 1
	return id
}

// build makes a set with runs of the given length.
func build(t interface {
	Helper()
	Fatal(...any)
}, dir string, run int, ids []blob.ID) *Set {
	t.Helper()
	b := NewBuilder(dir)
	b.size = run
	if err := b.Add(ids...); err != nil {
		t.Fatal(err)
	}
	set, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestSetIsASet(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Uint32Range(1, 900), 0, 2000).Draw(t, "numbers")
		run := rapid.IntRange(2, 2500).Draw(t, "run")
		ids := make([]blob.ID, len(numbers))
		want := map[blob.ID]bool{}
		for i, n := range numbers {
			ids[i] = id(n)
			want[ids[i]] = true
		}
		set := build(t, dir, run, ids)
		defer set.Close()
		if set.Len() != len(want) {
			t.Fatalf("%d ids, want %d", set.Len(), len(want))
		}
		var last blob.ID
		seen := 0
		next := set.Ascend()
		for range len(want) {
			id, err := next()
			if err != nil || !want[id] || seen > 0 && last.Compare(id) >= 0 {
				t.Fatalf("id %v behind %v, %v", id, last, err)
			}
			last = id
			seen++
		}
		for range 2 {
			if id, err := next(); err != io.EOF {
				t.Fatalf("%v, %v behind the last", id, err)
			}
		}
		for n := range uint32(1000) {
			has, err := set.Has(id(n))
			if err != nil || has != want[id(n)] {
				t.Fatalf("Has(%d) = %v, %v", n, has, err)
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

// Ids that come again and again take no more room than once.
func TestDuplicatesNeedNoRun(t *testing.T) {
	b := NewBuilder(t.TempDir())
	b.size = 100
	for range 1000 {
		for n := range uint32(50) {
			if err := b.Add(id(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(b.runs) > 0 {
		t.Errorf("%d runs were written", len(b.runs))
	}
}

func TestMissingDirectoryIsSaid(t *testing.T) {
	b := NewBuilder(t.TempDir() + "/none")
	b.size = 4
	var err error
	for n := uint32(1); n < 10 && err == nil; n++ {
		err = b.Add(id(n))
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// What a set reads from its file after that was closed is an error, not an absence.
func TestReadErrorsAreSaid(t *testing.T) {
	ids := thousand()
	set := build(t, t.TempDir(), 100, ids)
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	sorted := slices.SortedFunc(slices.Values(ids), blob.ID.Compare)
	if _, err := set.Has(sorted[1]); err == nil {
		t.Error("Has did not fail")
	}
	if _, err := set.Ascend()(); err == nil || err == io.EOF {
		t.Error("Ascend did not fail:", err)
	}
}

func thousand() []blob.ID {
	ids := make([]blob.ID, 1000)
	for i := range ids {
		ids[i] = id(uint32(i + 1))
	}
	return ids
}

// A file that was cut must not make what is missing look dead.
func TestCutFileIsAnError(t *testing.T) {
	ids := thousand()
	set := build(t, t.TempDir(), 100, ids)
	defer set.Close()
	if err := set.file.Truncate(set.start + 500*blob.IDSize); err != nil {
		t.Fatal(err)
	}
	next := set.Ascend()
	for range 500 {
		if _, err := next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func BenchmarkHas(b *testing.B) {
	const n = 2 << 20
	builder := NewBuilder(b.TempDir())
	for i := range uint32(n) {
		if err := builder.Add(id(i + 1)); err != nil {
			b.Fatal(err)
		}
	}
	set, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	defer set.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := set.Has(id(rand.Uint32N(2 * n))); err != nil {
			b.Fatal(err)
		}
	}
}
