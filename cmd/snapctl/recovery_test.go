package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRecovery runs the commands of docs/recovery.md and compares what they print.
//
// A comment "<!-- scene: NAME -->" in the document begins a new repository, damaged as
// the scene of that name says. A block of the language "console" below it holds
// commands, behind "$ ", and what they print; "..." stands for anything, and alone on a
// line for any lines. The exit status is 0 unless a command ends with
// "# exit status N". Short ids in the document stand for those of the scene.
func TestRecovery(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "recovery.md"))
	if err != nil {
		t.Fatal(err)
	}
	played := map[string]bool{}
	for _, part := range strings.Split(string(text), "<!-- scene: ")[1:] {
		name, rest, ok := strings.Cut(part, " -->")
		set := scenes[name]
		if !ok || set == nil {
			t.Fatalf("the document has a scene %q, which is not known", name)
		}
		blocks := consoleBlock.FindAllStringSubmatch(rest, -1)
		if len(blocks) == 0 || played[name] {
			t.Fatalf("scene %s has %d blocks of commands, played before: %v", name, len(blocks), played[name])
		}
		played[name] = true
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			set(s)
			for _, block := range blocks {
				s.play(block[1])
			}
		})
	}
	for name := range scenes {
		if !played[name] {
			t.Errorf("the document does not play the scene %s", name)
		}
	}
}

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// scene is a machine with a repository, under the names that the document uses.
type scene struct {
	t     *testing.T
	dir   string
	env   []string
	names map[string]string // of the document, and what they stand for here
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "snapctl-test-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return sceneAt(t, dir, filepath.Join(dir, "repo"))
}

func sceneAt(t *testing.T, dir, repo string) *scene {
	t.Helper()
	s := &scene{t: t, dir: dir, names: map[string]string{
		"/srv/snapshots": repo, "/workspace": filepath.Join(dir, "ws"), "/mnt/copy": filepath.Join(dir, "copy"), "/safe": filepath.Join(dir, "safe"),
	}}
	s.env = []string{
		"HOME=" + filepath.Join(dir, "home"), "PATH=" + filepath.Dir(program(t)) + ":" + os.Getenv("PATH"),
		envRepo + "=" + repo, envStateDir + "=" + filepath.Join(dir, "state"),
	}
	for _, folder := range []string{"home", "ws", "safe"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// at is a path of the document.
func (s *scene) at(path string) string {
	for name, here := range s.names {
		if rest, ok := strings.CutPrefix(path, name); ok {
			return here + rest
		}
	}
	s.t.Fatalf("no place is called %s", path)
	return ""
}

// run runs a line of the shell and returns all that it prints.
func (s *scene) run(line string) (output string, code int) {
	s.t.Helper()
	cmd := exec.Command("sh", "-c", s.translate(line))
	cmd.Env, cmd.Dir = s.env, s.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		s.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// must is run for what has to succeed. It returns the output without its last newline.
func (s *scene) must(line string) string {
	s.t.Helper()
	output, code := s.run(line)
	if code != 0 {
		s.t.Fatalf("%s: exit status %d\n%s", line, code, output)
	}
	return strings.TrimSuffix(output, "\n")
}

// save takes a snapshot, which the document calls by name.
func (s *scene) save(name string) {
	s.t.Helper()
	s.call(name, s.must("snapctl snapshot /workspace --quiet"))
}

func (s *scene) call(name, id string) { s.names[name] = id[:len(name)] }

// translate turns the names of the document into those of the scene.
func (s *scene) translate(text string) string {
	for name, here := range s.names {
		text = strings.ReplaceAll(text, name, here)
	}
	return text
}

// write makes a file of the workspace; size bytes that do not compress.
func (s *scene) write(name string, size int) {
	s.t.Helper()
	incompressible(s.t, filepath.Join(s.at("/workspace"), name), size)
}

var exitComment = regexp.MustCompile(` +# exit status (\d+)$`)

// play runs the commands of a block.
func (s *scene) play(block string) {
	s.t.Helper()
	for _, step := range strings.Split("\n"+block, "\n$ ")[1:] {
		line, want, _ := strings.Cut(step, "\n")
		status := 0
		if comment := exitComment.FindStringSubmatch(line); comment != nil {
			status, _ = strconv.Atoi(comment[1])
			line = strings.TrimSuffix(line, comment[0])
		}
		output, code := s.run(line)
		s.t.Logf("$ %s\n%s", line, output)
		if code != status {
			s.t.Fatalf("%s: exit status %d, the document says %d\n%s", line, code, status, output)
		}
		if !pattern(s.translate(want)).MatchString(output) {
			s.t.Fatalf("%s printed\n%s\nthe document says\n%s", line, output, want)
		}
	}
}

// pattern matches what a command prints.
func pattern(want string) *regexp.Regexp {
	var b strings.Builder
	for line := range strings.Lines(want) {
		line = strings.TrimSuffix(line, "\n")
		if line == "..." {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`) + `\n`)
	}
	return regexp.MustCompile(`\A` + b.String() + `\z`)
}

// The pattern is no wildcard: what differs is seen.
func TestRecoveryPatterns(t *testing.T) {
	for _, tc := range []struct {
		want, got string
		match     bool
	}{
		{"a ... c\n", "a b c\n", true}, {"a ... c\n", "a b\n", false}, {"a\n", "a\nb\n", false}, {"a\n...\n", "a\nb\nc\n", true},
		{"...\nb\n", "a\nb\n", true}, {"...\nb\n", "a\n", false}, {"", "", true}, {"", "a\n", false}, {"a.c\n", "abc\n", false},
	} {
		if got := pattern(tc.want).MatchString(tc.got); got != tc.match {
			t.Errorf("%q matches %q: %v", tc.want, tc.got, got)
		}
	}
}

// packs returns the packs of the repository that have so many bytes at least.
func (s *scene) packs(atLeast int64) (paths []string) {
	s.t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.at("/srv/snapshots"), "packs"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			s.t.Fatal(err)
		}
		if info.Size() >= atLeast {
			paths = append(paths, filepath.Join(s.at("/srv/snapshots"), "packs", e.Name()))
		}
	}
	if len(paths) == 0 {
		s.t.Fatalf("no pack has %d bytes", atLeast)
	}
	return paths
}

// flip changes a byte of a file.
func (s *scene) flip(path string, offset int64) {
	s.t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	content[offset] ^= 1
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, content, 0o600)); err != nil {
		s.t.Fatal(err)
	}
}
