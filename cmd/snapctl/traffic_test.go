//go:build servers

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore/s3/s3test"
)

// TestTraffic holds the program to what docs/object-stores.md says it costs, as it
// counts itself.
func TestTraffic(t *testing.T) {
	server := s3test.Start(t)
	dir := t.TempDir()
	m := machineAt(t, dir, server.URL("traffic"), filepath.Join(dir, "state"))
	m.env = server.Environ()
	m.must("init")
	edit := func(content string) {
		if err := os.WriteFile(filepath.Join(m.ws, "f"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	costs := func(want string, args ...string) {
		t.Helper()
		talk := m.must(append(args, "--verbose")...).err
		if !regexp.MustCompile(want).MatchString(talk) {
			t.Errorf("%v does not cost %q: %s", args, want, talk)
		}
	}
	edit("one")
	m.must("snapshot", m.ws)
	edit("two")
	costs(`: 9 requests \(4 put, 2 get, 0 stat, 2 list, 1 delete; 0 made again\)`, "snapshot", m.ws)
	costs(`: 5 requests \(0 put, 2 get, 1 stat, 2 list, 0 delete; 0 made again\)`, "snapshot", m.ws, "--skip-unchanged")
	incompressible(t, filepath.Join(m.ws, "g"), 3<<20)
	costs(`, 3\.0 MiB sent,`, "snapshot", m.ws) // once, though it is read twice: for a checksum
	if left := m.must("list").out; strings.Count(left, "\n") != 4 {
		t.Errorf("listed:\n%s", left)
	}
}
