package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

func put(t *testing.T, s objectstore.Store, key, content string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, strings.NewReader(content), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s objectstore.Store, key string) string {
	t.Helper()
	content, err := objectstore.ReadAll(t.Context(), s, key, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// keys lists the whole store.
func keys(t *testing.T, s objectstore.Store) []string {
	t.Helper()
	var keys []string
	for info, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// tempFiles returns the names of the temporary files of a store.
func tempFiles(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, ".tmp"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, filepath.Join(dir, ".tmp", entry.Name()))
	}
	return names
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	if _, err := file.Open(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open what is absent: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func(string) (*file.Store, error){file.Open, file.Create} {
		if _, err := open(filepath.Join(dir, "file")); err == nil {
			t.Error("a file was opened as a store")
		}
	}
}

func TestCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "repository")
	put(t, create(t, dir), "a/b", "content")
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("new directory: %v, %v", info.Mode(), err)
	}
	if got := get(t, create(t, dir), "a/b"); got != "content" {
		t.Errorf("created again: %q", got)
	}
	s, err := file.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := get(t, s, "a/b"); got != "content" {
		t.Errorf("opened: %q", got)
	}
}

func TestKeysArePaths(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	put(t, s, "packs/ab/x.y", "content")
	data, err := os.ReadFile(filepath.Join(dir, "packs", "ab", "x.y"))
	if err != nil || string(data) != "content" {
		t.Errorf("the file has %q, %v", data, err)
	}
	if left := tempFiles(t, dir); len(left) != 0 {
		t.Errorf("temporary files left: %q", left)
	}
}

func TestStoreFollowsARenamedDirectory(t *testing.T) {
	base := t.TempDir()
	s := create(t, filepath.Join(base, "before"))
	if err := os.Rename(filepath.Join(base, "before"), filepath.Join(base, "behind")); err != nil {
		t.Fatal(err)
	}
	put(t, s, "key", "content")
	if _, err := os.Stat(filepath.Join(base, "behind", "key")); err != nil {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	s := create(t, t.TempDir())
	put(t, s, "key", "content")
	reader, err := s.Get(t.Context(), "key", objectstore.Range{})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rest := make([]byte, 7)
	if _, err := reader.Read(rest); err != nil || string(rest) != "content" {
		t.Errorf("reader after close: %q, %v", rest, err)
	}
	if _, err := s.Stat(t.Context(), "key"); err == nil || errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("stat after close: %v", err)
	}
}
