package restore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// victim makes a directory outside of the target that must not change.
func victim(t *testing.T, dir string) (outside string, check func()) {
	t.Helper()
	outside = dir + "/outside"
	must(t, os.MkdirAll(outside+"/a/deep/er/still", 0o755))
	for _, f := range []string{"a/script.sh", "a/empty", "fifo", "precious"} {
		must(t, os.WriteFile(outside+"/"+f, []byte("precious"), 0o644))
	}
	must(t, unix.Mkfifo(outside+"/pipe", 0o644))
	before := stamps(t, outside)
	return outside, func() { t.Helper(); wantUntouched(t, outside, before) }
}

// TestPlantedLinks restores over a target in which somebody planted symlinks
// that lead out of it.
func TestPlantedLinks(t *testing.T) {
	for name, plant := range map[string]func(target, outside string) error{
		"dir": func(d, out string) error { return os.Symlink(out+"/a", d+"/a") },
		"deep dir": func(d, out string) error {
			return errors.Join(os.Mkdir(d+"/a", 0o755), os.Symlink(out+"/a/deep", d+"/a/deep"))
		},
		"file": func(d, out string) error {
			return errors.Join(os.Mkdir(d+"/a", 0o755), os.Symlink(out+"/precious", d+"/a/script.sh"))
		},
		"fifo":  func(d, out string) error { return os.Symlink(out+"/fifo", d+"/fifo") },
		"extra": func(d, out string) error { return os.Symlink(out, d+"/extra") },
		"deep": func(d, out string) error {
			return errors.Join(os.MkdirAll(d+"/x/y", 0o755), os.Symlink(out, d+"/x/y/z"))
		},
		"marker": func(d, out string) error { return os.Symlink(out+"/precious", d+"/"+markerName) },
		"hard link": func(d, out string) error {
			return errors.Join(os.Mkdir(d+"/a", 0o755), os.Symlink("../../outside/a/empty", d+"/a/empty"))
		},
	} {
		for _, stepwise := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				noOpenat2.Store(stepwise)
				defer noOpenat2.Store(false)
				src, dir := newMemSource(), tempDir(t)
				sampleTree(t, dir+"/src")
				snap := capture(t, src, dir+"/src")
				outside, check := victim(t, dir)
				must(t, os.Mkdir(dir+"/dst", 0o755))
				must(t, plant(dir+"/dst", outside))
				mustRun(t, src, snap, Options{Target: dir + "/dst", Delete: true})
				wantEqual(t, src, dir+"/dst", snap)
				check()
			})
		}
	}
}

// TestPlantedHardLink: a file whose inode has a second name elsewhere is
// replaced, not changed, whatever it looks like.
func TestPlantedHardLink(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	for _, path := range []string{"a/empty", "a/script.sh", "fifo"} {
		must(t, os.Link(dir+"/dst/"+path, dir+"/"+filepath.Base(path)))
		must(t, os.Chmod(dir+"/"+filepath.Base(path), 0o606))
	}
	var before []os.FileInfo
	for _, name := range []string{"empty", "script.sh", "fifo"} {
		st, err := os.Lstat(dir + "/" + name)
		must(t, err)
		before = append(before, st)
	}
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	wantEqual(t, src, dir+"/dst", snap)
	for _, was := range before {
		is, err := os.Lstat(dir + "/" + was.Name())
		must(t, err)
		if is.Mode() != was.Mode() || !is.ModTime().Equal(was.ModTime()) {
			t.Errorf("%s: was %v, is %v", was.Name(), was, is)
		}
	}
}

