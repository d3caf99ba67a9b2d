package restore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTwiceChangesNothing(t *testing.T) {
	for name, opts := range map[string]Options{"plain": {}, "delete": {Delete: true}, "rescan": {Rescan: true}} {
		t.Run(name, func(t *testing.T) {
			src, dir := newMemSource(), tempDir(t)
			sampleTree(t, dir+"/src")
			snap := capture(t, src, dir+"/src")
			opts.Target = dir + "/dst"
			first := mustRun(t, src, snap, opts)
			before := stamps(t, dir+"/dst")
			src.reads.Store(0)
			r := mustRun(t, src, snap, opts)
			wantUntouched(t, dir+"/dst", before)
			if n := src.reads.Load(); n > 0 {
				t.Errorf("%d blobs were read", n)
			}
			if r.Unchanged != r.Files+r.Dirs+r.Symlinks+r.Others || first.Created != r.Unchanged {
				t.Errorf("first %+v, then %+v", first, r)
			}
			for c, err := range Plan(t.Context(), src, snap, opts) {
				t.Errorf("planned: %+v, %v", c, err)
			}
		})
	}
}

// TestRepairs changes one thing of a restored tree after the other and expects
// a second restore to change exactly that back.
func TestRepairs(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 100_000)
	for name, harm := range map[string]func(dir string) error{
		"nothing":     func(string) error { return nil },
		"content":     func(d string) error { return os.WriteFile(d+"/a/script.sh", []byte("other"), 0o755) },
		"big content": func(d string) error { return os.WriteFile(d+"/big", []byte(big[1:]+"x"), 0o644) },
		"touched":     func(d string) error { return unix.Utimes(d+"/big", []unix.Timeval{{Sec: 1}, {Sec: 1}}) },
		"mode":        func(d string) error { return os.Chmod(d+"/a/empty", 0o777) },
		"dir mode":    func(d string) error { return os.Chmod(d+"/empty", 0o700) },
		"unreadable":  func(d string) error { return os.Chmod(d+"/a/deep", 0) },
		"no write":    func(d string) error { return errors.Join(os.Remove(d+"/a/empty"), os.Chmod(d+"/a", 0o500)) },
		"file lost":   func(d string) error { return os.Remove(d + "/a/empty") },
		"dir lost":    func(d string) error { return os.RemoveAll(d + "/a/deep/er") },
		"link target": func(d string) error { return errors.Join(os.Remove(d+"/a/dangling"), os.Symlink("x", d+"/a/dangling")) },
		"link broken": func(d string) error {
			return errors.Join(os.Remove(d+"/a/deep/link"), os.WriteFile(d+"/a/deep/link", []byte("#!/bin/sh\n"), 0o755))
		},
		"lead lost": func(d string) error { return os.Remove(d + "/a/script.sh") },
		"one too many": func(d string) error {
			return errors.Join(os.Remove(d+"/a/empty"), os.Link(d+"/new\nline", d+"/a/empty"))
		},
		"twins":       func(d string) error { return errors.Join(os.Remove(d+"/twin 2"), os.Link(d+"/twin 1", d+"/twin 2")) },
		"file to dir": func(d string) error { return errors.Join(os.Remove(d+"/a/empty"), os.Mkdir(d+"/a/empty", 0o700)) },
		"file to link": func(d string) error {
			return errors.Join(os.Remove(d+"/a/empty"), os.Symlink("script.sh", d+"/a/empty"))
		},
		"link to dir": func(d string) error { return errors.Join(os.Remove(d+"/absolute"), os.Mkdir(d+"/absolute", 0o700)) },
		"link to file": func(d string) error {
			return errors.Join(os.Remove(d+"/absolute"), os.WriteFile(d+"/absolute", nil, 0o600))
		},
		"dir to file": func(d string) error { return errors.Join(os.RemoveAll(d+"/a"), os.WriteFile(d+"/a", nil, 0o600)) },
		"dir to link": func(d string) error { return errors.Join(os.RemoveAll(d+"/a"), os.Symlink("empty", d+"/a")) },
		"fifo to file": func(d string) error {
			return errors.Join(os.Remove(d+"/fifo"), os.WriteFile(d+"/fifo", []byte("x"), 0o600))
		},
		"file to fifo": func(d string) error { return errors.Join(os.Remove(d+"/a/empty"), unix.Mkfifo(d+"/a/empty", 0o600)) },
		"all to a dir": func(d string) error {
			return errors.Join(os.Remove(d+"/fifo"), os.Remove(d+"/absolute"), os.MkdirAll(d+"/fifo/x/y", 0o755), os.MkdirAll(d+"/absolute/x/y", 0o755))
		},
		"extra": func(d string) error {
			return errors.Join(os.MkdirAll(d+"/more/of/it", 0o755), os.WriteFile(d+"/more/of/file", nil, 0), os.Chmod(d+"/more/of", 0o500), os.Symlink("/", d+"/rootlink"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			src, dir := newMemSource(), tempDir(t)
			sampleTree(t, dir+"/src")
			must(t, os.WriteFile(dir+"/src/big", []byte(big), 0o644))
			for _, twin := range []string{"/src/twin 1", "/src/twin 2"} {
				must(t, os.WriteFile(dir+twin, []byte("same"), 0o644))
				must(t, os.Chtimes(dir+twin, time.Unix(7, 0), time.Unix(7, 0)))
			}
			snap := capture(t, src, dir+"/src")
			opts := Options{Target: dir + "/dst", Delete: true}
			mustRun(t, src, snap, opts)
			must(t, harm(dir+"/dst"))
			planned := 0
			for c, err := range Plan(t.Context(), src, snap, opts) {
				must(t, err)
				t.Logf("%v %q", c.Action, c.Path)
				planned++
			}
			r := mustRun(t, src, snap, opts)
			wantEqual(t, src, dir+"/dst", snap)
			if done := r.Created + r.Updated + r.Fixed + r.Deleted; (done > 0) != (planned > 0) || (planned > 0) != (name != "nothing") {
				t.Errorf("%d planned, but did %+v", planned, r)
			}
			before := stamps(t, dir+"/dst")
			mustRun(t, src, snap, opts)
			wantUntouched(t, dir+"/dst", before)
		})
	}
}

