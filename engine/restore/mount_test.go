package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/snapctl/snapctl/engine/manifest"
	"golang.org/x/sys/unix"
)

// TestOpenDir opens directories by both ways of resolution.
func TestOpenDir(t *testing.T) {
	dir := tempDir(t)
	must(t, os.MkdirAll(dir+"/a/b/c", 0o755))
	must(t, os.Symlink("a", dir+"/link"))
	must(t, os.WriteFile(dir+"/file", nil, 0o600))
	rootfd, err := unix.Open("/", dirFlags, 0)
	must(t, err)
	defer unix.Close(rootfd)
	dirfd, err := unix.Open(dir, dirFlags, 0)
	must(t, err)
	defer unix.Close(dirfd)
	defer noOpenat2.Store(false)
	for _, stepwise := range []bool{false, true} {
		for _, c := range []struct {
			fd   int
			path string
			err  error
		}{
			{dirfd, "a/b/c", nil}, {dirfd, "a", nil}, {dirfd, "none", unix.ENOENT}, {dirfd, "a/none/b", unix.ENOENT},
			{dirfd, "link/b", unix.ELOOP}, {dirfd, "link", unix.ELOOP}, {dirfd, "file", unix.ENOTDIR}, {rootfd, "proc", ErrMount},
		} {
			noOpenat2.Store(stepwise)
			fd, err := openDir(c.fd, c.path)
			if err == nil {
				unix.Close(fd)
			}
			// O_DIRECTORY with O_NOFOLLOW says ENOTDIR of a symlink.
			if !errors.Is(err, c.err) && !(c.err == unix.ELOOP && err == unix.ENOTDIR) {
				t.Errorf("%q, stepwise %v: %v, want %v", c.path, stepwise, err, c.err)
			}
		}
	}
}

