package file_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// mountTmpfs mounts a file system of its own for a test.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("this test mounts a tmpfs and must run as root (CAP_SYS_ADMIN): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// wantSentinel also expects the path of the store in the message.
func wantSentinel(t *testing.T, call string, err, sentinel error, dir string) {
	t.Helper()
	if !errors.Is(err, sentinel) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%s: %v, want %v with a path", call, err, sentinel)
	}
}

func TestFullDisk(t *testing.T) {
	dir := mountTmpfs(t, "size=1m")
	s := create(t, dir)
	put(t, s, "old", "old")
	large := strings.NewReader(strings.Repeat("x", 4<<20))
	for _, opts := range []objectstore.PutOptions{{}, {IfAbsent: true}} {
		_, err := s.Put(t.Context(), "large", large, opts)
		wantSentinel(t, "put", err, objectstore.ErrNoSpace, dir)
		_, err = s.Stat(t.Context(), "large")
		if !errors.Is(err, objectstore.ErrNotExist) {
			t.Errorf("stat of what did not fit: %v", err)
		}
	}
	_, err := s.Put(t.Context(), "old", large, objectstore.PutOptions{})
	wantSentinel(t, "put", err, objectstore.ErrNoSpace, dir)
	if got := get(t, s, "old"); got != "old" {
		t.Errorf("the old object is %q", got)
	}
	if left := tempFiles(t, dir); len(left) != 0 {
		t.Errorf("temporary files left: %q", left)
	}
	put(t, s, "small", strings.Repeat("x", 500_000)) // the space is free again
}

func TestNoInodesLeft(t *testing.T) {
	dir := mountTmpfs(t, "nr_inodes=6") // root, .tmp, .lock, object, two more
	s := create(t, dir)
	put(t, s, "old", "old")
	put(t, s, "a/old", "old")
	_, err := s.Put(t.Context(), "b/new", strings.NewReader("new"), objectstore.PutOptions{})
	wantSentinel(t, "put", err, objectstore.ErrNoSpace, dir)
	if got := get(t, s, "a/old"); got != "old" {
		t.Errorf("the old object is %q", got)
	}
}

func TestReadOnly(t *testing.T) {
	dir := mountTmpfs(t, "")
	s := create(t, dir)
	put(t, s, "folder/old", "old")
	info, err := s.Stat(t.Context(), "folder/old")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []objectstore.PutOptions{{}, {IfAbsent: true}, {IfMatch: info.ETag}} {
		_, err := s.Put(t.Context(), "folder/old", strings.NewReader("new"), opts)
		wantSentinel(t, "put", err, objectstore.ErrDenied, dir)
	}
	wantSentinel(t, "delete", s.Delete(t.Context(), "folder/old"), objectstore.ErrDenied, dir)
	if err := s.Delete(t.Context(), "folder/absent"); err != nil {
		t.Errorf("delete what is absent: %v", err)
	}
	if got := get(t, s, "folder/old"); got != "old" {
		t.Errorf("the object is %q", got)
	}
}

func TestFilesystemType(t *testing.T) {
	dir := mountTmpfs(t, "")
	if name, cached := create(t, dir).FilesystemType(); name != "tmpfs" || cached {
		t.Errorf("tmpfs is taken for %s, cached listings %v", name, cached)
	}
}
