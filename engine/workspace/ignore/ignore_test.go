package ignore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/snapctl/snapctl/engine/workspace/ignore"
)

// files answers for a tree that is there in memory only.
func files(content map[string]string, dir string) ignore.ReadFile {
	return func(name string) ([]byte, error) {
		if dir != "" {
			name = dir + "/" + name
		}
		if c, ok := content[name]; ok {
			return []byte(c), nil
		}
		return nil, fs.ErrNotExist
	}
}

// decide walks to a path, which is a directory if it ends in a slash, and
// returns the first rule on the way that excludes.
func decide(t *testing.T, o ignore.Options, content map[string]string, path string) string {
	t.Helper()
	dir, err := policy(t, o).Root(files(content, ""))
	if err != nil {
		t.Fatal(err)
	}
	path, isDir := strings.CutSuffix(path, "/")
	parts := strings.Split(path, "/")
	for i, name := range parts {
		last := i == len(parts)-1
		if rule, excluded := dir.Excluded(name, isDir || !last); excluded {
			return rule
		}
		if last {
			break
		}
		if dir, err = dir.Enter(name, files(content, strings.Join(parts[:i+1], "/"))); err != nil {
			t.Fatal(err)
		}
	}
	return ""
}

func TestPrecedence(t *testing.T) {
	content := map[string]string{
		".gitignore":               "*.log\nnode_modules/\n/build\nsecret\n!kept.log\n",
		".snapignore":              "!node_modules/\n*.core\n",
		"sub/.gitignore":           "!*.log\n*.core\n",
		"sub/.snapignore":          "# comment\n\n!x.core\n",
		"sub/deep/.snapignore":     "*.log",
		"out/.gitignore":           "!x",
		"a/b/.gitignore":           "/c\n",
		"node_modules/.snapignore": "cache/\n",
	}
	git := ignore.Options{Git: true}
	tests := []struct {
		name string
		o    ignore.Options
		path string
		want string
	}{
		{"gitignore is honoured when asked", git, "a.log", ".gitignore:1: *.log"},
		{"and only then", ignore.Options{}, "a.log", ""},
		{"a later line wins", git, "kept.log", ""},
		{"snapignore wins in its directory", git, "node_modules/", ""},
		{"snapignore is honoured without git", ignore.Options{}, "x.core", ".snapignore:2: *.core"},
		{"snapignore in any directory", ignore.Options{}, "node_modules/cache/", "node_modules/.snapignore:1: cache/"},
		{"a directory rule leaves files alone", ignore.Options{}, "node_modules/cache", ""},
		{"deeper wins", git, "sub/a.log", ""},
		{"deeper gitignore wins over snapignore above", git, "sub/y.core", "sub/.gitignore:2: *.core"},
		{"snapignore beside it wins", git, "sub/x.core", ""},
		{"deepest wins", git, "sub/deep/a.log", "sub/deep/.snapignore:1: *.log"},
		{"anchored", git, "build/", ".gitignore:3: /build"},
		{"anchored at its directory only", git, "sub/build/", ""},
		{"anchored below", git, "a/b/c", "a/b/.gitignore:1: /c"},
		{"anchored elsewhere", git, "a/c", ""},
		{"what is below an excluded directory stays out", git, "build/kept.log", ".gitignore:3: /build"},
		{"patterns of the caller win", ignore.Options{Git: true, Patterns: []string{"*.core", "!*.log"}}, "deep/a.log", ""},
		{"over deeper files", ignore.Options{Patterns: []string{"x.core"}}, "sub/x.core", "pattern 1: x.core"},
		{"and are relative to the root", ignore.Options{Patterns: []string{"/sub/y"}}, "sub/y", "pattern 1: /sub/y"},
		{"the last one wins", ignore.Options{Patterns: []string{"y", "!y"}}, "sub/y", ""},
		{"a hash is part of a pattern", ignore.Options{Patterns: []string{"#y"}}, "#y", "pattern 1: #y"},
		{"so is a space", ignore.Options{Patterns: []string{"y "}}, "y ", "pattern 1: y "},
		{"files of the caller", ignore.Options{Files: []ignore.PatternFile{{Name: "ex", Content: []byte("# no\nq\n")}}}, "sub/q", "ex:2: q"},
		{"patterns win over them", ignore.Options{Files: []ignore.PatternFile{{Name: "ex", Content: []byte("q")}}, Patterns: []string{"!q"}}, "q", ""},
		{"they win over the tree", ignore.Options{Files: []ignore.PatternFile{{Name: "ex", Content: []byte("!*.core")}}}, "x.core", ""},
		{"the later file wins", ignore.Options{Files: []ignore.PatternFile{{Name: "a", Content: []byte("q")}, {Name: "b", Content: []byte("!q")}}}, "q", ""},
	}
	for _, test := range tests {
		if got := decide(t, test.o, content, test.path); got != test.want {
			t.Errorf("%s: %s: excluded by %q, want %q", test.name, test.path, got, test.want)
		}
	}
}

