package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"snapctl":  main,
		"ordinary": ordinary,
		"soakfork": soakFork,
	})
}

// ordinary runs a command without the powers of root, as the same user: what
// root is forbidden to open then cannot be opened.
func ordinary() {
	runtime.LockOSThread()
	for capability := range uintptr(64) { // an error says that there is nothing to drop
		unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
	}
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	os.Stderr.WriteString("ordinary: " + err.Error() + "\n")
	os.Exit(99)
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			if asBuilt(strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")) {
				env.Setenv("PATH", filepath.Dir(program(t))+string(filepath.ListSeparator)+env.Getenv("PATH"))
			}
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("SNAPCTL_REPO", filepath.Join(env.WorkDir, "repo"))
			return os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"jsonget":   jsonGet,
			"jsonset":   jsonSet,
			"jsonlines": jsonLines,
			"setenv":    setEnvFromOutput,
			"oddnames":  oddNames,
			"poke":      poke,
			"sametree":  sameTree,
			"spoil":     spoil,
			"bulk":      bulk,
		},
	})
}

// exits CODE PROGRAM [ARG]... runs a program that must exit with CODE.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [arg]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// jsonValue finds the value at a dotted path in the last line of a file of JSON
// lines, or another one (-line N, counted from 0). An empty path is the line.
func jsonValue(ts *testscript.TestScript, args []string) (value any, found bool, rest []string) {
	line := -1
	if args[0] == "-line" {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		line, args = n, args[2:]
	}
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	if line < 0 {
		line += len(lines)
	}
	if line >= len(lines) {
		ts.Fatalf("%s has %d lines", args[0], len(lines))
	}
	decoder := json.NewDecoder(strings.NewReader(lines[line]))
	decoder.UseNumber()
	ts.Check(decoder.Decode(&value))
	for _, step := range strings.Split(args[1], ".") {
		value, found = descend(value, step)
		if !found {
			return nil, false, args[2:]
		}
	}
	return value, true, args[2:]
}

func descend(value any, step string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		child, ok := v[step]
		return child, ok
	case []any:
		if step == "len" {
			return len(v), true
		}
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		return v[i], true
	}
	return nil, false
}

func jsonText(ts *testscript.TestScript, value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	ts.Check(err)
	return string(text)
}

// jsonget [-line N] FILE PATH REGEXP checks a value; len as the last step of the
// path is the length of a list. ! jsonget [-line N] FILE PATH: it is not there.
func jsonGet(ts *testscript.TestScript, neg bool, args []string) {
	value, found, rest := jsonValue(ts, args)
	if neg {
		if found {
			ts.Fatalf("%v is there: %v", args, value)
		}
		return
	}
	if !found {
		ts.Fatalf("nothing at %v", args)
	}
	if len(rest) != 1 {
		ts.Fatalf("usage: jsonget [-line n] file path regexp")
	}
	if got := jsonText(ts, value); !regexp.MustCompile(`\A(?s:` + rest[0] + `)\z`).MatchString(got) {
		ts.Fatalf("%v is %q", args, got)
	}
}

// jsonset NAME [-line N] FILE PATH keeps a value in a variable.
func jsonSet(ts *testscript.TestScript, neg bool, args []string) {
	value, found, _ := jsonValue(ts, args[1:])
	if neg || !found {
		ts.Fatalf("nothing at %v", args)
	}
	ts.Setenv(args[0], jsonText(ts, value))
}

// jsonlines FILE COUNT: every line is JSON, and there are so many.
func jsonLines(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile(args[0])
	if neg || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("the last line has no end")
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			ts.Fatalf("not JSON: %q", line)
		}
	}
	if want, err := strconv.Atoi(args[1]); err != nil || len(lines) != want {
		ts.Fatalf("%d lines, want %s", len(lines), args[1])
	}
}

// setenv NAME FILE [START END] keeps the text of a file, or bytes of it, in a
// variable.
func setEnvFromOutput(ts *testscript.TestScript, neg bool, args []string) {
	text := strings.TrimSuffix(ts.ReadFile(args[1]), "\n")
	if len(args) == 4 {
		start, err := strconv.Atoi(args[2])
		ts.Check(err)
		end, err := strconv.Atoi(args[3])
		ts.Check(err)
		text = text[start:end]
	}
	ts.Setenv(args[0], text)
}

// odd are names that programs trip over.
var odd = []string{
	"-rf", "\x1b[31mred\x07", "a\nb", "\"quoted\"", "not utf8 \xff\xfe", " lead and trail ", "\u202egnp.exe", "tab\there", "日本語", "back\\slash", "\u009bcsi", "per%cent",
}

// oddnames DIR makes a file of each odd name, with the name as its content.
func oddNames(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	for _, name := range odd {
		ts.Check(os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
	}
}

// poke FILE OFFSET BYTE changes one byte of a file.
func poke(ts *testscript.TestScript, neg bool, args []string) {
	offset, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	value, err := strconv.ParseUint(args[2], 0, 8)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteAt([]byte{byte(value)}, offset)
	ts.Check(errors.Join(err, f.Close()))
}

// spoil DIR flips a byte in the middle of every file below a directory.
func spoil(ts *testscript.TestScript, neg bool, args []string) {
	count := 0
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		count++
		content[len(content)/2] ^= 0xff
		if err := os.Chmod(path, 0o600); err != nil {
			return err
		}
		return os.WriteFile(path, content, 0o600)
	}))
	if count == 0 {
		ts.Fatalf("no files in %s", args[0])
	}
}

// bulk FILE MIB makes a file that does not compress.
func bulk(ts *testscript.TestScript, neg bool, args []string) {
	mib, err := strconv.Atoi(args[1])
	ts.Check(err)
	content := make([]byte, mib<<20)
	state := uint64(88172645463325252) // Marsaglia's xorshift64: the same bytes each time
	for i := range content {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		content[i] = byte(state)
	}
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o755))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), content, 0o644))
}

// sametree A B compares names, kinds, modes, times, content and link targets.
func sameTree(ts *testscript.TestScript, neg bool, args []string) {
	a, b := describeTree(ts, ts.MkAbs(args[0])), describeTree(ts, ts.MkAbs(args[1]))
	if same := a == b; same == neg {
		ts.Fatalf("the trees are the same: %v\n%s\n%s", same, a, b)
	}
}

func describeTree(ts *testscript.TestScript, dir string) string {
	var b bytes.Buffer
	ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			if content, err = os.Readlink(path); err != nil {
				return err
			}
		}
		b.WriteString(strconv.Quote(strings.TrimPrefix(path, dir)) + " " + info.Mode().String() + " " + info.ModTime().String() + " " + strconv.Quote(content) + "\n")
		return nil
	}))
	return b.String()
}
