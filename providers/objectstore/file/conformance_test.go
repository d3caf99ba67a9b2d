package file_test

import (
	"context"
	"io"
	"iter"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/file"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		putForever(dir)
	}
	goleak.VerifyTestMain(m)
}

func TestConformanceOnDisk(t *testing.T) { conform(t, os.TempDir()) }

func TestConformanceInMemory(t *testing.T) { conform(t, memoryDir()) }

func conform(t *testing.T, base string) {
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store { return create(t, tempDir(t, base)) })
}

// TestConformanceOfTwoStores sends calls by turns to two Stores of one
// directory, as two processes would.
func TestConformanceOfTwoStores(t *testing.T) {
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		dir := tempDir(t, memoryDir())
		return &alternating{stores: [2]*file.Store{create(t, dir), create(t, dir)}}
	})
}

type alternating struct {
	stores [2]*file.Store
	calls  atomic.Uint64
}

func (a *alternating) next() *file.Store { return a.stores[a.calls.Add(1)%2] }

func (a *alternating) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	return a.next().Put(ctx, key, body, opts)
}

func (a *alternating) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	return a.next().Get(ctx, key, r)
}

func (a *alternating) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	return a.next().Stat(ctx, key)
}

func (a *alternating) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return a.next().List(ctx, prefix, after)
}

func (a *alternating) Delete(ctx context.Context, key string) error { return a.next().Delete(ctx, key) }

// memoryDir is a tmpfs where there is one: its directories, links and clocks
// behave differently from those of a disk.
func memoryDir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

func tempDir(t *testing.T, base string) string {
	t.Helper()
	dir, err := os.MkdirTemp(base, "objectstore")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func create(t *testing.T, dir string) *file.Store {
	t.Helper()
	store, err := file.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}