func TestExtraStaysWithoutDelete(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	must(t, os.MkdirAll(dir+"/dst/a/mine", 0o755))
	must(t, os.MkdirAll(dir+"/dst/absolute/in the way", 0o755))
	must(t, os.Mkdir(dir+"/dst/fifo", 0o755))
	var planned []string
	for c, err := range Plan(t.Context(), src, snap, Options{Target: dir + "/dst"}) {
		must(t, err)
		if c.Action == Conflict {
			planned = append(planned, c.Path)
		}
	}
	_, err := Run(t.Context(), src, snap, Options{Target: dir + "/dst"})
	var partial *PartialError
	if !errors.As(err, &partial) || !errors.Is(err, ErrPartial) || !errors.Is(err, ErrConflict) {
		t.Fatalf("got %v", err)
	}
	if len(partial.Failed) != 1 || partial.Failed[0].Path != "absolute" || len(planned) != 1 || planned[0] != "absolute" {
		t.Errorf("failed %v, planned %v", partial.Failed, planned)
	}
	for _, kept := range []string{"a/mine", "absolute/in the way"} {
		if _, err := os.Stat(dir + "/dst/" + kept); err != nil {
			t.Error(err)
		}
	}
	must(t, os.RemoveAll(dir+"/dst/absolute"))
	must(t, os.Remove(dir+"/dst/a/mine"))
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	wantEqual(t, src, dir+"/dst", snap)
}

// TestEmptyTarget restores into a directory that exists, as a mount point does:
// it keeps its inode.
func TestEmptyTarget(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	must(t, os.Mkdir(dir+"/dst", 0o755))
	before, err := os.Stat(dir + "/dst")
	must(t, err)
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	after, err := os.Stat(dir + "/dst")
	must(t, err)
	if !os.SameFile(before, after) {
		t.Error("the target was replaced")
	}
	wantEqual(t, src, dir+"/dst", snap)
}

