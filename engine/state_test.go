package engine_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// viewOf finds the file in which a machine keeps its view of the collectors.
func viewOf(t *testing.T, state string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(state, "*", "view"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return found[0]
}

// The view names all packs that were ever deleted, so it is not written with each
// snapshot: only if it says something new, or grows old.
func TestViewIsWrittenWhenItHasTo(t *testing.T) {
	s := newStage(t)
	file := viewOf(t, s.state)
	written := func() bool {
		t.Helper()
		before, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		s.snapshot(s.dir)
		after, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return !os.SameFile(before, after)
	}
	for _, process := range []string{"open", "reopened"} {
		if process == "reopened" {
			s.testRepo = s.reopen(s.store)
		}
		if written() {
			t.Error(process, "repository: the same view was written again")
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, flipMiddle.do(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s.testRepo = s.reopen(s.store)
	if !written() {
		t.Error("a view with a wrong bit was believed")
	}
	s.condemn(1)
	if !written() {
		t.Error("a new generation was not written")
	}
	s.finalise(1)
	old := time.Now().Add(-40 * time.Minute)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	s.testRepo = s.reopen(s.store)
	if !written() {
		t.Error("a view that is 40 minutes old was not written")
	}
}
