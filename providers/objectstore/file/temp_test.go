package file_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

// crashDir names the variable that makes the test binary a writer which never
// finishes.
const crashDir = "OBJECTSTORE_CRASH_DIR"

// hangingBody says on stdout that its end is asked for, and never gives it.
type hangingBody struct{ objectstore.Body }

func (b hangingBody) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) == b.Size() {
		fmt.Println("writing")
		select {}
	}
	return b.Body.ReadAt(p, off)
}

func putForever(dir string) {
	go func() { // a second goroutine, so that the runtime sees no deadlock
		for {
			time.Sleep(time.Hour)
		}
	}()
	s, err := file.Open(dir)
	if err == nil {
		body := hangingBody{strings.NewReader(strings.Repeat("x", 3<<20))}
		_, err = s.Put(context.Background(), "folder/key", body, objectstore.PutOptions{})
	}
	fmt.Println("failed:", err)
	os.Exit(1)
}

// startWriter starts a process that is in the middle of a put, and returns a
// function that kills it.
func startWriter(t *testing.T, dir string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "writing\n" {
		kill()
		t.Fatalf("writer says %q, %v", line, err)
	}
	return kill
}

func age(t *testing.T, names []string, hours int) {
	t.Helper()
	for _, name := range names {
		then := time.Now().Add(-time.Duration(hours) * time.Hour)
		if err := os.Chtimes(name, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

func wantRemoved(t *testing.T, s *file.Store, want int) {
	t.Helper()
	if got, err := s.RemoveStaleTemp(t.Context()); got != want || err != nil {
		t.Errorf("removed %d temporary files, %v, want %d", got, err, want)
	}
}

func TestKilledWriter(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	wantRemoved(t, s, 0) // before there is a folder
	put(t, s, "folder/other", "other")
	kill := startWriter(t, dir)
	age(t, tempFiles(t, dir), 48)
	wantRemoved(t, s, 0) // the writer lives
	kill()
	if got := keys(t, s); !slices.Equal(got, []string{"folder/other"}) {
		t.Errorf("after the crash there are %q", got)
	}
	left := tempFiles(t, dir)
	if len(left) != 1 {
		t.Fatalf("temporary files: %q", left)
	}
	age(t, left, 23)
	wantRemoved(t, s, 0) // too young
	age(t, left, 25)
	wantRemoved(t, s, 1)
	if left := tempFiles(t, dir); len(left) != 0 {
		t.Errorf("temporary files left: %q", left)
	}
}

func TestLinkedLeftover(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	put(t, s, "key", "content")
	before, err := s.Stat(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	// What a crash between link and unlink leaves.
	leftover := filepath.Join(dir, ".tmp", "leftover")
	if err := os.Link(filepath.Join(dir, "key"), leftover); err != nil {
		t.Fatal(err)
	}
	age(t, []string{leftover}, 25)
	aged, err := s.Stat(t.Context(), "key")
	if err != nil || aged.ETag == before.ETag {
		t.Errorf("the etag does not depend on the time: %v, %v", aged, err)
	}
	wantRemoved(t, s, 1)
	after, err := s.Stat(t.Context(), "key")
	if err != nil || after.ETag != aged.ETag {
		t.Errorf("removing the leftover changed the object: %v, %v", after, err)
	}
	if got := get(t, s, "key"); got != "content" {
		t.Errorf("the object is %q", got)
	}
}

func TestForeignThingsInTempFolder(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	put(t, s, "key", "content")
	if err := os.Mkdir(filepath.Join(dir, ".tmp", "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "key"), filepath.Join(dir, ".tmp", "link")); err != nil {
		t.Fatal(err)
	}
	age(t, []string{filepath.Join(dir, "key")}, 48)
	wantRemoved(t, s, 0)
}
