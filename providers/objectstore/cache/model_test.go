package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// TestModel reads random ranges through a cache whose files are damaged, moved
// and evicted at random, with many readers open at once. The model is the inner
// store: each read gives exactly its bytes or its error.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(t, rt)
		defer m.closeAll()
		rt.Repeat(map[string]func(*rapid.T){
			"put":         m.put,
			"read":        m.readRange,
			"open":        m.open,
			"read on":     m.readOn,
			"read on too": m.readOn,
			"close":       m.close,
			"delete":      m.delete,
			"flip":        m.flip,
			"truncate":    m.truncate,
			"extend":      m.extend,
			"remove":      m.remove,
			"swap":        m.swap,
			"replace":     m.replace,
			"clock":       m.clock,
			"take away":   m.takeAway,
		})
	})
}

type model struct {
	t        *testing.T
	rt       *rapid.T
	dir      string
	inner    objectstore.Store
	store    *Store
	sizes    map[string]int64
	readers  []*openReader
	later    time.Duration // by how much the store's clock is ahead
	lastMade int
}

type openReader struct {
	io.ReadCloser
	key  string
	want []byte // still to come
}

func newModel(t *testing.T, rt *rapid.T) *model {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	must(t, err)
	inner := mem.New()
	opts := Options{Prefixes: []string{"packs/"}}
	// One block a shard at one extreme, so that there is eviction.
	opts.MaxBytes = rapid.SampledFrom([]int64{shards * 4096, defaultMaxBytes}).Draw(rt, "limit")
	if rapid.Bool().Draw(rt, "keep puts") {
		opts.KeepPut = func(string, int64) bool { return true }
	}
	m := &model{t: t, rt: rt, dir: dir, inner: inner, sizes: map[string]int64{}}
	root, err := openPrivate(dir)
	must(t, err)
	m.store = newStore(inner, root, opts, small)
	m.store.disk.now = func() time.Time { return time.Now().Add(m.later) }
	return m
}

func (m *model) closeAll() {
	for _, r := range m.readers {
		must(m.t, r.Close())
	}
	if n := len(m.store.flights.byKey); n != 0 {
		m.rt.Fatalf("%d flights are left", n)
	}
	must(m.t, m.store.Close())
	must(m.t, os.RemoveAll(m.dir))
}

// put stores an object under a new name: a cached one never changes.
func (m *model) put(*rapid.T) {
	blocks := rapid.Int64Range(0, 12).Draw(m.rt, "blocks")
	size := max(0, blocks*small+rapid.Int64Range(-2, 2).Draw(m.rt, "more"))
	m.lastMade++
	key := fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"packs/", "other/"}).Draw(m.rt, "prefix"), m.lastMade)
	put(m.t, m.store, key, content(m.lastMade, int(size)))
	m.sizes[key] = size
}

func (m *model) key() string {
	keys := []string{"packs/absent"}
	for n := range m.lastMade + 1 {
		for _, prefix := range []string{"packs/", "other/"} {
			key := fmt.Sprintf("%s%d", prefix, n)
			if _, found := m.sizes[key]; found {
				keys = append(keys, key)
			}
		}
	}
	return rapid.SampledFrom(keys).Draw(m.rt, "key")
}

func (m *model) drawRange() objectstore.Range {
	number := rapid.OneOf(rapid.Int64Range(0, 14*small), rapid.Map(rapid.Int64Range(0, 14), func(n int64) int64 { return n * small }))
	r := objectstore.Range{Offset: number.Draw(m.rt, "offset"), Length: number.Draw(m.rt, "length")}
	switch rapid.IntRange(0, 20).Draw(m.rt, "extreme") {
	case 0:
		r.Length = math.MaxInt64
	case 1:
		r.Offset = math.MaxInt64
	case 2:
		r.Length = -1
	case 3:
		r.Offset = -1
	}
	return r
}

func (m *model) readRange(*rapid.T) {
	key, r := m.key(), m.drawRange()
	want, wantErr := read(context.Background(), m.inner, key, r.Offset, r.Length)
	got, err := read(context.Background(), m.store, key, r.Offset, r.Length)
	m.compare(key, got, want, err, wantErr)
}

func (m *model) compare(key string, got, want []byte, err, wantErr error) {
	for _, sentinel := range []error{objectstore.ErrNotExist, objectstore.ErrRange} {
		if errors.Is(err, sentinel) != errors.Is(wantErr, sentinel) {
			m.rt.Fatalf("read %s: %v, want %v", key, err, wantErr)
		}
	}
	var own *objectstore.Error
	if err != nil && (!errors.As(err, &own) || own.Op != "get" || own.Key != key) {
		m.rt.Fatalf("read %s: error %v", key, err)
	}
	if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
		m.rt.Fatalf("read %s: %d bytes, %v, want %d, %v", key, len(got), err, len(want), wantErr)
	}
}

