package fuzz_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine/workspace/ignore"
)

// FuzzIgnoreRules matches the entries on a path against an ignore file. No
// pattern may crash or take more than its share of time, the rule that is named
// must stand in the file where the text says, and a file that the caller gives
// must mean what it means in the root of the tree.
func FuzzIgnoreRules(f *testing.F) {
	f.Add([]byte("*.log\n!a.log\n/build/\n"), "build/x/a.log")
	f.Add([]byte("\xef\xbb\xbf**/a/**/b\r\nfoo\\ \n[!a-z[:digit:]]?\\/x"), "a/c/d/b")
	f.Add([]byte(strings.Repeat("a*", 100)+"b"), strings.Repeat("a", 250))
	f.Add([]byte(strings.Repeat("**/*a*/", 30)+"b"), strings.Repeat("aaa/", 60)+"c")
	f.Add([]byte("[[:alpha:\n[]-a]\n[a-\\]\n\\\n//\n***/\n"), "[a/\\")
	f.Fuzz(func(t *testing.T, content []byte, path string) {
		if len(content) > 1<<14 || len(path) > 1<<12 {
			return // no deeper, and the work is the product of both
		}
		inTree := decideIgnored(t, ignore.Options{}, content, path)
		checkRuleIsInFile(t, inTree, content)
		file := ignore.PatternFile{Name: "given", Content: content}
		if _, err := ignore.New(ignore.Options{Files: []ignore.PatternFile{file}}); err != nil {
			if e := new(ignore.PatternError); !errors.As(err, &e) {
				t.Fatalf("error %v is no PatternError", err)
			}
			return
		}
		given := decideIgnored(t, ignore.Options{Files: []ignore.PatternFile{file}}, nil, path)
		if strings.TrimPrefix(given, "given:") != strings.TrimPrefix(inTree, ".snapignore:") {
			t.Fatalf("excluded by %q in the tree, by %q if given by the caller", inTree, given)
		}
	})
}

// decideIgnored returns the first rule that excludes an entry on the path.
func decideIgnored(t *testing.T, o ignore.Options, content []byte, path string) string {
	none := func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	policy, err := ignore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := policy.Root(func(name string) ([]byte, error) {
		if name == ".snapignore" && content != nil {
			return content, nil
		}
		return none(name)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' }) {
		if rule, excluded := dir.Excluded(name, true); excluded {
			return rule
		}
		if dir, err = dir.Enter(name, none); err != nil {
			t.Fatal(err)
		}
	}
	return ""
}

func checkRuleIsInFile(t *testing.T, rule string, content []byte) {
	if rule == "" {
		return
	}
	var number int
	if _, err := fmt.Sscanf(rule, ".snapignore:%d:", &number); err != nil {
		t.Fatalf("rule %q: %v", rule, err)
	}
	lines := strings.Split(string(content), "\n")
	if number < 1 || number > len(lines) {
		t.Fatalf("rule %q is not in a file of %d lines", rule, len(lines))
	}
	_, pattern, _ := strings.Cut(rule, ": ")
	if !strings.HasPrefix(pattern, `"`) && !strings.Contains(lines[number-1], pattern) {
		t.Fatalf("rule %q is not in line %q", rule, lines[number-1])
	}
	if strings.HasPrefix(pattern, "!") {
		t.Fatalf("rule %q keeps, and yet excludes", rule)
	}
}
