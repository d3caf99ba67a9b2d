package s3test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest/localserver"
)

// Version is that of the versitygw that is built; one on PATH may be another.
const Version = "v1.8.0"

const versitygwModule = "github.com/versity/versitygw/cmd/versitygw"

// versitygw is the path of the program, which is built if there is none.
func versitygw(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("versitygw"); err == nil {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "snapctl-test", "versitygw-"+Version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, filepath.Join(dir, "lock")) // tests of several packages run at once
	defer unlock()
	program := filepath.Join(dir, "versitygw")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	t.Logf("building %s@%s, once", versitygwModule, Version)
	install := exec.Command("go", "install", versitygwModule+"@"+Version)
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	install.Dir = dir // outside of any module
	if output, err := install.CombinedOutput(); err != nil {
		t.Fatalf("build versitygw: %v\n%s", err, localserver.LastLines(output))
	}
	return program
}

func lock(t testing.TB, path string) (unlock func()) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { file.Close() }
}
