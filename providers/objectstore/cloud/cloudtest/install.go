package cloudtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest/localserver"
)

// The versions of the emulators that are installed; those on PATH may be others.
const (
	GCSVersion   = "v1.56.1"
	AzureVersion = "3.37.0"
)

const (
	gcsModule    = "github.com/fsouza/fake-gcs-server"
	azurePackage = "azurite"
)

// fakeGCSServer is the path of the program, which is built if there is none.
func fakeGCSServer(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("fake-gcs-server"); err == nil {
		return path
	}
	dir := once(t, "fake-gcs-server-"+GCSVersion, func(dir string) *exec.Cmd {
		install := exec.Command("go", "install", gcsModule+"@"+GCSVersion)
		install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
		return install
	})
	return filepath.Join(dir, "fake-gcs-server")
}

// azurite is the command of the blob service alone; its package is installed if
// there is none.
func azurite(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	if path, err := exec.LookPath("azurite-blob"); err == nil {
		return exec.Command(path, args...)
	}
	dir := once(t, "azurite-"+AzureVersion, func(dir string) *exec.Cmd {
		return exec.Command("npm", "install", "--prefix", dir, "--ignore-scripts",
			"--no-audit", "--no-fund", "--no-package-lock", azurePackage+"@"+AzureVersion)
	})
	program := filepath.Join(dir, "node_modules", azurePackage, "dist", "src", "blob", "main.js")
	return exec.Command("node", append([]string{program}, args...)...)
}

// once installs something in a folder of the user's cache, unless an earlier run
// has done so to its end.
func once(t testing.TB, name string, install func(dir string) *exec.Cmd) (dir string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(cache, "snapctl-test", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, filepath.Join(dir, "lock")) // tests of several packages run at once
	defer unlock()
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	t.Logf("installing %s, once", name)
	command := install(dir)
	command.Dir = dir // outside of any module
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("install %s: %v\n%s", name, err, localserver.LastLines(output))
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
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