// TestInheritance restores into a directory that hands on its group and a
// default ACL.
func TestInheritance(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	for _, target := range []string{"/dst", "/dst/new"} {
		must(t, os.MkdirAll(dir+"/dst", 0o755))
		must(t, os.Chmod(dir+"/dst", 0o755|os.ModeSetgid))
		// user::rwx user:1:rwx group::rwx mask::rwx other::rwx
		acl := "\x02\x00\x00\x00" + aclEntry(1, 7, -1) + aclEntry(2, 7, 1) + aclEntry(4, 7, -1) + aclEntry(16, 7, -1) + aclEntry(32, 7, -1)
		must(t, unix.Setxattr(dir+"/dst", "system.posix_acl_default", []byte(acl), 0))
		mustRun(t, src, snap, Options{Target: dir + target, Delete: true})
		wantEqual(t, src, dir+target, snap)
	}
}

func aclEntry(tag, perm byte, id int32) string {
	return string([]byte{tag, 0, perm, 0, byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)})
}

// TestUmask restores modes that the umask forbids.
func TestUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077, 0o777} {
		src, dir := newMemSource(), tempDir(t)
		sampleTree(t, dir+"/src")
		snap := capture(t, src, dir+"/src")
		must(t, os.Mkdir(dir+"/there", 0o755))
		old := unix.Umask(mask)
		_, err1 := Run(t.Context(), src, snap, Options{Target: dir + "/new"})
		_, err2 := Run(t.Context(), src, snap, Options{Target: dir + "/there"})
		unix.Umask(old)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatalf("umask %o: %v", mask, err)
		}
		wantEqual(t, src, dir+"/new", snap)
		wantEqual(t, src, dir+"/there", snap)
	}
}

func TestPaths(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	sampleTree(t, dir+"/src")
	snap := capture(t, src, dir+"/src")
	must(t, os.MkdirAll(dir+"/there/a", 0o711))
	must(t, os.WriteFile(dir+"/there/a/mine", nil, 0o600))
	must(t, os.MkdirAll(dir+"/there/a/deep/er/extra", 0o711))
	for _, target := range []string{"/new", "/there"} {
		opts := Options{Target: dir + target, Paths: []string{"/a/deep/er/", "a/script.sh", "absolute"}, Delete: true}
		mustRun(t, src, snap, opts)
		var got []string
		must(t, filepath.WalkDir(dir+target, func(path string, _ os.DirEntry, err error) error {
			got = append(got, strings.TrimPrefix(path, dir+target))
			return err
		}))
		want := " /a /a/deep /a/deep/er /a/deep/er/still /a/deep/er/still/here /a/script.sh /absolute"
		if target == "/there" {
			want = strings.Replace(want, " /a/script", " /a/mine /a/script", 1)
		}
		if list := strings.Join(got, " "); list != want {
			t.Errorf("%s: got %s, want %s", target, list, want)
		}
		before := stamps(t, dir+target)
		mustRun(t, src, snap, opts)
		wantUntouched(t, dir+target, before)
	}
	if st, err := os.Stat(dir + "/there/a"); err != nil || st.Mode().Perm() != 0o711 {
		t.Errorf("a directory on the way was changed: %v, %v", st.Mode(), err)
	}
	if a, err := os.Stat(dir + "/new/a"); err != nil || a.Mode().Perm() != 0o755 {
		t.Errorf("a directory on the way: %v, %v", a.Mode(), err)
	}
	for _, bad := range []string{"../x", "a/../b", "no/such"} {
		if _, err := Run(t.Context(), src, snap, Options{Target: dir + "/bad", Paths: []string{bad}}); err == nil {
			t.Errorf("%q was restored", bad)
		}
	}
	if _, err := os.Lstat(dir + "/bad"); err == nil {
		t.Error("a target was made for nothing")
	}
}
