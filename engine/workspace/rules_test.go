package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/ignore"
)

// ignoreRules are the rules of a policy and of the ignore files in the tree.
type ignoreRules struct {
	policy *ignore.Policy
	dir    *ignore.Dir // nil above the root
}

func (r ignoreRules) Enter(name string, read ReadFile) (Rules, error) {
	enter := func(read ignore.ReadFile) (*ignore.Dir, error) { return r.policy.Root(read) }
	if r.dir != nil {
		enter = func(read ignore.ReadFile) (*ignore.Dir, error) { return r.dir.Enter(name, read) }
	}
	dir, err := enter(ignore.ReadFile(read))
	return ignoreRules{policy: r.policy, dir: dir}, err
}

func (r ignoreRules) Excluded(name string, isDir bool) (string, bool) {
	return r.dir.Excluded(name, isDir)
}

func policy(t *testing.T, o ignore.Options) func(*Options) {
	t.Helper()
	p, err := ignore.New(o)
	must(t, err)
	return func(o *Options) { o.Rules = ignoreRules{policy: p} }
}

func TestRulesLeaveOutAndReport(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"keep", "a.log", "build/x", "sub/a.log", "sub/tmp/y", "sub/tmp2/z"} {
		write(t, filepath.Join(dir, name), name)
	}
	write(t, filepath.Join(dir, "sub/.snapignore"), "tmp/\n!a.log\n")
	s := newStore()
	result := mustWalk(t, s, dir, policy(t, ignore.Options{Patterns: []string{"*.log", "/build/"}}))
	tree := mustTree(t, s, result)
	var names []string
	for name := range tree {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{"", "keep", "sub", "sub/.snapignore", "sub/tmp2", "sub/tmp2/z"}
	if !slices.Equal(names, want) {
		t.Errorf("stored %q, want %q", names, want)
	}
	var left []string
	for _, o := range result.Omissions {
		if o.Class != manifest.Excluded || o.Reason == "" {
			t.Errorf("omission %+v", o)
		}
		left = append(left, o.Path)
	}
	if !slices.Equal(left, []string{"a.log", "build", "sub/a.log", "sub/tmp"}) || result.Counts.Excluded != 4 || result.Partial() {
		t.Errorf("left out %q, counts %+v", left, result.Counts)
	}
}

// New rules in the tree hold for directories that did not change otherwise.
func TestRulesBeforeCache(t *testing.T) {
	s := newSource(t)
	write(t, s.path("d/e/a.log"), "log")
	write(t, s.path("d/e/b"), "b")
	rules := policy(t, ignore.Options{})
	first := s.snapshot(rules)
	write(t, s.path(".snapignore"), "*.log\n")
	second := s.snapshot(rules)
	if second.Counts.Excluded != 1 || second.Counts.Files != 2 {
		t.Errorf("counts %+v", second.Counts)
	}
	must(t, os.Remove(s.path(".snapignore")))
	if third := s.snapshot(rules); third.Counts.Files != first.Counts.Files || third.Counts.Excluded != 0 {
		t.Errorf("counts %+v", third.Counts)
	}
}

// An ignore file that is a link or a FIFO counts for nothing, and is not opened;
// one that cannot be read shuts its directory.
func TestOddIgnoreFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules"), "*\n")
	for _, name := range []string{"link/f", "fifo/f", "dir/f", "huge/f"} {
		write(t, filepath.Join(dir, name), name)
	}
	must(t, os.Symlink("../rules", filepath.Join(dir, "link/.snapignore")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo/.snapignore"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "dir/.snapignore"), 0o755))
	write(t, filepath.Join(dir, "huge/.snapignore"), strings.Repeat("#", ignore.MaxFile+1))
	s := newStore()
	result := mustWalk(t, s, dir, policy(t, ignore.Options{}))
	tree := mustTree(t, s, result)
	for name, want := range map[string]bool{"link/f": true, "fifo/f": true, "dir/f": true, "huge": true, "huge/f": false} {
		if _, ok := tree[name]; ok != want {
			t.Errorf("%s: stored %t, want %t", name, ok, want)
		}
	}
	if len(result.Omissions) != 1 || result.Omissions[0].Path != "huge" || !result.Partial() {
		t.Errorf("omissions %+v", result.Omissions)
	}
}

func TestReadBeneath(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, ".git/info/exclude"), "content")
	must(t, os.Symlink(".git", filepath.Join(dir, "link")))
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(fd)
	b, err := readBeneath(fd, ".git/info/exclude", 4)
	if err != nil || string(b) != "cont" {
		t.Errorf("read %q, %v", b, err)
	}
	for _, name := range []string{"link/info/exclude", ".git/info", ".git/missing", "no/such"} {
		if _, err := readBeneath(fd, name, 10); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTaggedCaches(t *testing.T) {
	const signature = "Signature: 8a477f597d28d172789f06886806bc55\n"
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cache/CACHEDIR.TAG"), signature)
	write(t, filepath.Join(dir, "cache/sub/big"), "big")
	write(t, filepath.Join(dir, "false/CACHEDIR.TAG"), "no signature")
	write(t, filepath.Join(dir, "false/f"), "f")
	s := newStore()
	if tree := mustTree(t, s, mustWalk(t, s, dir, nil)); tree["cache/sub/big"].Name == "" {
		t.Error("a cache is left out unasked")
	}
	result := mustWalk(t, s, dir, func(o *Options) { o.SkipTaggedCaches = true })
	tree := mustTree(t, s, result)
	if len(tree) != 6 || tree["cache/CACHEDIR.TAG"].Name == "" || tree["false/f"].Name == "" {
		t.Errorf("%d entries", len(tree))
	}
	if result.Counts.Excluded != 1 || result.Omissions[0].Path != "cache" {
		t.Errorf("omissions %+v", result.Omissions)
	}
}

func TestOmissionsAreTheFirstOnes(t *testing.T) {
	var o omissions
	for i := range 3 * manifest.MaxOmissions {
		n := (i * 7919) % (3 * manifest.MaxOmissions) // in a scattered order
		o.add(string([]byte{'a' + byte(n/1000), 'a' + byte(n/100%10), 'a' + byte(n/10%10), 'a' + byte(n%10)}), manifest.Excluded, "rule")
	}
	list := o.sorted()
	if len(list) != manifest.MaxOmissions || list[0].Path != "aaaa" || list[len(list)-1].Path != "ajjj" {
		t.Errorf("%d omissions from %q to %q", len(list), list[0].Path, list[len(list)-1].Path)
	}
	long := strings.Repeat("p", manifest.MaxPath-10)
	for i := range 100 {
		o.add(long+string(rune('a'+i%26)), manifest.Unreadable, strings.Repeat("r", 2*manifest.MaxReason))
	}
	m := manifest.Manifest{Root: [32]byte{1}, Consistency: manifest.Live, Omissions: o.sorted()}
	if _, err := manifest.Decode(m.Encode()); err != nil {
		t.Errorf("a manifest of them: %v", err)
	}
}
