package ignore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine/workspace/ignore"
)

// git runs git in dir, away from the configuration of the machine.
func git(t *testing.T, dir string, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil // check-ignore: nothing is excluded
	}
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, stderr.Bytes())
	}
	return out
}

// starsAfterText is where git before 2.52 was wrong: it took the "**" of
// "name**/rest" for the beginning of the pattern.
var starsAfterText = regexp.MustCompile(`^!?[^*?\[\\]*[^*?\[\\/]\*\*.*/.`)

// avoided is what not to ask the git of this machine; nil from 2.52.
func avoided(t *testing.T) *regexp.Regexp {
	version := regexp.MustCompile(`(\d+)\.(\d+)`).FindSubmatch(git(t, t.TempDir(), nil, "version"))
	major, _ := strconv.Atoi(string(version[1]))
	minor, _ := strconv.Atoi(string(version[2]))
	if major > 2 || major == 2 && minor >= 52 {
		return nil
	}
	return starsAfterText
}

// checkIgnore asks git for the rule that decides about each path below the
// root, in the form of Dir.Excluded. Paths that are kept are not in the answer.
func checkIgnore(t *testing.T, root string, paths []string) map[string]string {
	t.Helper()
	stdin := []byte(strings.Join(paths, "\x00") + "\x00")
	out := git(t, root, stdin, "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin")
	fields := strings.Split(string(out), "\x00")
	if len(fields) != 4*len(paths)+1 {
		t.Fatalf("git answered %d fields for %d paths", len(fields), len(paths))
	}
	rules := map[string]string{}
	for ; len(fields) >= 4; fields = fields[4:] {
		if source, number, pattern := fields[0], fields[1], fields[2]; source != "" && pattern[0] != '!' {
			rules[fields[3]] = source + ":" + number + ": " + pattern
		}
	}
	return rules
}

// plain undoes the quoting in a rule's text, to compare it with git's.
func plain(rule string) string {
	var source string
	if q, err := strconv.QuotedPrefix(rule); err == nil {
		source, _ = strconv.Unquote(q)
		rule = rule[len(q):]
	}
	number, pattern, _ := strings.Cut(rule, ": ")
	if p, err := strconv.Unquote(pattern); err == nil && pattern[0] == '"' {
		pattern = p
	}
	return source + number + ": " + pattern
}

func compareWithGit(t *testing.T, tr *tree) (decisions int) {
	t.Helper()
	paths, got := tr.walk(t, policy(t, ignore.Options{Git: true}))
	want := checkIgnore(t, tr.root, paths)
	for _, name := range paths {
		rule := got[name]
		if rule != "" {
			rule = plain(rule)
		}
		if rule != want[name] {
			t.Errorf("%q: excluded by %q, in git by %q", name, rule, want[name])
		}
	}
	return len(paths)
}

func policy(t *testing.T, o ignore.Options) *ignore.Policy {
	t.Helper()
	p, err := ignore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGitPatterns gives each pattern a directory of its own, with much in it that
// patterns could tell apart.
func TestGitPatterns(t *testing.T) {
	avoid := avoided(t)
	r := rand.New(rand.NewPCG(1, 2))
	tr := newTree(t)
	const patterns = 600
	for i := range patterns {
		dir := fmt.Sprintf("%04d", i)
		tr.add(t, dir, fs.ModeDir)
		tr.random(t, r, dir, 2)
		tr.write(t, dir+"/.gitignore", randomFile(r, 1+i%2, avoid))
	}
	t.Logf("%d ignore files, %d decisions", patterns, compareWithGit(t, tr))
}

// TestGitTrees has ignore files at all levels of each tree.
func TestGitTrees(t *testing.T) {
	avoid := avoided(t)
	decisions := 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(3, seed))
		tr := newTree(t)
		tr.random(t, r, "", 4)
		tr.write(t, ".git/info/exclude", randomFile(r, 3, avoid))
		for _, dir := range slices.Sorted(maps.Keys(tr.entries)) {
			if r.IntN(2) == 0 {
				tr.write(t, path.Join(dir, ".gitignore"), randomFile(r, 1+r.IntN(6), avoid))
			}
		}
		if decisions += compareWithGit(t, tr); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d decisions", decisions)
}

// TestSnapIgnoreIsLikeGitIgnore turns the .gitignore files of random trees into
// .snapignore files.
func TestSnapIgnoreIsLikeGitIgnore(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(7, seed))
		tr := newTree(t)
		tr.random(t, r, "", 3)
		for _, dir := range slices.Sorted(maps.Keys(tr.entries)) {
			if r.IntN(2) == 0 {
				tr.write(t, path.Join(dir, ".gitignore"), randomFile(r, 1+r.IntN(6), nil))
			}
		}
		_, want := tr.walk(t, policy(t, ignore.Options{Git: true}))
		for name, content := range tr.files {
			tr.files[strings.Replace(name, ".gitignore", ".snapignore", 1)] = content
		}
		_, got := tr.walk(t, policy(t, ignore.Options{}))
		for name, rule := range got {
			got[name] = strings.Replace(rule, ".snapignore", ".gitignore", 1)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d: .snapignore excludes %q, .gitignore %q", seed, got, want)
		}
	}
}

