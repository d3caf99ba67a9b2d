package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// mountTmpfs mounts a file system of its own for a test.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := newDir(t)
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

// TestFullDisk: what does not fit is read all the same, what is there is used,
// and nothing is left behind. When there is space again, it is used.
func TestFullDisk(t *testing.T) {
	dir := mountTmpfs(t, "mode=700,size=1m")
	inner := mem.New()
	var warned warnings
	opts := Options{Prefixes: []string{"packs/"}, Warn: warned.add, KeepPut: func(string, int64) bool { return true }}
	s, err := New(inner, dir, opts)
	must(t, err)
	defer s.Close()
	now := time.Now()
	s.disk.now = func() time.Time { return now }
	name := func(i int) string { return fmt.Sprint("packs/", i) }
	for i := range 3 {
		want := content(i, 700<<10)
		put(t, s, name(i), want)
		for range 2 {
			wantRead(t, s, name(i), 0, 0, want)
		}
		now = now.Add(writePause)
	}
	warned.wantOne(t)
	if len(warned.errs) == 1 && !errors.Is(warned.errs[0], syscall.ENOSPC) {
		t.Errorf("warned of %v", warned.errs)
	}
	if stats := s.Stats(); stats.Hits < 3 || stats.Dropped != 0 {
		t.Errorf("%+v", stats)
	}
	if _, temps := everything(t, dir); len(temps) != 0 {
		t.Errorf("left: %q", temps)
	}
	for i := range 2 {
		must(t, s.Delete(t.Context(), name(i)))
	}
	now = now.Add(writePause)
	wantRead(t, s, name(2), 0, 0, content(2, 700<<10))
	before := s.Stats().Misses
	wantRead(t, s, name(2), 0, 0, content(2, 700<<10))
	if s.Stats().Misses != before {
		t.Error("the space that became free is not used")
	}
}

// TestPause: after a write failed, no other is tried for a minute.
func TestPause(t *testing.T) {
	dir := mountTmpfs(t, "mode=700,nr_inodes=1")
	s := open(t, holding(t, key, content(1, 3*small)), dir, Options{})
	now := time.Now()
	s.disk.now = func() time.Time { return now }
	kept := func() bool {
		wantRead(t, s, key, 0, 0, content(1, 3*small))
		return len(files(t, dir)) > 0
	}
	if kept() {
		t.Fatal("there is no inode for a file")
	}
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "nr_inodes=0"))
	now = now.Add(writePause - 1)
	if kept() {
		t.Error("it was tried again at once")
	}
	now = now.Add(1)
	if !kept() {
		t.Error("it was not tried again")
	}
}

// TestReadOnlyDisk: what is there is used, the rest is passed by.
func TestReadOnlyDisk(t *testing.T) {
	dir := mountTmpfs(t, "mode=700")
	inner := mem.New()
	var warned warnings
	s := open(t, inner, dir, Options{Warn: warned.add})
	put(t, inner, "packs/old", []byte("old"))
	put(t, inner, "packs/new", []byte("new"))
	wantRead(t, s, "packs/old", 0, 0, []byte("old"))
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	wantRead(t, s, "packs/old", 0, 0, []byte("old"))
	wantRead(t, s, "packs/new", 0, 0, []byte("new"))
	must(t, s.Delete(t.Context(), "packs/old"))
	if stats := s.Stats(); stats.Hits != 1 || stats.Misses != 2 {
		t.Errorf("%+v", stats)
	}
	warned.wantOne(t)
	if len(warned.errs) == 1 && !errors.Is(warned.errs[0], syscall.EROFS) {
		t.Errorf("warned of %v", warned.errs)
	}
	var path *fs.PathError
	if !errors.As(warned.errs[0], &path) {
		t.Errorf("no path in %v", warned.errs[0])
	}
}
