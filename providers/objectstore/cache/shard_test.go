package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// TestBrokenShard: a shard that cannot be used is that shard's trouble. Nobody
// looks at more than the shard that is written.
func TestBrokenShard(t *testing.T) {
	want := content(1, small)
	dir := newDir(t)
	mine := place{key, 0}.file()[:shardLen]
	for n := range shards {
		if name := fmt.Sprintf("%02x", n); name != mine {
			must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
	}
	var warned warnings
	s := open(t, holding(t, key, want), dir, Options{Warn: warned.add})
	wantRead(t, s, key, 0, small, want)
	wantRead(t, s, key, 0, small, want)
	if stats := s.Stats(); stats.Hits != 1 || len(warned.errs) != 0 {
		t.Errorf("%+v, warned of %v", stats, warned.errs)
	}
}

// TestEviction fills a cache far beyond its limit.
func TestEviction(t *testing.T) {
	const limit = shards * 4 * 4096
	dir := newDir(t)
	inner := mem.New()
	s := open(t, inner, dir, Options{MaxBytes: limit})
	for i := range 6 {
		want := content(i, 256*small)
		put(t, inner, fmt.Sprint("packs/", i), want)
		wantRead(t, s, fmt.Sprint("packs/", i), 0, 256*small, want)
		if used := int64(len(files(t, dir))) * 4096; used > limit {
			t.Errorf("%d bytes used", used)
		}
	}
	blocks := len(files(t, dir))
	if stats := s.Stats(); stats.Evicted != int64(6*256-blocks) || blocks < shards*2 {
		t.Errorf("%d blocks are left, %+v", blocks, stats)
	}
}

// TestLimitOfTwo: a process that does not see what another writes exceeds the
// limit by no more than is said.
func TestLimitOfTwo(t *testing.T) {
	const limit = shards * 4 * 4096
	const bound = limit + shards*4096 // slack is one block here
	dir := newDir(t)
	inner := mem.New()
	stores := []*Store{open(t, inner, dir, Options{MaxBytes: limit}), open(t, inner, dir, Options{MaxBytes: limit})}
	for i := range 8 {
		want := content(i, 256*small)
		put(t, inner, fmt.Sprint("packs/", i), want)
		wantRead(t, stores[i%2], fmt.Sprint("packs/", i), 0, 256*small, want)
		if used := int64(len(files(t, dir))) * 4096; used > bound {
			t.Errorf("%d bytes used, want at most %d", used, bound)
		}
	}
}

// sameShard returns keys whose first blocks lie in one shard.
func sameShard(n int) []string {
	shard := place{key, 0}.file()[:shardLen]
	keys := []string{key}
	for i := 0; len(keys) < n; i++ {
		if other := fmt.Sprint("packs/", i); (place{other, 0}).file()[:shardLen] == shard {
			keys = append(keys, other)
		}
	}
	return keys
}

// TestOldestGoFirst: a block that was read a while ago stays, one that was
// stored later but not read since goes.
func TestOldestGoFirst(t *testing.T) {
	inner := fault.New(mem.New())
	s := open(t, inner, newDir(t), Options{MaxBytes: shards * 4 * 4096}) // four in the shard, one of them to be free
	now := time.Now()
	s.disk.now = func() time.Time { return now }
	keys := sameShard(5)
	readAt := func(after time.Duration, key string) {
		t.Helper()
		now = now.Add(after)
		wantRead(t, s, key, 0, 0, []byte(key))
	}
	for _, key := range keys {
		put(t, inner, key, []byte(key))
	}
	for i, key := range keys[:4] {
		readAt(0, key)
		name := place{key, 0}.file()
		must(t, s.disk.root.Chtimes(name, time.Time{}, now.Add(time.Duration(i)*time.Second)))
	}
	readAt(2*time.Minute, keys[0])
	readAt(0, keys[4]) // evicts one or more, of which the last is the least recently used
	before := inner.Calls()
	readAt(0, keys[0])
	readAt(0, keys[4])
	if n := inner.Calls() - before; n != 0 {
		t.Errorf("%d requests for what was used last", n)
	}
	readAt(0, keys[1])
	if n := inner.Calls() - before; n != 1 || s.Stats().Evicted == 0 {
		t.Errorf("%d requests for what was used first, %+v", n, s.Stats())
	}
}

// TestTimesAreNotedOnceAMinute, and mended when they lie in the future.
func TestTimesAreNotedOnceAMinute(t *testing.T) {
	want := []byte("content")
	dir := newDir(t)
	s := open(t, holding(t, key, want), dir, Options{})
	wantRead(t, s, key, 0, 0, want)
	name := filepath.Join(dir, place{key, 0}.file())
	start := time.Now().Truncate(time.Second)
	for _, test := range []struct{ noted, now, want time.Duration }{
		{0, 0, 0},
		{0, 59 * time.Second, 0},
		{0, 60 * time.Second, 60 * time.Second},
		{59 * time.Second, 0, 59 * time.Second},
		{time.Hour, 0, 0},
	} {
		must(t, os.Chtimes(name, time.Time{}, start.Add(test.noted)))
		s.disk.now = func() time.Time { return start.Add(test.now) }
		wantRead(t, s, key, 0, 0, want)
		info, err := os.Stat(name)
		must(t, err)
		if got := info.ModTime().Sub(start); got != test.want {
			t.Errorf("noted %v, read at %v: now %v, want %v", test.noted, test.now, got, test.want)
		}
	}
}

// TestStaleTemporaries are removed by whoever looks at their shard.
func TestStaleTemporaries(t *testing.T) {
	dir := newDir(t)
	s := open(t, holding(t, key, []byte("content")), dir, Options{})
	shard := filepath.Join(dir, place{key, 0}.file()[:shardLen])
	must(t, os.Mkdir(shard, 0o700))
	for name, age := range map[string]time.Duration{".old": 25 * time.Hour, ".young": 23 * time.Hour} {
		path := filepath.Join(shard, name)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
	}
	wantRead(t, s, key, 0, 0, []byte("content"))
	_, temps := everything(t, dir)
	if len(temps) != 1 || filepath.Base(temps[0]) != ".young" {
		t.Errorf("left: %q", temps)
	}
}
