package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// disk is a small filesystem in memory that can be filled to the last page.
type disk struct {
	t   *testing.T
	dir string
}

func newDisk(t *testing.T, options string) *disk {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("snapctl-test", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("this test mounts a small tmpfs, for which it has to run as root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return &disk{t, dir}
}

func (d *disk) ballast() string { return filepath.Join(d.dir, ".ballast") }

// fill leaves so many bytes free.
func (d *disk) fill(leave int64) {
	d.t.Helper()
	d.empty()
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		d.t.Fatal(err)
	}
	size := int64(st.Bavail)*st.Bsize - leave
	f, err := os.Create(d.ballast())
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, size), f.Close())
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// empty makes room again.
func (d *disk) empty() {
	d.t.Helper()
	if err := os.Remove(d.ballast()); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
}

// failsFull fails the test unless a run failed and named the place that is full.
func failsFull(t *testing.T, o outcome, place string) {
	t.Helper()
	if o.code != exitFailed || !strings.Contains(o.err, place) || !strings.Contains(o.err, "space") || strings.Contains(o.err, "goroutine ") {
		t.Errorf("exit %d, want %d and a message that %s is full:\n%s", o.code, exitFailed, place, o.err)
	}
}

func incompressible(t *testing.T, path string, size int) {
	t.Helper()
	content := make([]byte, size)
	rand.Read(content)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

const page = 4096

// TestFullRepository fills the disk of the repository so that a page more fits
// each time: first the pack does not fit, then the index segment, the pending
// object, and the snapshot.
func TestFullRepository(t *testing.T) {
	d := newDisk(t, "size=64m")
	m := machineAt(t, t.TempDir(), filepath.Join(d.dir, "repo"), filepath.Join(t.TempDir(), "state"))
	m.must("init")
	m.must("snapshot", m.ws) // makes the folders
	met := map[string]bool{}
	for pages := int64(0); ; pages++ {
		if pages > 50 {
			t.Fatal("it never fits")
		}
		incompressible(t, filepath.Join(m.ws, "f"), 100+int(pages))
		d.fill(pages * page)
		o := m.run("snapshot", m.ws)
		if o.code == 0 {
			break
		}
		for _, folder := range []string{"packs/", "index/", "pending/", "snapshots/"} {
			if strings.Contains(o.err, "put "+folder) {
				met[folder] = true
				failsFull(t, o, "put "+folder)
			}
		}
		failsFull(t, o, d.dir)
		d.empty()
		m.must("check", "--read-data")
		restoresTo(m, m.must("snapshot", m.ws, "--json").saved(t).Snapshot)
	}
	for _, folder := range []string{"packs/", "index/", "pending/", "snapshots/"} {
		if !met[folder] {
			t.Errorf("the disk was never full when an object of %s was put", folder)
		}
	}
}

// restoresTo fails the test unless the snapshot holds the workspace.
func restoresTo(m *machine, snapshot string) {
	m.t.Helper()
	target := filepath.Join(m.t.TempDir(), "restored")
	m.must("restore", snapshot, target)
	want, err := os.ReadDir(m.ws)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, e := range want {
		a, errA := os.ReadFile(filepath.Join(m.ws, e.Name()))
		b, errB := os.ReadFile(filepath.Join(target, e.Name()))
		if errA != nil || errB != nil || string(a) != string(b) {
			m.t.Errorf("%s was not restored: %v, %v", e.Name(), errA, errB)
		}
	}
}

// TestFullRepositoryDuringManyPacks: what was stored before it was full is used by
// the next attempt.
func TestFullRepositoryDuringManyPacks(t *testing.T) {
	d := newDisk(t, "size=128m")
	m := machineAt(t, t.TempDir(), filepath.Join(d.dir, "repo"), filepath.Join(t.TempDir(), "state"))
	m.must("init")
	for i := range 60 {
		incompressible(t, filepath.Join(m.ws, fmt.Sprint(i)), 1<<20)
	}
	d.fill(40 << 20)
	failsFull(t, m.run("snapshot", m.ws), d.dir)
	if left := names(t, filepath.Join(m.repo, ".tmp")); len(left) > 0 {
		t.Errorf("temporary files take the last space: %q", left)
	}
	d.empty()
	m.must("check", "--read-data")
	again := m.must("snapshot", m.ws, "--json").saved(t)
	restoresTo(m, again.Snapshot)
	m.must("check", "--read-data")
	if held := stored(t, m.repo); held > 70<<20 {
		t.Errorf("%d MB stored for 60 MB", held>>20)
	}
}

// TestFullDestination: a restore into a place that is too small leaves nothing
// that looks complete, and goes on once there is room.
func TestFullDestination(t *testing.T) {
	m := newMachine(t)
	for i := range 40 {
		incompressible(t, filepath.Join(m.ws, fmt.Sprint(i)), 256<<10)
	}
	snapshot := m.must("snapshot", m.ws, "--json").saved(t).Snapshot
	for name, options := range map[string]string{"bytes": "size=4m", "files": "size=64m,nr_inodes=20"} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t, options)
			target := filepath.Join(d.dir, "target")
			failsFull(t, m.run("restore", snapshot, target), target)
			if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the target looks complete: %v", err)
			}
			if err := unix.Mount("snapctl-test", d.dir, "tmpfs", unix.MS_REMOUNT, "size=64m,nr_inodes=1000"); err != nil {
				t.Fatal(err)
			}
			m.must("restore", snapshot, target)
			for i := range 40 {
				a, errA := os.ReadFile(filepath.Join(m.ws, fmt.Sprint(i)))
				b, errB := os.ReadFile(filepath.Join(target, fmt.Sprint(i)))
				if errA != nil || errB != nil || string(a) != string(b) {
					t.Errorf("file %d was not restored: %v, %v", i, errA, errB)
				}
			}
			if left := names(t, d.dir); len(left) != 1 {
				t.Errorf("beside the target: %q", left)
			}
		})
	}
}

// TestFullStateDirectory: local state is a cache. Where it does not fit, a run goes
// on without, and nothing is broken for the next.
func TestFullStateDirectory(t *testing.T) {
	d := newDisk(t, "size=64m")
	m := newMachine(t)
	m.state = filepath.Join(d.dir, "state")
	incompressible(t, filepath.Join(m.ws, "f"), 100<<10)
	for n, kib := range []int64{0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096} {
		for _, warm := range []bool{false, true} {
			if !warm {
				if err := os.RemoveAll(m.state); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 300 {
				incompressible(t, filepath.Join(m.ws, fmt.Sprint(i)), 100+n)
			}
			d.fill(kib << 10)
			restoresTo(m, m.must("snapshot", m.ws, "--json").saved(t).Snapshot)
			d.empty()
			m.must("check", "--read-data")
			restoresTo(m, m.must("snapshot", m.ws, "--json").saved(t).Snapshot)
		}
	}
}