func TestGitEntryIsKept(t *testing.T) {
	content := map[string]string{
		".gitignore":      "*\n.git\n.git/\n",
		".git/HEAD":       "ref: refs/heads/main\n",
		".git/.gitignore": "*\n",
		"sub/.gitignore":  "*\n",
		"sub/.git":        "gitdir: ../.git/worktrees/sub\n",
	}
	git := ignore.Options{Git: true}
	for path, want := range map[string]string{
		"x":             ".gitignore:1: *",
		".git/":         "",
		".git":          "",
		".git/config":   "",
		".git/refs/a/b": "",
	} {
		if got := decide(t, git, content, path); got != want {
			t.Errorf("%s: excluded by %q, want %q", path, got, want)
		}
	}
	content[".snapignore"] = "!sub\n!sub2\n*.pack\n/.git/objects/tmp*\n"
	for path, want := range map[string]string{
		"sub/.git":            "",
		"sub/x":               "sub/.gitignore:1: *",
		"sub2/x":              ".gitignore:1: *",
		".git/objects/a.pack": ".snapignore:3: *.pack",
		".git/objects/tmp1":   ".snapignore:4: /.git/objects/tmp*",
		".git/objects/a.idx":  "",
	} {
		if got := decide(t, git, content, path); got != want {
			t.Errorf("%s: excluded by %q, want %q", path, got, want)
		}
	}
	exclude := ignore.Options{Git: true, Patterns: []string{".git"}}
	if got := decide(t, exclude, content, "sub/.git"); got != "pattern 1: .git" {
		t.Errorf("the caller cannot exclude .git: %q", got)
	}
}

func TestLinkedWorkTreeIsARepository(t *testing.T) {
	content := map[string]string{".gitignore": "*.log", "link/.git": "gitdir: /elsewhere\n", "dir/.git": "not a link"}
	git := ignore.Options{Git: true}
	if got := decide(t, git, content, "link/a.log"); got != "" {
		t.Errorf("rules of the outer repository reach into the inner one: %q", got)
	}
	if got := decide(t, git, content, "dir/a.log"); got == "" {
		t.Error("a file named .git that names no directory ends the rules")
	}
}

// TestStarsAfterText holds what git does from 2.52 on; see starsAfterText.
func TestStarsAfterText(t *testing.T) {
	for path, excluded := range map[string]bool{"foobar": false, "foo/bar": true, "foox/bar": true, "foo/x/bar": false, "fobar": false} {
		got := decide(t, ignore.Options{Patterns: []string{"foo**/bar"}}, nil, path)
		if (got != "") != excluded {
			t.Errorf("foo**/bar: %s: excluded by %q, want %t", path, got, excluded)
		}
	}
}

func TestNamesAndPatternsAreBytes(t *testing.T) {
	content := map[string]string{".snapignore": "caf\xe9\n\x1bx[ab]\n", "d\xff\n/.snapignore": "x"}
	for path, want := range map[string]string{
		"caf\xe9":     `.snapignore:1: "caf\xe9"`,
		"caf\xc3\xa9": "",
		"\x1bxa":      `.snapignore:2: "\x1bx[ab]"`,
		"d\xff\n/x":   `"d\xff\n/.snapignore":1: x`,
	} {
		if got := decide(t, ignore.Options{}, content, path); got != want {
			t.Errorf("%q: excluded by %q, want %q", path, got, want)
		}
	}
}

