package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
)

// makeChain makes levels directories called "a" inside of each other, each with a
// directory "b" beside it that holds a file.
func makeChain(t testing.TB, dir string, levels int, content string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(fd, "a", 0o755))
		must(t, unix.Mkdirat(fd, "b", 0o755))
		file, err := unix.Openat(fd, "b/file", unix.O_CREAT|unix.O_WRONLY, 0o644)
		must(t, err)
		_, err = unix.Write(file, []byte(content))
		must(t, err)
		unix.Close(file)
		next, err := unix.Openat(fd, "a", unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

func TestDeepTree(t *testing.T) {
	const levels = 5000
	dir := shmDir(t)
	makeChain(t, dir, levels, "content")
	s := newStore()
	most := 0
	result := mustWalk(t, s, dir, func(o *Options) {
		o.Workers = 1
		o.hooks.beforeOpen = func(path string) {
			if len(path)%501 == 0 {
				most = max(most, openFDs(t))
			}
		}
	})
	want := manifest.Counts{Files: levels, Dirs: 2 * levels, Bytes: levels * uint64(len("content"))}
	if result.Counts != want || len(result.Omissions) > 0 {
		t.Errorf("counts %+v, want %+v; omissions %v", result.Counts, want, result.Omissions)
	}
	if most > maxDirFDs+20 {
		t.Errorf("%d descriptors were open", most)
	}
	if again := mustWalk(t, s, dir, nil); again.Root != result.Root {
		t.Error("three workers find another root than one")
	}
}

func TestPathTooLong(t *testing.T) {
	dir := shmDir(t)
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must(t, err)
	name := strings.Repeat("n", 250)
	for range 300 { // 75,000 bytes
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	s := newStore()
	result := mustWalk(t, s, dir, nil)
	const kept = manifest.MaxPath / 251
	if result.Counts.Dirs != kept || result.Counts.Unreadable != 1 || !result.Partial() {
		t.Errorf("counts %+v, want %d directories", result.Counts, kept)
	}
	if len(result.Omissions) != 1 || len(result.Omissions[0].Path) != kept*251-1 {
		t.Errorf("%d omissions", len(result.Omissions))
	}
}

// A directory whose descriptor was given up while the walk is deep below it, and
// that is swapped for a link meanwhile, leads nowhere.
func TestSwappedAboveTheWalk(t *testing.T) {
	const levels = 2 * maxDirFDs
	dir, outside := shmDir(t), shmDir(t)
	makeChain(t, dir, levels, "mine")
	makeChain(t, outside, levels, "must not be read")
	top := strings.TrimSuffix(strings.Repeat("a/", 20), "/")
	bottom := strings.TrimSuffix(strings.Repeat("a/", levels), "/")
	s := newStore()
	result := mustWalk(t, s, dir, oneWorker(hooks{beforeOpen: at(bottom, func() {
		must(t, os.Rename(filepath.Join(dir, top), filepath.Join(dir, "moved")))
		must(t, os.Symlink(filepath.Join(outside, top), filepath.Join(dir, top)))
	})}))
	for _, b := range s.blobs {
		if strings.Contains(string(b), "must not be read") {
			t.Fatal("what is outside was read")
		}
	}
	// What was open still, near the bottom and near the top, is there.
	if c := result.Counts; c.Vanished == 0 || c.Files < maxDirFDs/2 || c.Files+c.Vanished != levels {
		t.Errorf("counts %+v", c)
	}
}
