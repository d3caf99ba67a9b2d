package objectstoretest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// testModel runs random calls against the store and against a map.
func testModel(t *testing.T, s objectstore.Store) {
	var runs atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{
			t: t, rt: rt, store: s,
			base:    fmt.Sprintf("run%d/", runs.Add(1)), // each run in its own part of the store
			objects: map[string]modelObject{},
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put":       m.put,
			"if absent": m.putIfAbsent,
			"if match":  m.putIfMatch,
			"get":       m.get,
			"stat":      m.stat,
			"list":      m.list,
			"delete":    m.delete,
		})
	})
}

type model struct {
	t       *testing.T
	rt      *rapid.T
	store   objectstore.Store
	base    string
	puts    int
	objects map[string]modelObject
	etags   []string // of all objects so far
}

type modelObject struct{ content, etag string }

var modelKeys = []string{"a", "a-b", "a.b/c", "b/a", "b/a-", "b/a0", "b/c/d", "c"}

func (m *model) key() string { return m.base + rapid.SampledFrom(modelKeys).Draw(m.rt, "key") }

// content is never the same twice, so that every put changes the etag of a
// store that takes it from the content.
func (m *model) content() string {
	m.puts++
	return fmt.Sprintf("%d", m.puts) + strings.Repeat(".", rapid.IntRange(0, 3000).Draw(m.rt, "length"))
}

func (m *model) doPut(key string, opts objectstore.PutOptions, want error) {
	content := m.content()
	info, err := m.store.Put(m.t.Context(), key, strings.NewReader(content), opts)
	if !errors.Is(err, want) {
		m.rt.Fatalf("put %s %+v: %v, want %v", key, opts, err, want)
	}
	if want != nil {
		return
	}
	if info.Key != key || info.Size != int64(len(content)) || slices.Contains(m.etags, info.ETag) {
		m.rt.Fatalf("put %s: %+v", key, info)
	}
	m.objects[key] = modelObject{content, info.ETag}
	m.etags = append(m.etags, info.ETag)
}

func (m *model) put(*rapid.T) { m.doPut(m.key(), unconditional, nil) }

func (m *model) putIfAbsent(*rapid.T) {
	key := m.key()
	var want error
	if _, found := m.objects[key]; found {
		want = objectstore.ErrExist
	}
	m.doPut(key, objectstore.PutOptions{IfAbsent: true}, want)
}

func (m *model) putIfMatch(*rapid.T) {
	key := m.key()
	current, found := m.objects[key]
	etag := rapid.SampledFrom(append([]string{"unknown"}, m.etags...)).Draw(m.rt, "etag")
	if found && rapid.Bool().Draw(m.rt, "current") {
		etag = current.etag
	}
	want := objectstore.ErrPrecondition
	if found && current.etag == etag {
		want = nil
	}
	m.doPut(key, objectstore.PutOptions{IfMatch: etag}, want)
}

func (m *model) get(*rapid.T) {
	key := m.key()
	r := objectstore.Range{
		Offset: rapid.Int64Range(0, 4000).Draw(m.rt, "offset"),
		Length: rapid.Int64Range(0, 4000).Draw(m.rt, "length"),
	}
	o, found := m.objects[key]
	want := o.content
	var wantErr error
	switch {
	case !found:
		wantErr = objectstore.ErrNotExist
	case r.Offset > 0 && r.Offset >= int64(len(want)):
		wantErr = objectstore.ErrRange
	default:
		want = want[r.Offset:]
		if r.Length > 0 {
			want = want[:min(r.Length, int64(len(want)))]
		}
	}
	got, err := read(m.t.Context(), m.store, key, r)
	if !errors.Is(err, wantErr) || err == nil && got != want {
		m.rt.Fatalf("get %s %+v: %d bytes, %v, want %d, %v", key, r, len(got), err, len(want), wantErr)
	}
}

func (m *model) stat(*rapid.T) {
	key := m.key()
	o, found := m.objects[key]
	info, err := m.store.Stat(m.t.Context(), key)
	switch {
	case !found && !errors.Is(err, objectstore.ErrNotExist):
		m.rt.Fatalf("stat %s: %v, want absent", key, err)
	case found && (err != nil || info.Key != key || info.Size != int64(len(o.content)) || info.ETag != o.etag):
		m.rt.Fatalf("stat %s: %+v, %v, want %d bytes, etag %s", key, info, err, len(o.content), o.etag)
	}
}

func (m *model) list(*rapid.T) {
	prefix := m.base + rapid.SampledFrom([]string{"", "a", "a.", "b/", "b/a", "b/c/"}).Draw(m.rt, "prefix")
	after := rapid.SampledFrom([]string{"", m.base, m.key(), m.key() + "/", m.base + "b"}).Draw(m.rt, "after")
	var keys []string
	for key := range m.objects {
		keys = append(keys, key)
	}
	want := listed(keys, prefix, after)
	if got := mustList(m.t, m.store, prefix, after); !slices.Equal(got, want) {
		m.rt.Fatalf("list %q after %q: %q, want %q", prefix, after, got, want)
	}
}

func (m *model) delete(*rapid.T) {
	key := m.key()
	if err := m.store.Delete(m.t.Context(), key); err != nil {
		m.rt.Fatalf("delete %s: %v", key, err)
	}
	delete(m.objects, key)
}