func (m *model) open(*rapid.T) {
	key, r := m.key(), m.drawRange()
	want, wantErr := read(context.Background(), m.inner, key, r.Offset, r.Length)
	reader, err := m.store.Get(context.Background(), key, r)
	if (err == nil) != (wantErr == nil) {
		m.rt.Fatalf("open %s: %v, want %v", key, err, wantErr)
	}
	if err == nil {
		m.readers = append(m.readers, &openReader{reader, key, want})
	}
}

func (m *model) reader(rt *rapid.T) int {
	if len(m.readers) == 0 {
		rt.Skip("no open reader")
	}
	return rapid.IntRange(0, len(m.readers)-1).Draw(rt, "reader")
}

func (m *model) readOn(rt *rapid.T) {
	r := m.readers[m.reader(rt)]
	buffer := make([]byte, rapid.IntRange(1, 5*small).Draw(rt, "buffer"))
	n, err := io.ReadFull(r, buffer)
	wantN := min(len(buffer), len(r.want))
	if n != wantN || !bytes.Equal(buffer[:n], r.want[:n]) {
		rt.Fatalf("reader of %s: %d bytes, %v, want %d", r.key, n, err, wantN)
	}
	if ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil && !ended || ended != (wantN < len(buffer)) {
		rt.Fatalf("reader of %s: %v after %d of %d bytes", r.key, err, n, wantN)
	}
	r.want = r.want[n:]
}

func (m *model) close(rt *rapid.T) {
	i := m.reader(rt)
	must(m.t, m.readers[i].Close())
	m.readers = append(m.readers[:i], m.readers[i+1:]...)
}

// delete leaves objects alone that are being read: their readers may fail, and
// may store blocks after the delete.
func (m *model) delete(rt *rapid.T) {
	key := m.key()
	for _, r := range m.readers {
		if r.key == key {
			rt.Skip("being read")
		}
	}
	must(m.t, m.store.Delete(context.Background(), key))
	delete(m.sizes, key)
}

// file draws a block file.
func (m *model) file(rt *rapid.T) string {
	found := files(m.t, m.dir)
	if len(found) == 0 {
		rt.Skip("no block files")
	}
	return rapid.SampledFrom(found).Draw(rt, "file")
}

func (m *model) change(rt *rapid.T, how func(old []byte) []byte) {
	name := m.file(rt)
	old, err := os.ReadFile(name)
	must(m.t, err)
	must(m.t, os.WriteFile(name, how(old), 0o600))
}

func (m *model) flip(rt *rapid.T) {
	m.change(rt, func(b []byte) []byte {
		if len(b) > 0 {
			b[rapid.IntRange(0, len(b)-1).Draw(rt, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		}
		return b
	})
}

func (m *model) truncate(rt *rapid.T) {
	m.change(rt, func(b []byte) []byte { return b[:rapid.IntRange(0, len(b)).Draw(rt, "length")] })
}

func (m *model) extend(rt *rapid.T) {
	m.change(rt, func(b []byte) []byte { return append(b, make([]byte, rapid.IntRange(1, 3*small).Draw(rt, "more"))...) })
}

func (m *model) remove(rt *rapid.T) { must(m.t, os.Remove(m.file(rt))) }

func (m *model) swap(rt *rapid.T) {
	a, b := m.file(rt), m.file(rt)
	hold := m.dir + "/hold"
	must(m.t, os.Rename(a, hold))
	if a != b {
		must(m.t, os.Rename(b, a))
	}
	must(m.t, os.Rename(hold, b))
}

// replace puts a folder where a block was.
func (m *model) replace(rt *rapid.T) {
	name := m.file(rt)
	must(m.t, os.Remove(name))
	must(m.t, os.MkdirAll(name+"/full", 0o700))
}

func (m *model) clock(rt *rapid.T) {
	m.later += time.Duration(rapid.Int64Range(-1000, 3000).Draw(rt, "seconds")) * time.Second
}

// takeAway removes everything, or makes a shard a file in which nothing can be
// stored.
func (m *model) takeAway(rt *rapid.T) {
	shard := fmt.Sprintf("%s/%02x", m.dir, rapid.Byte().Draw(rt, "shard"))
	must(m.t, os.RemoveAll(shard))
	if rapid.Bool().Draw(rt, "for good") {
		must(m.t, os.WriteFile(shard, nil, 0o600))
	}
}
