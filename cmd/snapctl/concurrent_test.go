package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
)

// TestTwoProcessesAtOnce lets two processes save different workspaces, then equal
// ones, then the same one, into one repository at the same time. They share their
// local state, of which only one can have each part.
func TestTwoProcessesAtOnce(t *testing.T) {
	m := newMachine(t)
	files := map[string]tree{"a": {}, "b": {}, "c": {}}
	for name, tr := range files {
		for i := range 200 {
			version := uint64(i)
			if name == "c" {
				version += 1000 // b holds the same as a, c does not
			}
			tr.put(t, filepath.Join(m.ws, name), fmt.Sprintf("d%d/f%03d", i%5, i), version)
		}
	}
	repo := m.open()
	want := map[string]tree{}
	for round := range 20 {
		pair := [][2]string{{"a", "b"}, {"a", "c"}, {"b", "b"}}[round%3]
		for i := range 30 { // a and b change alike
			path := fmt.Sprintf("d%d/new%d", i%5, round)
			files["a"].put(t, filepath.Join(m.ws, "a"), path, uint64(round))
			files["b"].put(t, filepath.Join(m.ws, "b"), path, uint64(round))
			files["c"].put(t, filepath.Join(m.ws, "c"), path, uint64(round+2000))
		}
		_, first := m.start("snapshot", filepath.Join(m.ws, pair[0]), "--json")
		_, second := m.start("snapshot", filepath.Join(m.ws, pair[1]), "--json")
		for i, o := range []outcome{first(), second()} {
			if o.code != 0 {
				t.Fatalf("round %d, %s beside %s: exit %d\n%s", round, pair[i], pair[1-i], o.code, o.err)
			}
			id := o.saved(t).Snapshot
			want[id] = tree{}
			for path, version := range files[pair[i]] {
				want[id][path] = version
			}
		}
		sound(t, repo, 0)
	}
	target := filepath.Join(m.dir, "all")
	for id, tr := range want {
		if _, err := repo.Restore(t.Context(), parseSnapshot(t, id), engine.RestoreOptions{Target: target, Delete: true}); err != nil {
			t.Fatal(err)
		}
		if wrong := tr.compare(target); wrong != "" {
			t.Errorf("snapshot %s: %s", id, wrong)
		}
	}
	sound(t, repo, 1)
}

// Another process that holds the local index is no obstacle.
func TestSnapshotWhileTheIndexIsHeld(t *testing.T) {
	m := newMachine(t)
	files := tree{}
	files.put(t, m.ws, "f", 1)
	m.must("snapshot", m.ws)
	holder := m.openAt(m.state)
	if _, err := holder.Stats(t.Context()); err != nil { // opens the index, and keeps it
		t.Fatal(err)
	}
	files.put(t, m.ws, "g", 1)
	saved := m.must("snapshot", m.ws, "--json").saved(t)
	target := filepath.Join(m.dir, "restored")
	m.must("restore", saved.Snapshot, target)
	if wrong := files.compare(target); wrong != "" {
		t.Error(wrong)
	}
	if left, err := filepath.Glob(filepath.Join(m.state, "*", "private", "*")); err != nil || len(left) > 0 {
		t.Errorf("private indexes are left: %q, %v", left, err)
	}
	// Without any local state there is one below /tmp, for the time of the run.
	m.state = ""
	m.home = filepath.Join(m.dir, "no", "home")
	if o := m.run("snapshot", m.ws, "--json"); o.code != 0 || strings.Contains(o.err, "warning") {
		t.Errorf("without local state: exit %d\n%s", o.code, o.err)
	}
	sound(t, m.open(), 1)
}
