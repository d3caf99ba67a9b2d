package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(runChild(dir))
	}
	goleak.VerifyTestMain(m)
}

// small is a block size at which objects of a few hundred bytes have many.
const small = 64

// open returns a store of small blocks.
func open(t testing.TB, inner objectstore.Store, dir string, opts Options) *Store {
	t.Helper()
	root, err := openPrivate(dir)
	must(t, err)
	if opts.Prefixes == nil {
		opts.Prefixes = []string{"packs/"}
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	s := newStore(inner, root, opts, small)
	t.Cleanup(func() { s.Close() })
	return s
}

// newDir is a directory that only this user can enter.
func newDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// content is the same for the same seed.
func content(seed, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

func put(t testing.TB, s objectstore.Store, key string, content []byte) {
	t.Helper()
	_, err := s.Put(context.Background(), key, bytes.NewReader(content), objectstore.PutOptions{})
	must(t, err)
}

// holding is a memory store with one object.
func holding(t testing.TB, key string, content []byte) objectstore.Store {
	t.Helper()
	s := mem.New()
	put(t, s, key, content)
	return s
}

func read(ctx context.Context, s objectstore.Store, key string, offset, length int64) ([]byte, error) {
	r, err := s.Get(ctx, key, objectstore.Range{Offset: offset, Length: length})
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r)
	return got, errors.Join(err, r.Close())
}

func wantRead(t testing.TB, s objectstore.Store, key string, offset, length int64, want []byte) {
	t.Helper()
	got, err := read(context.Background(), s, key, offset, length)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %s from %d, length %d: %d bytes, %v, want %d", key, offset, length, len(got), err, len(want))
	}
}

func wantStats(t testing.TB, s *Store, want Stats) {
	t.Helper()
	if got := s.Stats(); got != want {
		t.Errorf("stats %+v\nwant  %+v", got, want)
	}
}

// files are the block files in a directory, without temporary ones.
func files(t testing.TB, dir string) []string {
	t.Helper()
	blocks, _ := everything(t, dir)
	return blocks
}

func everything(t testing.TB, dir string) (blocks, temps []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if strings.HasPrefix(d.Name(), tempStart) {
				temps = append(temps, path)
			} else {
				blocks = append(blocks, path)
			}
		}
		return err
	}))
	return blocks, temps
}