// TestSwaps lets somebody who may write to the target swap a directory for a
// symlink, or a file for a link, before each step of a restore in turn.
func TestSwaps(t *testing.T) {
	swaps := map[string]func(target, outside string){
		"dir": func(d, out string) {
			os.Rename(d+"/a", d+"/was a")
			os.Symlink(out+"/a", d+"/a")
		},
		"deep dir": func(d, out string) {
			os.Rename(d+"/a/deep/er", d+"/was er")
			os.Symlink(out+"/a/deep/er", d+"/a/deep/er")
		},
		"temporary": func(d, out string) {
			temps, _ := filepath.Glob(d + "/a/" + manifest.RestoreTemp + "*")
			top, _ := filepath.Glob(d + "/" + manifest.RestoreTemp + "*")
			deep, _ := filepath.Glob(d + "/a/deep/" + manifest.RestoreTemp + "*")
			for _, temp := range slices.Concat(temps, top, deep) {
				precious := out + "/precious"
				if st, err := os.Lstat(temp); err == nil && st.Mode().Type() == os.ModeNamedPipe {
					precious = out + "/pipe"
				}
				os.Remove(temp)
				os.Link(precious, temp)
			}
		},
		"file": func(d, out string) {
			os.Remove(d + "/a/empty")
			os.Link(out+"/precious", d+"/a/empty")
			os.Remove(d + "/a/deep/link")
			os.Link(out+"/precious", d+"/a/deep/link")
		},
		"other dir": func(d, out string) {
			os.Rename(d+"/locked", d+"/was locked")
			os.Mkdir(d+"/locked", 0o777)
		},
	}
	for name, swap := range swaps {
		t.Run(name, func(t *testing.T) {
			src, base := newMemSource(), tempDir(t)
			sampleTree(t, base+"/src")
			snap := capture(t, src, base+"/src")
			noticed := make(map[string]bool)
			for step := int64(1); ; step++ {
				dir := filepath.Join(base, "x")
				outside, check := victim(t, dir)
				// A link of our own inode would change its ctime: that is the
				// attacker's doing, so take the stamps afterwards.
				must(t, os.MkdirAll(dir+"/dst/a/deep/er", 0o755))
				must(t, os.MkdirAll(dir+"/dst/locked", 0o755))
				steps := atomic.Int64{}
				r, err := Run(t.Context(), src, snap, Options{Target: dir + "/dst", Delete: true, hook: func(what, _ string) {
					always := step == 1 && (what == "node" || what == "linked")
					if steps.Add(1) == step || always {
						swap(dir+"/dst", outside)
					}
				}})
				checkContent(t, outside)
				if name == "dir" || name == "deep dir" || name == "other dir" {
					check()
				}
				// Whatever the attacker achieved inside, the next run repairs.
				if err != nil && !errors.Is(err, ErrPartial) && !errors.Is(err, ErrChanged) {
					t.Fatalf("step %d: %v", step, err)
				}
				for _, f := range r.Failed {
					noticed[f.Path] = true
				}
				mustRun(t, src, snap, Options{Target: dir + "/dst", Delete: true})
				wantEqual(t, src, dir+"/dst", snap)
				checkContent(t, outside)
				must(t, removeAll(dir))
				if steps.Load() < step {
					break
				}
			}
			// The first run swapped each of these before it got its name.
			for _, path := range []string{"absolute", "a/dangling", "fifo", "a/fifo", "a/script.sh"} {
				if name == "temporary" && !noticed[path] {
					t.Errorf("it was not noticed that %s was swapped", path)
				}
			}
		})
	}
}

// checkContent fails the test if a file outside of the target changed in
// anything but its link count.
func checkContent(t *testing.T, outside string) {
	t.Helper()
	if st, err := os.Lstat(outside + "/pipe"); err != nil || st.Mode() != os.ModeNamedPipe|0o644 || time.Since(st.ModTime()) > time.Hour {
		t.Fatalf("the pipe was changed: %v, %v", st, err)
	}
	for _, f := range []string{"a/script.sh", "a/empty", "fifo", "precious"} {
		b, err := os.ReadFile(outside + "/" + f)
		must(t, err)
		st, err := os.Lstat(outside + "/" + f)
		must(t, err)
		if string(b) != "precious" || st.Mode() != 0o644 || int(st.Sys().(*unixStat).Uid) != os.Geteuid() {
			t.Fatalf("%s was changed: %q, %v", f, b, st)
		}
	}
}

