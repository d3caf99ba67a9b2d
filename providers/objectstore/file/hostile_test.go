package file_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

const secret = "outside the store"

// plant returns a store with an object folder/good, and a path to a file and
// to a folder outside of it.
func plant(t *testing.T) (s objectstore.Store, dir, outside string) {
	t.Helper()
	dir, outside = t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "file"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	store := create(t, dir)
	put(t, store, "folder/good", "good")
	return store, dir, outside
}

func wantOutsideUntouched(t *testing.T, outside string) {
	t.Helper()
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside has %v, %v", entries, err)
	}
	if data, err := os.ReadFile(filepath.Join(outside, "file")); string(data) != secret {
		t.Errorf("file outside: %q, %v", data, err)
	}
}

// wantRefused expects an error that is not about absence or presence.
func wantRefused(t *testing.T, call string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, objectstore.ErrNotExist) || errors.Is(err, objectstore.ErrExist) || errors.Is(err, objectstore.ErrPrecondition) {
		t.Errorf("%s: %v, want a refusal", call, err)
	}
}

func refuses(t *testing.T, s objectstore.Store, key string) {
	t.Helper()
	ctx := t.Context()
	_, err := s.Get(ctx, key, objectstore.Range{})
	wantRefused(t, "get", err)
	_, err = s.Stat(ctx, key)
	wantRefused(t, "stat", err)
	wantRefused(t, "delete", s.Delete(ctx, key))
	for _, opts := range []objectstore.PutOptions{{IfAbsent: true}, {IfMatch: "x"}} {
		_, err = s.Put(ctx, key, strings.NewReader("new"), opts)
		wantRefused(t, "conditional put", err)
	}
	for _, prefix := range []string{"", key} {
		_, err = list(ctx, s, prefix)
		wantRefused(t, "list", err)
	}
}

func list(ctx context.Context, s objectstore.Store, prefix string) (keys []string, last error) {
	for info, err := range s.List(ctx, prefix, "") {
		if err != nil {
			return keys, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

func TestSymlinkAsObject(t *testing.T) {
	for _, target := range []string{"file", "absent", "."} {
		s, dir, outside := plant(t)
		if err := os.Symlink(filepath.Join(outside, target), filepath.Join(dir, "folder/link")); err != nil {
			t.Fatal(err)
		}
		refuses(t, s, "folder/link")
		put(t, s, "folder/link", "an object")
		if got := get(t, s, "folder/link"); got != "an object" {
			t.Errorf("the link was not replaced: %q", got)
		}
		wantOutsideUntouched(t, outside)
	}
}

func TestSymlinkAsFolder(t *testing.T) {
	for _, target := range []string{"", "file", "absent"} {
		s, dir, outside := plant(t)
		if err := os.Symlink(filepath.Join(outside, target), filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		refuses(t, s, "link/file")
		_, err := s.Put(t.Context(), "link/new", strings.NewReader("new"), objectstore.PutOptions{})
		wantRefused(t, "put", err)
		if got, err := list(t.Context(), s, "folder/"); err != nil || !slices.Equal(got, []string{"folder/good"}) {
			t.Errorf("list of another folder: %q, %v", got, err)
		}
		wantOutsideUntouched(t, outside)
	}
}

func TestSymlinkInsideTheStore(t *testing.T) {
	s, dir, _ := plant(t)
	if err := os.Symlink("folder", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	refuses(t, s, "link/good")
}

func TestSymlinkAsOwnFile(t *testing.T) {
	for name, target := range map[string]string{".tmp": "", ".lock": "file"} {
		s, dir, outside := plant(t)
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(outside, target), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, err := s.Put(t.Context(), "key", strings.NewReader("new"), objectstore.PutOptions{})
		wantRefused(t, "put with a link for "+name, err)
		wantOutsideUntouched(t, outside)
	}
}

func TestFifoAsObject(t *testing.T) {
	s, dir, _ := plant(t)
	if err := unix.Mkfifo(filepath.Join(dir, "folder/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, s, "folder/fifo") // and does not wait for a writer
}

func TestForeignNamesAreNotListed(t *testing.T) {
	s, dir, _ := plant(t)
	for _, name := range []string{"lost+found", "a~", "with space", ".hidden", "ü"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "folder", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := keys(t, s); !slices.Equal(got, []string{"folder/good"}) {
		t.Errorf("listed %q", got)
	}
}

func TestObjectAndFolderOfOneName(t *testing.T) {
	s, _, _ := plant(t)
	for _, key := range []string{"folder", "folder/good/below"} {
		for _, opts := range []objectstore.PutOptions{{}, {IfAbsent: true}} {
			_, err := s.Put(t.Context(), key, strings.NewReader("new"), opts)
			wantRefused(t, "put "+key, err)
		}
	}
	if got := keys(t, s); !slices.Equal(got, []string{"folder/good"}) {
		t.Errorf("listed %q", got)
	}
}

func TestReaderOfATruncatedFile(t *testing.T) {
	s, dir, _ := plant(t)
	put(t, s, "long", strings.Repeat("x", 100_000))
	reader, err := s.Get(t.Context(), "long", objectstore.Range{Offset: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := os.Truncate(filepath.Join(dir, "long"), 50_000); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, reader); !errors.Is(err, io.ErrUnexpectedEOF) || n != 49_990 {
		t.Errorf("read %d bytes, %v", n, err)
	}
}
