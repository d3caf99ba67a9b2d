package restore

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// sampleTree makes a tree with everything in it that this user may make.
func sampleTree(t testing.TB, dir string) {
	t.Helper()
	write := func(name, content string, mode os.FileMode) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), mode))
	}
	for _, d := range []string{"", "a", "a/deep/er/still", "empty", "locked"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	write("a/script.sh", "#!/bin/sh\n", 0o755)
	write("a/empty", "", 0o600)
	write("a/deep/er/still/here", "x", 0o640)
	write("locked/file", "read-only", 0o400)
	write("\xfe\xff", "not UTF-8", 0o644)
	write("new\nline", "", 0o644)
	must(t, os.Link(filepath.Join(dir, "a/script.sh"), filepath.Join(dir, "a/deep/link")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "absolute")))
	must(t, os.Symlink("nowhere/at all", filepath.Join(dir, "a/dangling")))
	must(t, unix.Mkfifo(filepath.Join(dir, "a/fifo"), 0o622))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	setTimes(t, dir)
	must(t, os.Chmod(filepath.Join(dir, "locked"), 0o555))
}

// setTimes gives everything in a tree a mtime of its own, in the past.
func setTimes(t testing.TB, dir string) {
	t.Helper()
	n := int64(0)
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		n++
		ts := []unix.Timespec{{Sec: 1_600_000_000 + n, Nsec: 123_456_789}, {Sec: 1_600_000_000 + n, Nsec: n}}
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW)
	}))
}

func TestNewTarget(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	wantEqual(t, src, dir+"/dst", snap)
	names, err := os.ReadDir(dir)
	must(t, err)
	if len(names) != 2 {
		t.Fatalf("left over: %v", names)
	}
}