// TestGitCaller compares rules of the caller with those of "git ls-files -x",
// which lists only files that exist.
func TestGitCaller(t *testing.T) {
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(5, seed))
		tr := newTree(t)
		tr.random(t, r, "", 2)
		tr.write(t, ".gitignore", "!a\nfoo\n*.log\n!bar/\nab/\n")
		args := []string{"ls-files", "-z", "--others", "--ignored", "--exclude-per-directory=.gitignore"}
		var o ignore.Options
		for o.Git = true; len(o.Patterns) < 3; {
			pattern := randomPattern(r)
			_, err := ignore.New(ignore.Options{Patterns: []string{pattern}})
			if err != nil || starsAfterText.MatchString(pattern) {
				continue
			}
			o.Patterns = append(o.Patterns, pattern)
			args = append(args, "--exclude="+pattern)
		}
		paths, rules := tr.walk(t, policy(t, o))
		var got []string
		for _, name := range paths {
			if _, isDir := tr.entries[name]; isDir {
				continue
			}
			if _, err := os.Lstat(filepath.Join(tr.root, name)); err != nil {
				tr.write(t, name, "")
			}
			if rules[name] != "" {
				got = append(got, name)
			}
		}
		want := strings.FieldsFunc(string(git(t, tr.root, nil, args...)), func(r rune) bool { return r == 0 })
		want = slices.DeleteFunc(want, func(name string) bool { return name == ".gitignore" })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %q: excluded %q, in git %q", seed, o.Patterns, got, want)
		}
	}
}

// TestGitLines has what random lines seldom have.
func TestGitLines(t *testing.T) {
	contents := []string{
		"a ", "a  \n", `a\ `, `a\  `, `a\\ `, `a\\\ `, `a\\\\ `, ` a`, "a\t", "a\r", "a\r\n", "a \r\n", "a\r \n", "a\r\r\n",
		"\xef\xbb\xbfa", "\n\xef\xbb\xbfa", "\xef\xbb\xbf#a", " #a", `\#a`, "#a", "!a", `\!a`, "!!a\n!a", "\na", "a\x00b", "\x00a", "*\n!a/", "*/\n!a",
	}
	tr := newTree(t)
	for i, content := range contents {
		dir := strconv.Itoa(i)
		tr.add(t, dir, fs.ModeDir)
		tr.write(t, dir+"/.gitignore", content)
		for _, name := range []string{"a ", "a  ", `a\`, `a\ `, `a\\`, " a", "a\t", "a\r", "a\r ", "\xef\xbb\xbfa", "#a", " #a", "!a", `\#a`, "ab"} {
			tr.add(t, dir+"/"+name, 0)
		}
		tr.add(t, dir+"/a", fs.ModeDir)
	}
	compareWithGit(t, tr)
}

// TestGitSets tries every byte that a name can have against the sets.
func TestGitSets(t *testing.T) {
	tr := newTree(t)
	classes := []string{"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"}
	for i, class := range classes {
		for k, pattern := range []string{"?[[:" + class + ":]]", "?[![:" + class + ":]-]", "?[a[:" + class + ":]-z]"} {
			dir := fmt.Sprintf("%d-%d", i, k)
			tr.add(t, dir, fs.ModeDir)
			tr.write(t, dir+"/.gitignore", pattern)
			for b := 1; b < 256; b++ {
				if b != '/' {
					tr.add(t, dir+"/b"+string([]byte{byte(b)}), 0)
				}
			}
		}
	}
	if n := compareWithGit(t, tr); n < 36*254 {
		t.Errorf("only %d paths were compared", n)
	}
}

// TestGitNestedRepository compares the inside of a repository in a repository
// with what git says when it runs in the inner one.
func TestGitNestedRepository(t *testing.T) {
	tr := newTree(t)
	tr.write(t, ".gitignore", "*.log\n/in/sub/a\n")
	tr.add(t, "in", fs.ModeDir)
	tr.add(t, "in/sub", fs.ModeDir)
	var inside []string
	for _, name := range []string{"x.log", "a", "b", "sub/a", "sub/b", "sub/x.log", "sub/c"} {
		tr.add(t, "in/"+name, 0)
		inside = append(inside, name)
	}
	tr.write(t, "in/sub/.gitignore", "b\n!c\n")
	inner := filepath.Join(tr.root, "in")
	git(t, inner, nil, "init", "-q", "--template=")
	tr.write(t, "in/.git/info/exclude", "/a\nc\n")
	tr.files["in/.git/HEAD"] = "ref: refs/heads/main\n"

	_, rules := tr.walk(t, policy(t, ignore.Options{Git: true}))
	want := checkIgnore(t, inner, inside)
	for _, name := range inside {
		if got := strings.TrimPrefix(rules["in/"+name], "in/"); got != want[name] {
			t.Errorf("%s: excluded by %q, in git by %q", name, got, want[name])
		}
	}
	if len(want) != 2 {
		t.Errorf("git excludes %q, want a and sub/b", want)
	}
}