// mountTmpfs mounts a small filesystem on a directory until the test ends.
func mountTmpfs(t *testing.T, dir, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("this test, run as root, needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// TestMountBelow: another filesystem below the target is neither filled, nor
// emptied, nor removed, and named.
func TestMountBelow(t *testing.T) {
	if !isRoot() {
		return // cannot mount; TestOpenDir covers what refuses
	}
	for _, stepwise := range []bool{false, true} {
		noOpenat2.Store(stepwise)
		defer noOpenat2.Store(false)
		src, dir := newMemSource(), tempDir(t)
		sampleTree(t, dir+"/src")
		snap := capture(t, src, dir+"/src")
		must(t, os.MkdirAll(dir+"/dst/a", 0o755))
		must(t, os.MkdirAll(dir+"/dst/extra/mounted", 0o755))
		mountTmpfs(t, dir+"/dst/a", "size=1m")
		mountTmpfs(t, dir+"/dst/extra/mounted", "size=1m")
		must(t, os.WriteFile(dir+"/dst/a/file", nil, 0o600))
		must(t, os.WriteFile(dir+"/dst/extra/mounted/file", nil, 0o600))
		r, err := Run(t.Context(), src, snap, Options{Target: dir + "/dst", Delete: true})
		if !errors.Is(err, ErrPartial) || !errors.Is(err, ErrMount) {
			t.Fatalf("got %v", err)
		}
		for _, f := range r.Failed {
			if !errors.Is(f.Err, ErrMount) && !errors.Is(f.Err, errNoLeader) || f.Path != "a" && f.Path != "extra" && f.Path != "a/deep/link" {
				t.Errorf("failed: %v", f)
			}
		}
		for _, kept := range []string{"a/file", "extra/mounted/file"} {
			if _, err := os.Lstat(dir + "/dst/" + kept); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Lstat(dir + "/dst/a/script.sh"); err == nil {
			t.Error("another filesystem was filled")
		}
		if b, err := os.ReadFile(dir + "/dst/locked/file"); err != nil || string(b) != "read-only" {
			t.Errorf("the rest: %q, %v", b, err)
		}
	}
}

// TestFullDisk runs out of space, and of inodes; with more room the next run
// completes what the first began.
func TestFullDisk(t *testing.T) {
	if !isRoot() {
		return // cannot mount a small filesystem; TestTooLargeForTheDisk runs
	}
	for _, options := range []string{"size=512k", "nr_inodes=12,size=8m"} {
		src, dir := newMemSource(), tempDir(t)
		sampleTree(t, dir+"/src")
		for i := range 8 {
			must(t, os.WriteFile(fmt.Sprintf("%s/src/big%d", dir, i), bytes.Repeat([]byte{byte(i + 1)}, 100_000), 0o644))
		}
		snap := capture(t, src, dir+"/src")
		must(t, os.Mkdir(dir+"/dst", 0o755))
		mountTmpfs(t, dir+"/dst", options)
		_, err := Run(t.Context(), src, snap, Options{Target: dir + "/dst"})
		var own *Error
		if !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrPartial) || !errors.As(err, &own) || own.Path == "" {
			t.Fatalf("%s: got %v", options, err)
		}
		t.Log(err)
		if _, err := os.Lstat(dir + "/dst/" + markerName); err != nil {
			t.Errorf("%s: nothing says that the target is incomplete: %v", options, err)
		}
		must(t, unix.Mount("tmpfs", dir+"/dst", "tmpfs", unix.MS_REMOUNT, "size=16m,nr_inodes=1000"))
		mustRun(t, src, snap, Options{Target: dir + "/dst", Sync: true})
		wantEqual(t, src, dir+"/dst", snap)
	}
}

// TestBatchDoesNotFit: over an existing tree each batch is checked.
func TestBatchDoesNotFit(t *testing.T) {
	dir := tempDir(t)
	fd, err := unix.Open(dir, dirFlags, 0)
	must(t, err)
	p := &target{path: dir, root: fd}
	defer p.close()
	if err := p.checkSpace(1 << 62); !errors.Is(err, ErrNoSpace) {
		t.Errorf("got %v", err)
	}
	must(t, p.checkSpace(1))
}

// TestManyFiles has more directories than stay open, more files than go into a
// chunk, and more batches than one.
func TestManyFiles(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	must(t, os.Mkdir(dir+"/src", 0o755))
	for i := range 40 {
		for j := range 10 {
			d := fmt.Sprintf("%s/src/d%d/e%d", dir, i, j)
			must(t, os.MkdirAll(d, 0o755))
			must(t, os.WriteFile(d+"/f", fmt.Appendf(nil, "%d %d", i, j), 0o644))
			must(t, os.Symlink("f", d+"/l"))
		}
	}
	for i := range 700 {
		must(t, os.WriteFile(fmt.Sprintf("%s/src/f%d", dir, i), fmt.Append(nil, i), 0o644))
	}
	for i := range 130 { // more than stay open in one batch
		big := make([]byte, testChunk+10)
		for j := range big {
			big[j] = byte(i + j/100)
		}
		must(t, os.WriteFile(fmt.Sprintf("%s/src/big%d", dir, i), big, 0o644))
	}
	snap := capture(t, src, dir+"/src")
	p := pack(t, src, 1<<20, 8<<20)
	last := Progress{}
	opts := Options{Target: dir + "/dst", Workers: 3, Progress: func(now Progress) {
		if now.Entries < last.Entries || now.Bytes < last.Bytes || now.Files < last.Files {
			t.Errorf("progress went from %+v to %+v", last, now)
		}
		last = now
	}}
	r := mustRun(t, p.fetcher, snap, opts)
	wantEqual(t, src, dir+"/dst", snap)
	if r.Files != 1230 || r.WrittenBytes != r.Bytes || last.Files == 0 {
		t.Errorf("%+v, %+v", r, last)
	}
}

// known is what a Known tells of a restored tree.
type known map[string]map[string]KnownFile

func (k known) Dir(_ context.Context, path string) (map[string]KnownFile, error) { return k[path], nil }

// waitForTick returns when the clock of the filesystem has moved on: until then a change
// may leave the ctime of a file as it was.
func waitForTick(t *testing.T, dir string) {
	t.Helper()
	probe := dir + "/probe"
	change := func() unix.Timespec {
		must(t, os.WriteFile(probe, []byte("x"), 0o600))
		var st unix.Stat_t
		must(t, unix.Stat(probe, &st))
		return st.Ctim
	}
	for first := change(); change() == first; {
	}
}

// TestKnown: the state of a file when it was last seen tells more than its size
// and mtime do.
func TestKnown(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	must(t, os.MkdirAll(dir+"/src/d", 0o755))
	must(t, os.WriteFile(dir+"/src/d/f", []byte("right"), 0o644))
	must(t, os.WriteFile(dir+"/src/d/g", []byte("other"), 0o644))
	snap := capture(t, src, dir+"/src")
	entry := lookup(t, src, snap, "d/f")
	other := lookup(t, src, snap, "d/g")
	state := func(path string, content manifest.Content) known {
		var st unix.Stat_t
		must(t, unix.Lstat(path, &st))
		return known{"d": {"f": {Inode: st.Ino, Size: uint64(st.Size), MTime: stateOf(&st).mtime, CTime: manifest.Time{Sec: st.Ctim.Sec, Nsec: uint32(st.Ctim.Nsec)}, Content: content}}}
	}
	file := dir + "/dst/d/f"
	edit := func() {
		must(t, os.WriteFile(file, []byte("wrong"), 0o644))
		must(t, unix.UtimesNanoAt(unix.AT_FDCWD, file, []unix.Timespec{{}, {Sec: entry.MTime.Sec, Nsec: int64(entry.MTime.Nsec)}}, 0))
	}
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	before := state(file, entry.Content)
	waitForTick(t, dir)
	edit()
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	if b, _ := os.ReadFile(file); string(b) != "wrong" {
		t.Fatalf("by size and mtime the edit cannot be seen, but got %q", b)
	}
	// The ctime tells that something happened, the content what.
	if r := mustRun(t, src, snap, Options{Target: dir + "/dst", Known: before}); r.Updated != 1 {
		t.Errorf("%+v", r)
	}
	wantEqual(t, src, dir+"/dst", snap)
	edit()
	// It is known to hold something else.
	if r := mustRun(t, src, snap, Options{Target: dir + "/dst", Known: state(file, other.Content)}); r.Updated != 1 {
		t.Errorf("%+v", r)
	}
	wantEqual(t, src, dir+"/dst", snap)
	// It is known to be right, and nothing is read or written.
	src.reads.Store(0)
	if r := mustRun(t, src, snap, Options{Target: dir + "/dst", Known: state(file, entry.Content)}); r.Unchanged != 4 || src.reads.Load() != 0 {
		t.Errorf("%+v", r)
	}
}
