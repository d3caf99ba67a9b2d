package restore

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// drawTree makes a random tree of few names, so that two of them collide in
// every way.
func drawTree(t *rapid.T, dir string) {
	check := func(err error) {
		if err != nil {
			t.Fatalf("make a tree: %v", err)
		}
	}
	var dirs, files []string
	var fill func(dir string, depth int)
	fill = func(dir string, depth int) {
		dirs = append(dirs, dir)
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c\xff", "d"}), 0, 4, rapid.ID).Draw(t, "names") {
			path := dir + "/" + name
			kind := rapid.SampledFrom([]string{"file", "file", "file", "dir", "dir", "symlink", "fifo", "link", "sparse"}).Draw(t, "kind")
			switch {
			case kind == "dir" && depth < 3:
				check(os.Mkdir(path, 0o700))
				fill(path, depth+1)
				continue
			case kind == "symlink":
				check(os.Symlink(rapid.SampledFrom([]string{"a", "../b", "/etc", ".."}).Draw(t, "target"), path))
			case kind == "fifo":
				check(unix.Mkfifo(path, 0o600))
				check(os.Chmod(path, rapid.SampledFrom([]os.FileMode{0o600, 0o644}).Draw(t, "mode")))
			case kind == "link" && len(files) > 0:
				check(os.Link(rapid.SampledFrom(files).Draw(t, "linked"), path))
				continue
			case kind == "sparse":
				content := bytes.Repeat([]byte{1}, 100)
				content = append(content, make([]byte, 3*testHole)...)
				content = append(content, bytes.Repeat([]byte{2}, rapid.IntRange(0, 2*testChunk).Draw(t, "tail"))...)
				check(os.WriteFile(path, content, 0o600))
				files = append(files, path)
			default:
				content := rapid.SampledFrom([]string{"", "x", "y", "longer"}).Draw(t, "content")
				check(os.WriteFile(path, []byte(content), 0o600))
				check(os.Chmod(path, rapid.SampledFrom([]os.FileMode{0o600, 0o644, 0o400, 0}).Draw(t, "mode")))
				files = append(files, path)
			}
			if kind == "file" && rapid.Bool().Draw(t, "xattr") {
				unix.Setxattr(path, "user.x", []byte(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value")), 0)
			}
			// Few times, so that a file with other content has the same one.
			ts := unix.Timespec{Sec: int64(rapid.IntRange(1, 3).Draw(t, "mtime")), Nsec: 5}
			if kind != "file" || rapid.Bool().Draw(t, "old") {
				check(unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
			}
		}
	}
	check(os.Mkdir(dir, 0o700))
	fill(dir, 0)
	for i := len(dirs) - 1; i >= 0; i-- {
		ts := unix.Timespec{Sec: int64(i), Nsec: 7}
		check(unix.UtimesNanoAt(unix.AT_FDCWD, dirs[i], []unix.Timespec{ts, ts}, 0))
		check(os.Chmod(dirs[i], rapid.SampledFrom([]os.FileMode{0o755, 0o700, 0o500}).Draw(t, "dir mode")))
	}
}

// TestAnyOverAny restores a random tree over another one.
func TestAnyOverAny(t *testing.T) {
	base := tempDir(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := fmt.Sprintf("%s/%d", base, n)
		must(t, os.Mkdir(dir, 0o755))
		drawTree(rt, dir+"/src")
		drawTree(rt, dir+"/dst")
		if !isRoot() { // capture reads files of mode 0
			must(t, chmodFiles(dir+"/src"))
		}
		src := newMemSource()
		snap := capture(t, src, dir+"/src")
		opts := Options{Target: dir + "/dst", Delete: true, Rescan: true}
		if _, err := Run(t.Context(), src, snap, opts); err != nil {
			rt.Fatal(err)
		}
		got := capture(t, src, dir+"/dst")
		if got.Root != snap.Root || got.Links != snap.Links {
			rt.Fatal(describeDiff(t, src, snap, got))
		}
		before := stamps(t, dir+"/dst")
		if _, err := Run(t.Context(), src, snap, opts); err != nil {
			rt.Fatal(err)
		}
		for path, was := range stamps(t, dir+"/dst") {
			if before[path] != was {
				rt.Fatalf("%s was touched: %s, then %s", path, before[path], was)
			}
		}
	})
}
