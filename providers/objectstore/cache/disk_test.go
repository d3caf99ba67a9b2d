package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// TestOnlyPrivateDirectories: what others can enter, made or can point
// elsewhere is refused.
func TestOnlyPrivateDirectories(t *testing.T) {
	base := newDir(t)
	make := func(name string, how func(dir string) error) string {
		dir := filepath.Join(base, name)
		must(t, os.Mkdir(dir, 0o700))
		must(t, how(dir))
		return dir
	}
	for _, dir := range []string{
		make("readable", func(dir string) error { return os.Chmod(dir, 0o750) }),
		make("enterable", func(dir string) error { return os.Chmod(dir, 0o701) }),
		make("foreign", func(dir string) error { return os.Chown(dir, os.Geteuid()+1, -1) }),
		make("link", func(dir string) error { return errors.Join(os.Remove(dir), os.Symlink(base, dir)) }),
		make("file", func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }),
	} {
		s, err := New(mem.New(), dir, Options{})
		if err == nil {
			t.Errorf("%s was accepted", dir)
			must(t, s.Close())
		} else if !strings.Contains(err.Error(), dir) {
			t.Errorf("error does not name %s: %v", dir, err)
		}
	}
	s, err := New(mem.New(), filepath.Join(base, "new/folder"), Options{})
	must(t, err)
	must(t, s.Close())
}

func TestLimitIsNotTooSmall(t *testing.T) {
	for _, limit := range []int64{-1, 1, 256<<20 - 1} {
		if s, err := New(mem.New(), newDir(t), Options{MaxBytes: limit}); err == nil {
			must(t, s.Close())
			t.Errorf("a limit of %d bytes was accepted", limit)
		}
	}
}

// TestFilesArePrivate, whatever the umask.
func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(newDir(t), "cache")
	s := open(t, holding(t, key, content(1, 5*small)), dir, Options{})
	wantRead(t, s, key, 0, 0, content(1, 5*small))
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return err
	}))
}

