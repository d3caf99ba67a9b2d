package cache

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// childDir names the variable that makes the test binary another process that
// uses the cache in that directory.
const childDir = "SNAPCTL_TEST_CACHE_DIR"

const (
	packs    = 6
	packSize = 100*small + 17
)

// packsOf is a store that is the same in every process.
func packsOf() (objectstore.Store, error) {
	s := mem.New()
	for i := range packs {
		_, err := s.Put(context.Background(), fmt.Sprint("packs/", i), bytes.NewReader(content(i, packSize)), objectstore.PutOptions{})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func runChild(dir string) int {
	if err := churn(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// churn reads random ranges, and damages, removes and exchanges files of the
// cache meanwhile.
func churn(dir string) error {
	inner, err := packsOf()
	if err != nil {
		return err
	}
	root, err := openPrivate(dir)
	if err != nil {
		return err
	}
	s := newStore(inner, root, Options{Prefixes: []string{"packs/"}, MaxBytes: shards * 2 * 4096}, small)
	defer s.Close()
	for range 100 {
		i, offset, length := rand.IntN(packs), rand.Int64N(packSize), rand.Int64N(packSize)
		want := content(i, packSize)[offset:]
		if length > 0 {
			want = want[:min(length, int64(len(want)))]
		}
		got, err := read(context.Background(), s, fmt.Sprint("packs/", i), offset, length)
		if err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("read %d from %d, length %d: %d bytes, %w", i, offset, length, len(got), err)
		}
		vandalise(root)
	}
	return nil
}

// vandalise does one bad thing to a block that may be there.
func vandalise(root *os.Root) {
	any := func() string {
		return place{fmt.Sprint("packs/", rand.IntN(packs)), rand.Int64N(packSize / small)}.file()
	}
	switch rand.IntN(4) {
	case 0:
		_ = root.Remove(any())
	case 1:
		_ = root.Rename(any(), any())
	case 2:
		if f, err := root.OpenFile(any(), os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteAt([]byte("damage"), rand.Int64N(2*small))
			_ = f.Close()
		}
	case 3:
		if f, err := root.OpenFile(any(), os.O_WRONLY, 0); err == nil {
			_ = f.Truncate(rand.Int64N(2 * small))
			_ = f.Close()
		}
	}
}

// child starts another process that uses the cache in dir.
func child(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	return cmd
}

// TestTwoProcesses: both always read what is in the store, whatever the other
// does to the directory, and neither warns.
func TestTwoProcesses(t *testing.T) {
	dir := newDir(t)
	other := child(t, dir)
	if err := churn(dir); err != nil {
		t.Error(err)
	}
	if err := other.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
	if _, temps := everything(t, dir); len(temps) != 0 {
		t.Errorf("left: %q", temps)
	}
}

// TestWhatAnotherProcessRead is not fetched again.
func TestWhatAnotherProcessRead(t *testing.T) {
	dir := newDir(t)
	must(t, child(t, dir).Wait())
	inner, err := packsOf()
	must(t, err)
	s := open(t, inner, dir, Options{})
	for i := range packs {
		wantRead(t, s, fmt.Sprint("packs/", i), 0, 0, content(i, packSize))
	}
	if s.Stats().Hits == 0 || s.Stats().BytesFetched >= packs*packSize {
		t.Errorf("%+v", s.Stats())
	}
}