func TestPatternsThatNeverMatchAreErrors(t *testing.T) {
	bad := []string{
		"", "!", "/", "!/", "//", "a//b", "/a//", "./a", "a/..", ".", "[a", "[", "[]", "[!", "[a-", `[a-\`, `[a\`, `a\`, `a\/`, `a/**\`,
		"[[:alpha:]", "[[:nope:]]", "[[:alpha", "[/]", `a[/]b`, "a\x00b", "x/[/]/c",
		strings.Repeat("?", 1<<16), strings.Repeat("[ab]", 1<<16) + "*",
	}
	for _, pattern := range bad {
		_, err := ignore.New(ignore.Options{Patterns: []string{"fine", pattern}})
		var e *ignore.PatternError
		if !errors.As(err, &e) || e.Unwrap() == nil || e.Line != 2 || e.Source != "" || e.Pattern != pattern || !strings.HasPrefix(err.Error(), "pattern 2: ") {
			t.Errorf("%q: error %v, want one about pattern 2", pattern, err)
		}
		if pattern == "" || strings.Contains(pattern, "\x00") {
			continue // no such line
		}
		content := "# comment\n\n" + pattern + "\n"
		_, err = ignore.New(ignore.Options{Files: []ignore.PatternFile{{Name: "ex", Content: []byte(content)}}})
		if !errors.As(err, &e) || e.Line != 3 || e.Source != "ex" || !strings.HasPrefix(err.Error(), "ex:3: ") {
			t.Errorf("%q: error %v, want one about line 3 of ex", pattern, err)
		}
		if got := decide(t, ignore.Options{}, map[string]string{".snapignore": content + "last"}, "last"); got != ".snapignore:4: last" {
			t.Errorf("%q in a tree: the next line excludes by %q", pattern, got)
		}
	}
	for _, pattern := range []string{"[]]", "[!]]", "[a-]", `[\]]`, "[[:]", "a]", "**", "/**", "**/a/**", "...", "[.]", ".*", " "} {
		if _, err := ignore.New(ignore.Options{Patterns: []string{pattern}}); err != nil {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestUnreadableFilesAreErrors(t *testing.T) {
	unreadable := func(which string, err error) ignore.ReadFile {
		return func(name string) ([]byte, error) {
			if name == which {
				return nil, err
			}
			if name == ".git/HEAD" && which != ".git" {
				return []byte("ref: x"), nil
			}
			return nil, fs.ErrNotExist
		}
	}
	p := policy(t, ignore.Options{Git: true})
	root, err := p.Root(files(nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".snapignore", ".gitignore", ".git/info/exclude", ".git/HEAD", ".git"} {
		_, err := root.Enter("sub", unreadable(name, syscall.EACCES))
		if !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "sub/"+name) {
			t.Errorf("%s: error %v, want one that names it", name, err)
		}
		if _, err := root.Enter("sub", unreadable(name, syscall.ENOTDIR)); err != nil {
			t.Errorf("%s: %v, want none for what cannot exist", name, err)
		}
	}
}

func TestSizeIsBounded(t *testing.T) {
	longest := strings.Repeat("#", ignore.MaxFile)
	if decide(t, ignore.Options{}, map[string]string{".snapignore": longest}, "a") != "" {
		t.Error("a comment excludes")
	}
	p := policy(t, ignore.Options{})
	if _, err := p.Root(files(map[string]string{".snapignore": longest + "#"}, "")); !errors.Is(err, ignore.ErrTooLarge) {
		t.Errorf("%d bytes: error %v", ignore.MaxFile+1, err)
	}
	if _, err := ignore.New(ignore.Options{Files: []ignore.PatternFile{{Content: []byte(longest + "#")}}}); !errors.Is(err, ignore.ErrTooLarge) {
		t.Errorf("pattern file of %d bytes: error %v", ignore.MaxFile+1, err)
	}

	// Each file is small enough, and the directories are not.
	many := files(map[string]string{".snapignore": strings.Repeat("a\n", 10_000)}, "")
	dir, err := p.Root(many)
	depth := 0
	for ; err == nil && depth < 100; depth++ {
		dir, err = dir.Enter("d", many)
	}
	if !errors.Is(err, ignore.ErrTooLarge) || depth != 3 {
		t.Errorf("error %v at depth %d, want %v for the fourth file", err, depth, ignore.ErrTooLarge)
	}
	if _, err := ignore.New(ignore.Options{Patterns: strings.Fields(strings.Repeat("a ", 40_000))}); !errors.Is(err, ignore.ErrTooLarge) {
		t.Errorf("40,000 patterns: error %v", err)
	}
}

// TestHostilePatterns would not end if matching went back over more than one
// star: there are more than 250 over 50 ways to spread the stars over the name.
func TestHostilePatterns(t *testing.T) {
	name := strings.Repeat("a", 250)
	deep := strings.Repeat("a/", 250) + "c"
	for _, test := range []struct{ pattern, path string }{
		{strings.Repeat("a*", 50) + "b", name},
		{strings.Repeat("*a", 50) + "*b", name},
		{strings.Repeat("*?", 100) + "b", name},
		{strings.Repeat("[a-z]*", 60) + "[0-9]", name},
		{strings.Repeat("**/a/", 60) + "b", deep},
		{strings.Repeat("**/*/", 60) + "b", deep},
		{strings.Repeat("/**/a*/*a", 40) + "/b", deep},
		{strings.Repeat("*", 100_000) + "b", name},
		{strings.Repeat("**/", 100_000) + "b", deep},
	} {
		for _, o := range []ignore.Options{{Patterns: []string{test.pattern}}, {Git: true}} {
			content := map[string]string{".gitignore": test.pattern}
			if rule := decide(t, o, content, test.path); rule != "" {
				t.Errorf("%.40q excludes %.20q", test.pattern, test.path)
			}
		}
	}
	if decide(t, ignore.Options{Patterns: []string{strings.Repeat("**/a/", 60) + "c"}}, nil, deep) == "" {
		t.Error("a pattern of many stars that matches does not exclude")
	}
}

func TestFingerprint(t *testing.T) {
	file := func(name, content string) []ignore.PatternFile {
		return []ignore.PatternFile{{Name: name, Content: []byte(content)}}
	}
	options := []ignore.Options{
		{},
		{Git: true},
		{Patterns: []string{"a"}},
		{Patterns: []string{"a", "b"}},
		{Patterns: []string{"b", "a"}},
		{Patterns: []string{"ab"}},
		{Files: file("a", "b")},
		{Files: file("a", "c")},
		{Files: file("ab", "")},
		{Files: file("b", "b")},
		{Patterns: []string{"a", "bc"}},
		{Patterns: []string{"ab", "c"}},
		{Files: append(file("a", "b"), file("c", "d")...)},
		{Patterns: []string{"a", "b"}, Git: true},
	}
	seen := map[string]int{}
	for i, o := range options {
		f := policy(t, o).Fingerprint()
		if k, ok := seen[f]; ok {
			t.Errorf("options %d and %d have the same fingerprint", k, i)
		}
		if seen[f] = i; f != policy(t, o).Fingerprint() {
			t.Errorf("fingerprint of options %d differs from call to call", i)
		}
	}
}

// TestSiblingsAreIndependent lets many directories extend the rules of one
// parent at the same time.
func TestSiblingsAreIndependent(t *testing.T) {
	content := map[string]string{".gitignore": "*.a\n*.b\n*.c\n*.d\n*.e\n/d*/x/*.b\n**/y/z\n"}
	for i := range 64 {
		content[fmt.Sprintf("d%d/.gitignore", i)] = fmt.Sprintf("/own%d\nfloat%d\n", i, i)
	}
	p := policy(t, ignore.Options{Git: true, Patterns: []string{"d*/q/r"}})
	root, err := p.Root(files(content, ""))
	if err != nil {
		t.Fatal(err)
	}
	var dirs [64]*ignore.Dir
	var wait sync.WaitGroup
	for i := range dirs {
		wait.Go(func() {
			name := fmt.Sprintf("d%d", i)
			dir, err := root.Enter(name, files(content, name))
			if err != nil {
				t.Error(err)
			}
			dirs[i] = dir
		})
	}
	wait.Wait()
	for i, dir := range dirs {
		for k := range dirs {
			_, own := dir.Excluded(fmt.Sprintf("own%d", k), false)
			_, float := dir.Excluded(fmt.Sprintf("float%d", k), false)
			if own != (k == i) || float != (k == i) {
				t.Errorf("d%d: rules of d%d: %t %t", i, k, own, float)
			}
		}
	}
}

func TestIsCacheDirTag(t *testing.T) {
	const signature = "Signature: 8a477f597d28d172789f06886806bc55"
	for header, want := range map[string]bool{
		signature:                  true,
		signature + "\n# a cache":  true,
		signature[:42]:             false,
		"":                         false,
		" " + signature:            false,
		strings.ToUpper(signature): false,
	} {
		if got := ignore.IsCacheDirTag([]byte(header)); got != want {
			t.Errorf("%q: %t, want %t", header, got, want)
		}
	}
}
