//go:build servers

package explore

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestMutants changes the program, one mistake at a time, and searches the scenario
// in which that loses content: it must be found. Each is compiled anew, which takes
// most of the time.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-ldflags=-s -w", "-tags=servers", "-overlay="+m.overlay(t),
				"-run=^TestMutated$", "-v", ".", "-args", "-mutated="+m.scenario)
			output, err := command.CombinedOutput()
			t.Logf("%s", output)
			if err != nil {
				t.Errorf("not caught: %v", err)
			}
		})
	}
}

// overlay writes the mutated files, and the list of them that the go command takes.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for path, text := range m.mutated(t) {
		replace[path] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		if err := os.WriteFile(replace[path], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

var mutated = flag.String("mutated", "", "the scenario that TestMutated searches, for TestMutants")

// TestMutated passes if content is lost. It is run by TestMutants, in a program that
// was mutated.
func TestMutated(t *testing.T) {
	if *mutated == "" {
		return // in the program as it is nothing is lost: see TestScenarios
	}
	s := find(t, *mutated).set(newGround(t))
	s.May = nil // that somebody fails is not what is looked for
	r := Explore(t, s, 5, 300_000)
	if r.Violation == nil {
		t.Fatalf("nothing is lost in %d states, exhausted: %v", r.States, r.Exhausted)
	}
	t.Logf("%v, after %d histories by %d runs; with at most %d interruptions:\n%s", r.Violation.Err, r.Histories, r.Runs, r.Interruptions, r.Violation.Schedule)
	if !regexp.MustCompile("lost content|is not visible").MatchString(r.Violation.Err.Error()) {
		t.Error("that is no loss")
	}
}
