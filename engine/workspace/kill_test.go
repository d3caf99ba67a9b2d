package workspace

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/snapctl/snapctl/engine/workspace/statcache"
	"github.com/snapctl/snapctl/packfile/blob"
)

// durable stores blobs as files, so that they outlive the process, and kills it
// behind some of them.
type durable struct {
	dir   string
	namer *blob.Namer
	left  *atomic.Int64
}

func (d durable) Put(_ context.Context, kind blob.Kind, plaintext []byte) (blob.ID, error) {
	id := d.namer.ID(kind, plaintext)
	if kind == blob.Data && d.left.Add(-1) == 0 {
		return id, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return id, os.WriteFile(filepath.Join(d.dir, id.String()), plaintext, 0o600)
}

func (d durable) Has(_ context.Context, id blob.ID) (bool, error) {
	_, err := os.Stat(filepath.Join(d.dir, id.String()))
	return err == nil, nil
}

func (durable) Flush(context.Context) error { return nil }

// walkDurably is one walk of the tree below base.
func walkDurably(base string, puts int64) (Result, error) {
	cache, err := statcache.Open(filepath.Join(base, "cache"), statcache.Identity{})
	if err != nil {
		return Result{}, err
	}
	defer cache.Close()
	left := new(atomic.Int64)
	left.Store(puts)
	d := durable{dir: filepath.Join(base, "blobs"), namer: blob.NewNamer([32]byte{1}), left: left}
	return Walk(context.Background(), Options{
		Root: filepath.Join(base, "tree"), NewWriter: func() Writer { return d },
		Chunk: testParams, Workers: 2, Now: later, Cache: cache,
	})
}

const killedEnv = "SNAPCTL_TEST_KILLED_WALK"

// TestKilledWalk kills a process at 60 percent of a tree; the next one reads less
// than 45 percent. In the process to be killed it does the walk.
func TestKilledWalk(t *testing.T) {
	const files = 2000
	if base := os.Getenv(killedEnv); base != "" {
		_, err := walkDurably(base, files*6/10)
		t.Fatalf("the walk ended before it was killed: %v", err)
	}
	for _, dirs := range []int{1, 20, 500} {
		base := shmDir(t)
		must(t, os.Mkdir(filepath.Join(base, "blobs"), 0o755))
		for i := range files {
			write(t, filepath.Join(base, "tree", fmt.Sprintf("d%d/f%d", i%dirs, i)), fmt.Sprint(i, strings.Repeat("x", 500)))
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWalk$")
		cmd.Env = append(os.Environ(), killedEnv+"="+base)
		out, err := cmd.CombinedOutput()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("%v: %s", err, out)
		}
		r, err := walkDurably(base, -1)
		must(t, err)
		percent := r.BytesRead * 100 / r.Counts.Bytes
		t.Logf("%d directories: read %d percent again", dirs, percent)
		if percent >= 45 || r.Counts.Files != files {
			t.Errorf("%d directories: read %d percent again, counts %+v", dirs, percent, r.Counts)
		}
	}
}
