package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExclusiveRename runs what replaces a hard link where there are none.
func TestExclusiveRename(t *testing.T) {
	dir := t.TempDir()
	s, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, want := range []error{nil, unix.EEXIST} {
		temp, err := s.newTemp()
		if err != nil {
			t.Fatal(err)
		}
		content := strings.Repeat("x", i+1)
		if _, err := temp.fill(t.Context(), strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		if err := temp.renameExclusively(s.root, "key"); err != want {
			t.Errorf("rename %d: %v, want %v", i, err, want)
		}
		temp.discard()
	}
	if data, err := os.ReadFile(filepath.Join(dir, "key")); string(data) != "x" {
		t.Errorf("the object is %q, %v", data, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, ".tmp")); len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
