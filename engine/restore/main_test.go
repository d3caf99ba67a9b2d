package restore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestMain also looks for leaks: every test of the package together leaves no
// goroutine and no descriptor.
func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		os.Exit(children[name]())
	}
	os.ReadFile("/dev/null") // the runtime opens its poller once
	before := openFiles()
	code := m.Run()
	if after := openFiles(); code == 0 && after > before {
		fmt.Fprintf(os.Stderr, "descriptors: %d before the tests, %d after\n", before, after)
		code = 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// openFiles counts descriptors of files, without those of the runtime.
func openFiles() int {
	links, _ := filepath.Glob("/proc/self/fd/*")
	n := 0
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && !strings.HasPrefix(to, "anon_inode:") {
			n++
		}
	}
	return n
}

// childEnv makes the test binary run one of the children instead of tests.
const childEnv = "SNAPCTL_RESTORE_TEST_CHILD"

var children = map[string]func() int{}

// child is a command that runs this binary as a child.
func child(t testing.TB, name string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, childEnv+"="+name)...)
	return cmd
}

// nobody is the user of tests without privileges.
const nobody = 65534

// TestWithoutPrivileges runs the other tests as a user without privileges, so
// that both branches are covered whoever runs the tests.
func TestWithoutPrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		return // this process has none: the other tests are that run
	}
	dir, err := os.MkdirTemp("", "nobody") // t.TempDir is closed to others
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Mkdir(dir+"/tmp", 0o777))
	must(t, os.Chown(dir+"/tmp", nobody, nobody))
	binary, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(dir+"/restore.test", binary, 0o755))
	cmd := exec.Command(dir+"/restore.test", "-test.run", "^Test", "-test.count=1", "-rapid.checks=30", "-rapid.nofailfile")
	cmd.Dir = dir + "/tmp"
	cmd.Env = append(os.Environ(), "TMPDIR="+dir+"/tmp", "HOME="+dir+"/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("as user %d: %v\n%s", nobody, err, out)
	}
}

// tempDir is t.TempDir for trees with locked directories in them.
func tempDir(t testing.TB) string {
	dir := t.TempDir()
	t.Cleanup(func() { unlockDirs(dir) })
	return dir
}

func unlockDirs(dir string) {
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700) // before WalkDir reads it
		}
		return nil
	})
}

// removeAll removes a tree with locked directories in it.
func removeAll(dir string) error {
	unlockDirs(dir)
	return os.RemoveAll(dir)
}

// unixStat is what Lstat returns in Sys.
type unixStat = syscall.Stat_t

// chmodFiles lets their owner read the files of a tree.
func chmodFiles(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()|0o400)
	})
}

// isRoot tells which branch a test of privileges takes.
func isRoot() bool { return os.Geteuid() == 0 }

// stamps describes a tree by what changes with every change of a file.
func stamps(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		out[path] = fmt.Sprintf("inode %d mode %o links %d ctime %v mtime %v", st.Ino, st.Mode, st.Nlink, st.Ctim, st.Mtim)
		return nil
	}))
	return out
}

// wantUntouched fails the test if anything in dir changed since before.
func wantUntouched(t testing.TB, dir string, before map[string]string) {
	t.Helper()
	after := stamps(t, dir)
	for path, was := range before {
		if after[path] != was {
			t.Errorf("%s was touched:\n was %s\n is  %s", path, was, after[path])
		}
		delete(after, path)
	}
	for path := range after {
		t.Errorf("%s is new", path)
	}
}
