package gc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/gc/idset"
	"github.com/snapctl/snapctl/packfile/blob"
)

// marked returns a mark of some snapshots, trees and ids, in two sets, and what it
// was made of.
func marked(t *testing.T) (m *mark, refs []commit.Ref, ids []blob.ID) {
	t.Helper()
	m = newMark(&Repository{TempDir: t.TempDir()})
	for i := range 5 {
		ref := commit.Ref{ID: blob.ID{byte(i)}, Session: commit.Session(fmt.Sprint("session", i))}
		refs = append(refs, ref)
		m.records[publishedRecord+ref.Key()] = true
	}
	m.records["pending/other"] = true
	for set := range 2 {
		b := idset.NewBuilder(t.TempDir())
		for i := range 300 {
			id := blob.ID{byte(i), byte(i >> 8), byte(set + 1)}
			if i%10 == 0 {
				id[2] = 9 // in both sets
				m.published.visit(id)
			}
			ids = append(ids, id)
			if err := b.Add(id); err != nil {
				t.Fatal(err)
			}
		}
		built, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		m.published.sets = append(m.published.sets, built)
	}
	other := idset.NewBuilder(t.TempDir())
	if err := other.Add(blob.ID{0xff}); err != nil {
		t.Fatal(err)
	}
	set, err := other.Build()
	if err != nil {
		t.Fatal(err)
	}
	m.others.sets = append(m.others.sets, set)
	slices.SortFunc(ids, blob.ID.Compare)
	return m, refs, slices.Compact(ids)
}

func remembered(t *testing.T) (path string, refs []commit.Ref, ids []blob.ID, trees int) {
	t.Helper()
	m, refs, ids := marked(t)
	path = filepath.Join(t.TempDir(), "mark")
	if err := m.remember(path); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside the file: %v, %v", left, err)
	}
	trees = len(m.published.trees)
	if err := m.close(); err != nil {
		t.Error(err)
	}
	return path, refs, ids, trees
}

func TestMarkIsRemembered(t *testing.T) {
	path, refs, ids, trees := remembered(t)
	m := newMark(&Repository{})
	more := append(slices.Clone(refs), commit.Ref{ID: blob.ID{77}, Session: "new"})
	if err := m.recall(path, more); err != nil {
		t.Fatal(err)
	}
	defer m.close()
	var got []blob.ID
	live := m.ascend()
	for ; live.err == nil; live.step() {
		if !live.blob.published {
			t.Errorf("%v is not reached from a published snapshot", live.blob.id)
		}
		got = append(got, live.blob.id)
	}
	if live.err != io.EOF {
		t.Fatal(live.err)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("%d ids, want %d", len(got), len(ids))
	}
	if len(m.records) != len(refs) || len(m.published.trees) != trees {
		t.Errorf("%d records, %d trees; want %d, %d", len(m.records), len(m.published.trees), len(refs), trees)
	}
	for _, id := range ids {
		if has, err := m.has(id); !has || err != nil {
			t.Fatalf("%v: %v, %v", id, has, err)
		}
	}
	if has, err := m.has(blob.ID{0xff}); has || err != nil {
		t.Errorf("what only an attempt reached was remembered: %v", err)
	}
}

// nothing fails the test unless the file is of no use, and leaves no trace.
func nothing(t *testing.T, path string, refs []commit.Ref, what string) {
	t.Helper()
	m := newMark(&Repository{})
	if err := m.recall(path, refs); !errors.Is(err, errNoMemory) {
		t.Errorf("%s: %v", what, err)
	}
	if len(m.records)+len(m.published.trees)+len(m.published.sets) > 0 {
		t.Errorf("%s: something was taken from it", what)
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}

// If one snapshot is not published any more, what only it reached is dead.
func TestMarkOfForgottenSnapshotIsOfNoUse(t *testing.T) {
	path, refs, _, _ := remembered(t)
	for i := range refs {
		nothing(t, path, slices.Delete(slices.Clone(refs), i, i+1), refs[i].Key())
	}
}

// A file that lost a bit or its end must never make a live blob look dead.
func TestDamagedMarkIsOfNoUse(t *testing.T) {
	path, refs, _, _ := remembered(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(whole); i += 7 {
		damaged := slices.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		nothing(t, path, refs, fmt.Sprintf("a bit of byte %d", i))
	}
	for _, n := range []int{0, 1, memoryHeader - 1, memoryHeader, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		nothing(t, path, refs, fmt.Sprintf("%d bytes", n))
	}
	if err := os.WriteFile(path, append(slices.Clone(whole), 0), 0o600); err != nil {
		t.Fatal(err)
	}
	nothing(t, path, refs, "a byte more")
}

func FuzzRecall(f *testing.F) {
	f.Add([]byte(memoryMagic))
	f.Add(append([]byte(memoryMagic), make([]byte, 24+32)...))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "mark")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		m := newMark(&Repository{})
		m.recall(path, nil) // any answer but a panic
		m.close()
	})
}
