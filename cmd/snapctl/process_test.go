package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

// The tests of processes run the real program, built once: what kills it must not
// kill the tests.

var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "snapctl-test-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "snapctl")
		build := exec.Command("go", "build", "-o", built.path, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// tests runs them and removes the program that they built.
type tests struct{ *testing.M }

func (m tests) Run() int {
	defer func() {
		if built.dir != "" {
			os.RemoveAll(built.dir)
		}
	}()
	return m.M.Run()
}

// machine runs the program: one user with a home, local state and a repository.
type machine struct {
	t                    *testing.T
	binary               string
	dir, repo, state, ws string
	home                 string
	env                  []string // beside what every run gets
}

// newMachine makes an empty repository in memory (tmpfs), where nothing waits for
// a disk: a killed process loses no more there.
func newMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "snapctl-test-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := machineAt(t, dir, filepath.Join(dir, "repo"), filepath.Join(dir, "state"))
	m.must("init")
	return m
}

func machineAt(t *testing.T, dir, repo, state string) *machine {
	t.Helper()
	m := &machine{t: t, binary: program(t), dir: dir, repo: repo, state: state, ws: filepath.Join(dir, "ws"), home: filepath.Join(dir, "home")}
	for _, dir := range []string{m.ws, m.home} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// outcome is how a run ended.
type outcome struct {
	code     int // -1: killed
	out, err string
	took     time.Duration
}

// start begins a run. wait ends it and tells how.
func (m *machine) start(args ...string) (cmd *exec.Cmd, wait func() outcome) {
	m.t.Helper()
	cmd = exec.Command(m.binary, append(args, "--insecure-no-encryption")...)
	cmd.Env = append([]string{"HOME=" + m.home, "PATH=" + os.Getenv("PATH"), envRepo + "=" + m.repo, envStateDir + "=" + m.state}, m.env...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	return cmd, func() outcome {
		if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			m.t.Error(err)
		}
		return outcome{cmd.ProcessState.ExitCode(), out.String(), stderr.String(), time.Since(began)}
	}
}

func (m *machine) run(args ...string) outcome {
	m.t.Helper()
	_, wait := m.start(args...)
	return wait()
}

// must runs what has to succeed.
func (m *machine) must(args ...string) outcome {
	m.t.Helper()
	o := m.run(args...)
	if o.code != 0 {
		m.t.Fatalf("snapctl %s: exit %d\n%s%s", strings.Join(args, " "), o.code, o.out, o.err)
	}
	return o
}

// runKilled kills a run after a delay, unless it ends before.
func (m *machine) runKilled(delay time.Duration, args ...string) outcome {
	m.t.Helper()
	cmd, wait := m.start(args...)
	timer := time.AfterFunc(delay, func() { cmd.Process.Kill() })
	defer timer.Stop()
	o := wait()
	if o.code > 0 || strings.Contains(o.err, "panic") {
		m.t.Fatalf("snapctl %s: exit %d\n%s%s", strings.Join(args, " "), o.code, o.out, o.err)
	}
	return o
}

// runPaused stops a run after a delay, and lets it go on after a pause.
func (m *machine) runPaused(delay, pause time.Duration, args ...string) outcome {
	m.t.Helper()
	cmd, wait := m.start(args...)
	stop := time.AfterFunc(delay, func() { cmd.Process.Signal(syscall.SIGSTOP) })
	resume := time.AfterFunc(delay+pause, func() { cmd.Process.Signal(syscall.SIGCONT) })
	defer stop.Stop()
	defer resume.Stop()
	return wait()
}

// saved is the answer of snapctl snapshot --json; nil if there is none.
type saved struct {
	Snapshot  string `json:"snapshot"`
	ReadBytes int64  `json:"read_bytes"`
	Bytes     int64  `json:"bytes"`
	Files     int64  `json:"files"`
	Unchanged bool   `json:"unchanged"`
}

func (o outcome) saved(t *testing.T) *saved {
	t.Helper()
	if !strings.HasSuffix(o.out, "\n") { // also what was cut off by a kill acknowledges nothing
		return nil
	}
	s := new(saved)
	if err := json.Unmarshal([]byte(o.out), s); err != nil {
		t.Fatalf("%v: %q", err, o.out)
	}
	return s
}

// open opens the repository in this process, as another machine.
func (m *machine) open() *engine.Repository {
	m.t.Helper()
	return m.openAt(filepath.Join(m.dir, "elsewhere"))
}

func (m *machine) openAt(state string) *engine.Repository {
	m.t.Helper()
	store, err := file.Open(m.repo)
	if err != nil {
		m.t.Fatal(err)
	}
	repo, err := engine.Open(context.Background(), store, engine.OpenOptions{Credentials: keyring.Credentials{Insecure: true}, StateDir: state})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		if err := errors.Join(repo.Close(), store.Close()); err != nil {
			m.t.Error(err)
		}
	})
	return repo
}

// sound fails the test if the repository is damaged.
func sound(t *testing.T, repo *engine.Repository, share float64) {
	t.Helper()
	report, err := repo.Check(t.Context(), engine.CheckOptions{ReadData: share})
	if err != nil {
		t.Fatalf("check: %v, %+v", err, report)
	}
}

// tree is a workspace as it should be: the version of each file, by path. The
// content of a file follows from both.
type tree map[string]uint64

func (tr tree) content(path string) []byte {
	random := rand.New(rand.NewPCG(tr[path], uint64(len(path))))
	at, size := random.IntN(len(noise)-6000), 200+random.IntN(5800)
	return fmt.Appendf(nil, "%s %d\n%s", path, tr[path], noise[at:at+size])
}

// noise is what files are cut from.
var noise = func() []byte {
	noise := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	return noise
}()

// put changes, or makes, a file of the tree and of the directory.
func (tr tree) put(t *testing.T, dir, path string, version uint64) {
	t.Helper()
	tr[path] = version
	name := filepath.Join(dir, path)
	err := os.WriteFile(name, tr.content(path), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(name), 0o755); err == nil {
			err = os.WriteFile(name, tr.content(path), 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// compare says how the files of a directory differ from the tree, in one line;
// empty if they do not.
func (tr tree) compare(dir string) string {
	seen := 0
	var wrong []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		path, _ := filepath.Rel(dir, name)
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if _, ok := tr[path]; !ok || !bytes.Equal(content, tr.content(path)) {
			wrong = append(wrong, path)
		}
		seen++
		return nil
	})
	if err == nil && len(wrong) == 0 && seen == len(tr) {
		return ""
	}
	slices.Sort(wrong)
	return fmt.Sprintf("%d files of %d, %d wrong such as %q, %v", seen, len(tr), len(wrong), wrong[:min(3, len(wrong))], err)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
