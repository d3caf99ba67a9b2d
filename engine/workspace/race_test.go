package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
)

// at makes a hook that acts once, when the walk comes to a path.
func at(path string, do func()) func(string) {
	done := false
	return func(p string) {
		if p == path && !done {
			done = true
			do()
		}
	}
}

func oneWorker(h hooks) func(*Options) {
	return func(o *Options) { o.Workers, o.hooks = 1, h }
}

func TestReplacedBeforeOpen(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "loot"), "must not be read")
	cases := []struct {
		name    string
		replace func(t *testing.T, path string)
		want    manifest.EntryKind // 0: gone
	}{
		{"a link to a file outside", func(t *testing.T, path string) {
			must(t, os.RemoveAll(path))
			must(t, os.Symlink(filepath.Join(outside, "loot"), path))
		}, manifest.Symlink},
		{"a link to a directory outside", func(t *testing.T, path string) {
			must(t, os.RemoveAll(path))
			must(t, os.Symlink(outside, path))
		}, manifest.Symlink},
		{"a FIFO without a writer", func(t *testing.T, path string) {
			must(t, os.RemoveAll(path))
			must(t, unix.Mkfifo(path, 0o600))
		}, manifest.FIFO},
		{"a socket", func(t *testing.T, path string) {
			must(t, os.RemoveAll(path))
			must(t, unix.Mknod(path, unix.S_IFSOCK|0o600, 0))
		}, manifest.Socket},
		{"a directory", func(t *testing.T, path string) {
			must(t, os.Rename(path, filepath.Join(t.TempDir(), "old")))
			write(t, filepath.Join(path, "inside"), "new")
		}, manifest.Dir},
		{"a file", func(t *testing.T, path string) {
			must(t, os.Rename(path, filepath.Join(t.TempDir(), "old")))
			write(t, path, "new")
		}, manifest.File},
		{"nothing", func(t *testing.T, path string) { must(t, os.RemoveAll(path)) }, 0},
	}
	for _, victim := range []string{"file", "dir"} {
		for _, c := range cases {
			t.Run(victim+" becomes "+c.name, func(t *testing.T) {
				dir := t.TempDir()
				write(t, filepath.Join(dir, "file"), "old")
				write(t, filepath.Join(dir, "dir/file"), "old")
				path := filepath.Join(dir, victim)
				s := newStore()
				result := mustWalk(t, s, dir, oneWorker(hooks{beforeOpen: at(victim, func() { c.replace(t, path) })}))
				e, ok := mustTree(t, s, result)[victim]
				if e.Kind != c.want || ok != (c.want != 0) {
					t.Errorf("stored as %v, want %v", e.Kind, c.want)
				}
				if wantVanished := uint64(map[bool]int{true: 1}[c.want == 0]); result.Counts.Vanished != wantVanished {
					t.Errorf("counts %+v", result.Counts)
				}
				for _, b := range s.blobs {
					if strings.Contains(string(b), "must not be read") {
						t.Error("what is outside was read")
					}
				}
				checkAgainstDisk(t, s, dir, result)
			})
		}
	}
}

// An entry that is something else whenever it is opened does not hold the walk.
func TestReplacedForEver(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "shifty")
	write(t, path, "file")
	s := newStore()
	n := 0
	result := mustWalk(t, s, dir, oneWorker(hooks{beforeOpen: func(p string) {
		n++
		must(t, os.RemoveAll(path))
		if n%2 == 1 {
			must(t, os.Mkdir(path, 0o755))
		} else {
			must(t, os.WriteFile(path, nil, 0o644))
		}
	}}))
	if result.Counts.Unreadable != 1 || len(result.Omissions) != 1 || result.Omissions[0].Path != "shifty" {
		t.Errorf("counts %+v, omissions %+v", result.Counts, result.Omissions)
	}
}

// A directory that was moved away while the walk was elsewhere may live on under
// a name that was not listed: what is in it is not saved, and that is said.
func TestMovedDirectoryIsReported(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "old", "file"), "content")
	s := newStore()
	result := mustWalk(t, s, dir, oneWorker(hooks{beforeOpen: func(p string) {
		if p == "old" {
			must(t, os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "renamed")))
			must(t, os.Symlink("/etc", filepath.Join(dir, "old")))
		}
	}}))
	if !result.Torn() || len(result.Omissions) != 1 || result.Omissions[0].Path != "old" || result.Omissions[0].Class != manifest.TornFile {
		t.Errorf("counts %+v, omissions %+v", result.Counts, result.Omissions)
	}
}