// TestPartialOfSomebodyElse: a directory that is not private is not trusted.
func TestPartialOfSomebodyElse(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	name := dir + "/" + partialName("dst", snap, nil)
	outside, check := victim(t, dir)
	for _, plant := range []func() error{
		func() error { return os.Symlink(outside, name) },
		func() error { return errors.Join(os.Mkdir(name, 0o700), os.Chmod(name, 0o777)) },
		func() error { return os.WriteFile(name, nil, 0o600) },
	} {
		must(t, plant())
		if _, err := Run(t.Context(), src, snap, Options{Target: dir + "/dst"}); err == nil {
			t.Error("restored into somebody else's directory")
		}
		check()
		must(t, os.RemoveAll(name))
	}
	if !isRoot() {
		return // who else could own it
	}
	must(t, os.Mkdir(name, 0o700))
	must(t, os.Chown(name, nobody, nobody))
	if _, err := Run(t.Context(), src, snap, Options{Target: dir + "/dst"}); err == nil {
		t.Error("restored into another user's directory")
	}
}

// TestTargetAppears: a target that appears during the restore is not replaced.
func TestTargetAppears(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	_, err := Run(t.Context(), src, snap, Options{Target: dir + "/dst", hook: func(step, _ string) {
		if step == "publish" {
			must(t, os.Mkdir(dir+"/dst", 0o755))
		}
	}})
	if !errors.Is(err, unix.EEXIST) {
		t.Fatalf("got %v", err)
	}
	must(t, os.Remove(dir+"/dst"))
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	wantEqual(t, src, dir+"/dst", snap)
}

func TestBadTargets(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	must(t, os.WriteFile(dir+"/file", nil, 0o600))
	must(t, os.Symlink("nowhere", dir+"/dangling"))
	for _, target := range []string{"", dir + "/file", dir + "/dangling", dir + "/no/parent"} {
		if _, err := Run(t.Context(), src, snap, Options{Target: target}); err == nil {
			t.Errorf("restored to %q", target)
		}
	}
	// Nobody can create a file there.
	_, err := Run(t.Context(), src, snap, Options{Target: "/proc/self/fdinfo"})
	if !errors.Is(err, errNoMarker) || errors.Is(err, ErrPartial) {
		t.Errorf("got %v", err)
	}
	// A symlink that the caller names is followed: it is no part of the tree.
	must(t, os.Mkdir(dir+"/real", 0o755))
	must(t, os.Symlink("real", dir+"/link"))
	mustRun(t, src, snap, Options{Target: dir + "/link"})
	wantEqual(t, src, dir+"/real", snap)
}

// TestReopenedDirs: a directory that was closed in between must be the same one
// when it is opened again.
func TestReopenedDirs(t *testing.T) {
	base := tempDir(t)
	must(t, os.MkdirAll(base+"/a/b", 0o755))
	fd, err := unix.Open(base, dirFlags, 0)
	must(t, err)
	root := newDir(nil, "", true)
	root.fd, root.users = fd, 1
	defer unix.Close(fd)
	h := newHandles(0)
	d := newDir(newDir(root, "a", true), "b", true)
	for range 2 {
		_, err := h.acquire(d)
		must(t, err)
		h.release(d)
		if d.fd >= 0 {
			t.Fatal("it was not closed")
		}
	}
	must(t, os.Rename(base+"/a", base+"/was a"))
	must(t, os.MkdirAll(base+"/a/b", 0o755))
	if _, err := h.acquire(d); err != ErrChanged {
		t.Errorf("got %v", err)
	}
}

// TestDirAppears: a directory that appears where a file was just compared is
// not emptied unless extra files may be deleted.
func TestDirAppears(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		src, dir := newMemSource(), tempDir(t)
		sampleTree(t, dir+"/src")
		snap := capture(t, src, dir+"/src")
		must(t, os.MkdirAll(dir+"/dst/a", 0o755))
		opts := Options{Target: dir + "/dst", Delete: deletes, hook: func(step, name string) {
			if step == "rename" && name == "empty" {
				must(t, os.MkdirAll(dir+"/dst/a/empty/x", 0o755))
			}
		}}
		r, err := Run(t.Context(), src, snap, opts)
		_, there := os.Lstat(dir + "/dst/a/empty/x")
		if deletes && (err != nil || there == nil || r.Deleted != 2) {
			t.Errorf("%v, %v, %+v", err, there, r)
		}
		if !deletes && (!errors.Is(err, ErrConflict) || there != nil) {
			t.Errorf("%v, %v", err, there)
		}
	}
}
