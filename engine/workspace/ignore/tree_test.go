package ignore_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine/workspace/ignore"
)

// A tree has its directories and ignore files on disk, for git. The other files
// are there in name only, which is all that git asks of them: making thousands
// of them takes most of the time of these tests.
type tree struct {
	root    string
	entries map[string][]treeEntry // by directory below the root, "" being the root
	files   map[string]string      // ignore files, by path below the root
}

type treeEntry struct {
	name string
	kind fs.FileMode // fs.ModeDir, fs.ModeSymlink or 0
}

// newTree makes a repository.
func newTree(t *testing.T) *tree {
	tr := &tree{root: t.TempDir(), entries: map[string][]treeEntry{}, files: map[string]string{}}
	git(t, tr.root, nil, "init", "-q", "--template=")
	tr.files[".git/HEAD"] = "ref: refs/heads/main\n"
	return tr
}

// add returns false if there is an entry of this name.
func (tr *tree) add(t *testing.T, name string, kind fs.FileMode) bool {
	t.Helper()
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	if slices.ContainsFunc(tr.entries[dir], func(e treeEntry) bool { return e.name == base }) {
		return false
	}
	tr.entries[dir] = append(tr.entries[dir], treeEntry{base, kind})
	var err error
	switch kind {
	case fs.ModeDir:
		tr.entries[name] = nil
		err = os.Mkdir(filepath.Join(tr.root, name), 0o777)
	case fs.ModeSymlink:
		err = os.Symlink(".", filepath.Join(tr.root, name))
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

func (tr *tree) write(t *testing.T, name, content string) {
	t.Helper()
	tr.files[name] = content
	real := filepath.Join(tr.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(real), 0o777), os.WriteFile(real, []byte(content), 0o666)); err != nil {
		t.Fatal(err)
	}
}

func (tr *tree) readFile(dir string) ignore.ReadFile {
	return func(name string) ([]byte, error) {
		if content, ok := tr.files[path.Join(dir, name)]; ok {
			return []byte(content), nil
		}
		return nil, fs.ErrNotExist
	}
}

// walk lists the paths of the tree, and the rules by which those are excluded
// that are. What is below an excluded directory has the rule of that directory.
func (tr *tree) walk(t *testing.T, p *ignore.Policy) (paths []string, rules map[string]string) {
	t.Helper()
	rules = map[string]string{}
	var visit func(dir *ignore.Dir, below, inherited string)
	visit = func(dir *ignore.Dir, below, inherited string) {
		for _, e := range tr.entries[below] {
			name, rule, sub := path.Join(below, e.name), inherited, dir
			paths = append(paths, name)
			if rule == "" {
				rule, _ = dir.Excluded(e.name, e.kind == fs.ModeDir)
			}
			if rule != "" {
				rules[name] = rule
			}
			if e.kind != fs.ModeDir {
				continue
			}
			if rule == "" {
				var err error
				if sub, err = dir.Enter(e.name, tr.readFile(name)); err != nil {
					t.Fatal(err)
				}
			}
			visit(sub, name, rule)
		}
	}
	dir, err := p.Root(tr.readFile(""))
	if err != nil {
		t.Fatal(err)
	}
	visit(dir, "", "")
	return paths, rules
}

// random adds entries below a directory.
func (tr *tree) random(t *testing.T, r *rand.Rand, dir string, depth int) {
	for range 2 + r.IntN(7) {
		name := path.Join(dir, pick(r, names))
		switch k := r.IntN(8); {
		case k < 4 && depth > 0:
			if tr.add(t, name, fs.ModeDir) {
				tr.random(t, r, name, depth-1)
			}
		case k == 4 && r.IntN(8) == 0:
			tr.add(t, name, fs.ModeSymlink)
		default:
			tr.add(t, name, 0)
		}
	}
}

// names are those of generated trees; several tell bytes from characters,
// escapes from what they escape, and greedy matching from the right one.
var names = []string{
	"a", "b", "aa", "ab", "ba", "aab", "aba", "abab", "x.log", "x.log.log", ".log", ".a", "a.b",
	"A", "foo", "foobar", "bar", "foo.o", "a b", "a ", " a", "#a", "!a", `a\b`, `\`, "[", "]", "[a]", "a[b",
	"-", "a-b", "*", "**", "?", "^", "a*b", "\xff", "a\xffb", "é", "a\tb", "a\nb", "\x7f", "0", "9z", "a,b", "~",
}

var atoms = []string{
	"a", "b", "aa", "ab", "foo", "bar", "o", ".log", ".", "x", "*", "*", "*", "**", "***", "?", "??", "/", "/", "/**/", "**/", "/**",
	"[ab]", "[!a]", "[^b]", "[a-b]", "[b-a]", "[]a]", "[!]a]", "[a", "[", "]", "[]", "[a-]", "[-a]", `[\]a]`, `[\a-\b]`, "[a-b-z]",
	"[[:alpha:]]", "[[:digit:]a]", "[![:space:]]", "[[:punct:]]", "[[:nope:]]", "[[:]", "[[:a]", "[[:alpha:", "[[:cntrl:]]", "[[:upper:][:digit:]]",
	"[a/b]", "[/]", `\`, `\a`, `\*`, `\?`, `\[`, `\\`, `\/`, `**\/`, " ", `\ `, "  ", "#", "!", "-", "\xff", "é", "[\x80-\xff]", "\t", "^", "0", ",",
}

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// randomPattern is an atom or several, or a name of the trees that has been
// changed a little, so that many match.
func randomPattern(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(5) == 0 {
		b.WriteByte('!')
	}
	if r.IntN(6) == 0 {
		b.WriteByte('/')
	}
	for range 1 + r.IntN(3) {
		if r.IntN(3) > 0 {
			b.WriteString(pick(r, atoms))
		} else {
			b.WriteString(pick(r, names[:20]))
		}
		if r.IntN(3) == 0 {
			b.WriteString(pick(r, []string{"/", "/**/", "/*", "*", "/*/"}))
		}
	}
	if r.IntN(6) == 0 {
		b.WriteByte('/')
	}
	return b.String()
}

func randomFile(r *rand.Rand, lines int, avoid *regexp.Regexp) string {
	var b strings.Builder
	if r.IntN(10) == 0 {
		b.WriteString("\xef\xbb\xbf")
	}
	for range lines {
		p := randomPattern(r)
		for avoid != nil && avoid.MatchString(p) {
			p = randomPattern(r)
		}
		b.WriteString(p)
		b.WriteString(pick(r, []string{"\n", "\n", "\n", "\n", "\n", "\r\n", " \n", "\n\n", "\n# a\n", "\x00b\n", "\r"}))
	}
	return b.String()
}