func TestChangedWhileRead(t *testing.T) {
	old := strings.Repeat("0123456789", 20_000)
	cases := []struct {
		name     string
		attempts int // that see a change
		change   func(t *testing.T, path string, attempt int)
		torn     bool
		want     func(attempt int) string
	}{
		{"grows once", 1, func(t *testing.T, path string, _ int) { appendTo(t, path, "more") }, false,
			func(int) string { return old + "more" }},
		{"shrinks once", 1, func(t *testing.T, path string, _ int) { must(t, os.Truncate(path, 10)) }, false,
			func(int) string { return old[:10] }},
		{"is edited in place", 3, func(t *testing.T, path string, n int) {
			waitForTick(t, filepath.Dir(path))
			overwrite(t, path, 'a'+byte(n))
		}, false,
			func(int) string { return "d" + old[1:] }},
		{"grows all the time", 100, func(t *testing.T, path string, _ int) { appendTo(t, path, "more") }, true,
			func(n int) string { return old + strings.Repeat("more", n-1) }},
		{"is replaced", 1, func(t *testing.T, path string, _ int) {
			must(t, os.Rename(path, path+".old"))
			must(t, os.Symlink("/etc/passwd", path))
		}, false, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "log")
			write(t, path, old)
			s := newStore()
			last := 0
			result := mustWalk(t, s, dir, oneWorker(hooks{afterRead: func(p string, attempt int) {
				last = attempt
				if attempt <= c.attempts {
					c.change(t, path, attempt)
				}
			}}))
			e := mustTree(t, s, result)["log"]
			if c.want == nil {
				if e.Kind != manifest.Symlink {
					t.Errorf("stored as %v, want what took its place", e.Kind)
				}
				return
			}
			content, err := s.content(e)
			must(t, err)
			if string(content) != c.want(last) {
				t.Errorf("content of %d bytes after %d attempts, want %d", len(content), last, len(c.want(last)))
			}
			want := manifest.Counts{Files: 1, Bytes: e.Size}
			if c.torn {
				want.Torn = 1
			}
			if result.Counts != want || result.Torn() != c.torn {
				t.Errorf("counts %+v, want %+v", result.Counts, want)
			}
			if c.torn && !slices.Equal(result.Omissions, []manifest.Omission{{Path: "log", Class: manifest.TornFile, Reason: tornReason}}) {
				t.Errorf("omissions %+v", result.Omissions)
			}
		})
	}
}

func appendTo(t *testing.T, path, more string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(more)
	must(t, err)
	must(t, f.Close())
}

func overwrite(t *testing.T, path string, b byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{b}, 0)
	must(t, err)
	must(t, f.Close())
}

// A large file that shrinks under all workers is torn, not a failure.
func TestLargeFileShrinks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "big")
	write(t, path, strings.Repeat("0123456789abcdef", 2<<20))
	s := newStore()
	result := mustWalk(t, s, dir, func(o *Options) {
		o.hooks.afterRead = func(_ string, n int) { must(t, os.Truncate(path, int64(30-n)<<20)) }
	})
	e := mustTree(t, s, result)["big"]
	content, err := s.content(e)
	must(t, err)
	if len(content) != 27<<20 || result.Counts.Torn != 1 {
		t.Errorf("%d bytes, counts %+v", len(content), result.Counts)
	}
}

// Files that claim no size and never end are read to the size they claim.
func TestPseudoFiles(t *testing.T) {
	s := newStore()
	result := mustWalk(t, s, "/proc/sys/kernel/random", nil)
	if result.BytesRead != 0 || result.Counts.Files < 3 || result.Counts.Torn > 0 {
		t.Errorf("read %d bytes, counts %+v", result.BytesRead, result.Counts)
	}
}

// What was listed and is gone when its turn comes is counted, not an error.
func TestVanished(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c", "d/e"} {
		write(t, filepath.Join(dir, name), name)
	}
	s := newStore()
	result := mustWalk(t, s, dir, oneWorker(hooks{beforeOpen: at("a", func() {
		must(t, os.Remove(filepath.Join(dir, "b")))
		must(t, os.RemoveAll(filepath.Join(dir, "d")))
	})}))
	if result.Counts.Vanished != 2 || result.Counts.Files != 2 || len(result.Omissions) > 0 || result.Partial() {
		t.Errorf("counts %+v, omissions %v", result.Counts, result.Omissions)
	}
	checkAgainstDisk(t, s, dir, result)
}