// TestDamageIsDropped: every kind of damage is found, counted and mended.
func TestDamageIsDropped(t *testing.T) {
	want := content(1, small+5)
	for name, damage := range map[string]func(t *testing.T, first, second string){
		"empty":    func(t *testing.T, first, _ string) { must(t, os.Truncate(first, 0)) },
		"short":    func(t *testing.T, first, _ string) { must(t, os.Truncate(first, fixedHead+30)) },
		"long":     func(t *testing.T, first, _ string) { must(t, os.Truncate(first, fixedHead+small+100)) },
		"huge":     func(t *testing.T, first, _ string) { must(t, os.Truncate(first, 1<<40)) },
		"exchange": func(t *testing.T, first, second string) { must(t, os.Rename(second, first)) },
		"folder": func(t *testing.T, first, _ string) {
			must(t, os.Remove(first))
			must(t, os.Mkdir(first, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			inner := fault.New(holding(t, key, want))
			s := open(t, inner, dir, Options{})
			wantRead(t, s, key, 0, 0, want)
			damage(t, filepath.Join(dir, place{key, 0}.file()), filepath.Join(dir, place{key, 1}.file()))
			before := inner.Calls()
			wantRead(t, s, key, 0, small, want[:small])
			wantRead(t, s, key, 0, small, want[:small])
			if n := inner.Calls() - before; n != 1 || s.Stats().Dropped != 1 {
				t.Errorf("%d requests to mend it, %+v", n, s.Stats())
			}
		})
	}
}

// TestEveryBitCounts: no flipped bit of a file passes.
func TestEveryBitCounts(t *testing.T) {
	at := place{key, 7}
	b := newBlock(small)
	b.aim(at)
	b.length = copy(b.space(), content(1, small-3))
	file := bytes.Clone(b.encode())
	must(t, b.decode(bytes.NewReader(file), int64(len(file)), at))
	for bit := range len(file) * 8 {
		file[bit/8] ^= 1 << (bit % 8)
		if err := b.decode(bytes.NewReader(file), int64(len(file)), at); err == nil {
			t.Errorf("bit %d can be flipped", bit)
		}
		file[bit/8] ^= 1 << (bit % 8)
	}
	for _, other := range []place{{key, 8}, {"packs/0bject", 7}, {key + "x", 7}} {
		if err := b.decode(bytes.NewReader(file), int64(len(file)), other); err == nil {
			t.Errorf("passes for %+v", other)
		}
	}
	if err := newBlock(2*small).decode(bytes.NewReader(file), int64(len(file)), at); err == nil {
		t.Error("passes for a block of another size")
	}
}

// warnings collects what Options.Warn hears.
type warnings struct {
	mu   sync.Mutex
	errs []error
}

func (w *warnings) add(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

func (w *warnings) wantOne(t *testing.T) {
	t.Helper()
	if len(w.errs) != 1 {
		t.Errorf("warned of %v, want once", w.errs)
	}
}

// TestUnwritableDisk: reads go on, one after the other and all at once.
func TestUnwritableDisk(t *testing.T) {
	want := content(1, 20*small)
	dir := newDir(t)
	for n := range shards {
		must(t, os.WriteFile(fmt.Sprintf("%s/%02x", dir, n), nil, 0o600))
	}
	var warned warnings
	s := open(t, holding(t, key, want), dir, Options{Warn: warned.add, KeepPut: func(string, int64) bool { return true }})
	wantRead(t, s, key, 0, 0, want)
	var wg sync.WaitGroup
	for reader := range 10 {
		wg.Go(func() {
			for offset := reader; offset < len(want); offset += 100 {
				wantRead(t, s, key, int64(offset), 0, want[offset:])
			}
		})
	}
	wg.Wait()
	put(t, s, "packs/new", want)
	wantRead(t, s, "packs/new", 0, 0, want)
	must(t, s.Delete(t.Context(), key))
	warned.wantOne(t)
	if stats := s.Stats(); stats.Hits != 0 || stats.Dropped != 0 {
		t.Errorf("%+v", stats)
	}
}

// TestReadersOfAnUnwritableDisk do not share what would not be kept: each makes
// one request, as without a cache.
func TestReadersOfAnUnwritableDisk(t *testing.T) {
	want := content(1, 20*small)
	inner := fault.New(holding(t, key, want))
	s := open(t, inner, newDir(t), Options{})
	s.disk.resumeAt.Store(math.MaxInt64)
	var readers []io.ReadCloser
	for range 3 {
		r, err := s.Get(t.Context(), key, objectstore.Range{})
		must(t, err)
		readers = append(readers, r)
	}
	for n := range 20 {
		for _, r := range readers {
			block := make([]byte, small)
			if _, err := io.ReadFull(r, block); err != nil || !bytes.Equal(block, want[n*small:][:small]) {
				t.Errorf("block %d: %v", n, err)
			}
		}
	}
	for _, r := range readers {
		must(t, r.Close())
	}
	if n := inner.Calls(); n != 3 {
		t.Errorf("%d requests, want one for each reader", n)
	}
}

// TestDirectoryIsTakenAway: somebody who makes it again does not get what was
// meant for the one that was opened.
func TestDirectoryIsTakenAway(t *testing.T) {
	dir := filepath.Join(newDir(t), "cache")
	var warned warnings
	want := content(1, 5*small)
	s := open(t, holding(t, key, want), dir, Options{Warn: warned.add})
	wantRead(t, s, key, 0, 0, want)
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o777))
	for range 2 {
		wantRead(t, s, key, 0, 0, want)
	}
	if found := files(t, dir); len(found) != 0 {
		t.Errorf("stored in the new directory: %q", found)
	}
	warned.wantOne(t)
}

var _ objectstore.Store = (*Store)(nil)
