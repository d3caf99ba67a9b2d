package statcache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testIdentity = Identity{Repository: "r", Chunking: "c", Policy: "p", Root: "/workspace"}

func mustOpen(t testing.TB, dir string, id Identity) *Cache {
	t.Helper()
	c, err := Open(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// session runs do in a session of its own.
func session(t testing.TB, c *Cache, do func(*Session)) {
	t.Helper()
	s, err := c.Session()
	must(t, err)
	do(s)
	must(t, s.Close())
}

func put(t testing.TB, s *Session, path, first string, node blob.ID, entries ...Entry) {
	t.Helper()
	must(t, s.Put([]byte(path), first, node, func(yield func(*Entry) bool) {
		for i := range entries {
			if !yield(&entries[i]) {
				return
			}
		}
	}))
}

func named(names ...string) []Entry {
	var entries []Entry
	for i, name := range names {
		entries = append(entries, Entry{Name: name, Stat: Stat{Ino: uint64(i + 1), Size: int64(len(name))}})
	}
	return entries
}

func TestEntriesSurvive(t *testing.T) {
	id := func(b byte) blob.ID { return blob.ID{b, 31: b} }
	stat := Stat{Ino: 1 << 60, Size: 3 << 40, CTime: manifest.Time{Sec: -1, Nsec: 999_999_999}, MTime: manifest.Time{Sec: 1 << 40, Nsec: 7}, Mode: 0o104755, UID: 1<<32 - 1, GID: 12}
	small := stat
	small.Size = 10
	entries := []Entry{
		{Name: "dir", Stat: stat, Node: id(9)},
		{Name: "empty", Stat: stat, Fresh: true},
		{Name: "extents", Stat: small, Content: manifest.Content{Extents: []manifest.Extent{{Length: 4, ID: id(1)}, {Length: 6}}}},
		{Name: "hole", Stat: small, Content: manifest.Content{Extents: []manifest.Extent{{Length: 10}}}},
		{Name: "link", Stat: stat, Target: "../\xff"},
		{Name: "list", Stat: stat, Content: manifest.Content{List: id(4)}},
		{Name: "one", Stat: small, Content: manifest.Content{Extents: []manifest.Extent{{Length: 10, ID: id(2)}}}},
		{Name: "torn", Stat: small, Content: manifest.Content{Extents: []manifest.Extent{{Length: 9, ID: id(2)}}}},
		{Name: "xattrs", Stat: stat, Xattrs: []manifest.Xattr{{Name: "user.a", Value: []byte("v")}, {Name: "user.b", Blob: id(3), Size: 1000}}},
	}
	dir := t.TempDir()
	c := mustOpen(t, dir, testIdentity)
	session(t, c, func(s *Session) { put(t, s, "a/b", "", id(5), entries...) })
	must(t, c.Close())
	c = mustOpen(t, dir, testIdentity)
	defer c.Close()
	session(t, c, func(s *Session) {
		if got := s.Node([]byte("a/b")); got != id(5) {
			t.Errorf("node %v", got)
		}
		cursor := s.Seek([]byte("a/b"), "")
		for _, want := range entries {
			var got Entry
			if !cursor.Find(want.Name, &got) || !reflect.DeepEqual(got, want) {
				t.Errorf("found %+v, want %+v", got, want)
			}
		}
		cursor.Drain("")
		if !cursor.Exact() {
			t.Error("all entries were found, but the cursor is not exact")
		}
	})
}

func TestCursorTellsDifferences(t *testing.T) {
	c := mustOpen(t, t.TempDir(), testIdentity)
	defer c.Close()
	withDirs := func(names ...string) []Entry {
		entries := named(names...)
		for i := range entries {
			if entries[i].Name[0] == 'd' {
				entries[i].Node = blob.ID{1}
			}
		}
		return entries
	}
	session(t, c, func(s *Session) {
		put(t, s, "x", "", blob.ID{1}, withDirs("a", "d1", "d2", "f", "z")...)
		put(t, s, "x-", "", blob.ID{2}, named("other")...)
		put(t, s, "x/y", "", blob.ID{3}, named("below")...)
		put(t, s, "dirs", "", blob.ID{}, withDirs("d1", "d2", "d3")...)
		put(t, s, "runs", "", blob.ID{}, withDirs("a", "b")...)
		put(t, s, "runs", "m", blob.ID{}, withDirs("m", "n")...)
		put(t, s, "runs", "p", blob.ID{}, withDirs("p", "q")...)
		must(t, s.PutNode([]byte("runs"), blob.ID{7}))
	})
	c.empty = false // as after opening again
	cases := []struct {
		path, first, limit string
		names              []string
		found              int
		exact              bool
		gone, passed       []string
	}{
		{path: "x", names: []string{"a", "d1", "d2", "f", "z"}, found: 5, exact: true},
		{path: "x", names: []string{"a", "d1", "f", "z"}, found: 4, gone: []string{"d2"}},
		{path: "x", names: []string{"a", "b", "d1", "d2", "f", "z"}, found: 5, exact: true}, // the walk knows of b
		{path: "x", names: []string{"a"}, found: 1, gone: []string{"d1", "d2"}},
		{path: "x", names: nil, gone: []string{"d1", "d2"}},
		{path: "missing", names: []string{"a"}},
		{path: "runs", limit: "m", names: []string{"a", "b"}, found: 2, exact: true},
		{path: "runs", first: "m", limit: "p", names: []string{"m", "n"}, found: 2, exact: true},
		{path: "runs", first: "p", names: []string{"p", "q"}, found: 2, exact: true},
		{path: "runs", names: []string{"a", "b", "m", "n", "p", "q"}, found: 6, passed: []string{"m", "p"}},
		{path: "runs", first: "n", names: []string{"n", "o", "q"}, found: 2, passed: []string{"p"}},
		{path: "runs", first: "b", limit: "n", names: []string{"b", "m"}, found: 2, passed: []string{"m"}},
		{path: "runs", first: "c", limit: "n", names: []string{"m"}, found: 1, passed: []string{"m"}},
		{path: "dirs", first: "d3", names: []string{"d3"}, found: 1}, // those before it are of another batch
		{path: "dirs", first: "d2", gone: []string{"d2", "d3"}},
	}
	session(t, c, func(s *Session) {
		if got := s.Node([]byte("runs")); got != (blob.ID{7}) {
			t.Errorf("node of a directory in runs: %v", got)
		}
		for _, tc := range cases {
			cursor := s.Seek([]byte(tc.path), tc.first)
			found := 0
			for _, name := range tc.names {
				var e Entry
				if cursor.Find(name, &e) {
					found++
				}
			}
			cursor.Drain(tc.limit)
			if found != tc.found || cursor.Exact() != tc.exact {
				t.Errorf("%+v: found %d, exact %t", tc, found, cursor.Exact())
			}
			if !slices.Equal(cursor.Gone(), tc.gone) || !slices.Equal(cursor.Passed(tc.limit), tc.passed) {
				t.Errorf("%+v: gone %q, passed %q", tc, cursor.Gone(), cursor.Passed(tc.limit))
			}
		}
	})
}

func TestNodeOfRunsIsForgottenWithAnyRun(t *testing.T) {
	c := mustOpen(t, t.TempDir(), testIdentity)
	defer c.Close()
	session(t, c, func(s *Session) {
		put(t, s, "d", "", blob.ID{}, named("a")...)
		put(t, s, "d", "m", blob.ID{}, named("m")...)
		must(t, s.PutNode([]byte("d"), blob.ID{1}))
	})
	c.empty = false
	session(t, c, func(s *Session) { put(t, s, "d", "m", blob.ID{}, named("n")...) })
	session(t, c, func(s *Session) {
		if got := s.Node([]byte("d")); !got.IsZero() {
			t.Errorf("node %v is still believed", got)
		}
	})
}

func TestDropTree(t *testing.T) {
	c := mustOpen(t, t.TempDir(), testIdentity)
	defer c.Close()
	c.empty = false
	paths := []string{"", "a", "a/b", "a/b/c", "a/b/\xff/d", "a/b-", "a/b.", "a/b0", "a/bb", "b"}
	session(t, c, func(s *Session) {
		for i, p := range paths {
			put(t, s, p, "", blob.ID{byte(i + 1)}, named("f")...)
		}
	})
	session(t, c, func(s *Session) { must(t, s.DropTree([]byte("a/b"))) })
	session(t, c, func(s *Session) {
		for i, p := range paths {
			dropped := p == "a/b" || p == "a/b/c" || p == "a/b/\xff/d"
			if got := s.Node([]byte(p)); got.IsZero() != dropped || !dropped && got != (blob.ID{byte(i + 1)}) {
				t.Errorf("%q: node %v", p, got)
			}
		}
	})
}

func TestBase(t *testing.T) {
	dir := t.TempDir()
	c := mustOpen(t, dir, testIdentity)
	if _, ok := c.Base(); ok || !c.TrustedDir().IsZero() {
		t.Error("a new cache has a base")
	}
	base := Base{Snapshot: blob.ID{1}, Dir: blob.ID{2}, Opaque: []byte("packs")}
	must(t, c.Commit(base))
	must(t, c.Close())
	c = mustOpen(t, dir, testIdentity)
	if got, ok := c.Base(); !ok || !reflect.DeepEqual(got, base) || c.TrustedDir() != base.Dir {
		t.Errorf("base %+v", got)
	}
	c.reliable = false // booted since
	if got, ok := c.Base(); !ok || got.Snapshot != base.Snapshot || !c.TrustedDir().IsZero() {
		t.Error("records from before a boot are believed")
	}
	must(t, c.Close())
}

func TestOtherIdentityDiscards(t *testing.T) {
	for name, change := range map[string]func(*Identity){
		"repository": func(i *Identity) { i.Repository = "other" },
		"chunking":   func(i *Identity) { i.Chunking = "other" },
		"policy":     func(i *Identity) { i.Policy = "other" },
		"root":       func(i *Identity) { i.Root = "other" },
	} {
		dir := t.TempDir()
		c := mustOpen(t, dir, testIdentity)
		session(t, c, func(s *Session) { put(t, s, "a", "", blob.ID{1}, named("f")...) })
		must(t, c.Commit(Base{Snapshot: blob.ID{1}, Dir: blob.ID{1}}))
		must(t, c.Close())
		id := testIdentity
		change(&id)
		c = mustOpen(t, dir, id)
		session(t, c, func(s *Session) {
			if got := s.Node([]byte("a")); !got.IsZero() {
				t.Errorf("records of another %s are used", name)
			}
		})
		if _, ok := c.Base(); ok {
			t.Errorf("the base of another %s is used", name)
		}
		must(t, c.Close())
	}
}

func TestBusy(t *testing.T) {
	dir := t.TempDir()
	c := mustOpen(t, dir, testIdentity)
	if _, err := Open(dir, testIdentity); !errors.Is(err, ErrBusy) {
		t.Errorf("second Open: %v", err)
	}
	must(t, c.Close())
	c = mustOpen(t, dir, testIdentity)
	must(t, c.Close())
}

// Whatever file of the database is lost or damaged: opening, reading and writing
// work, and nothing false is read.
func TestDamagedDatabase(t *testing.T) {
	fill := func(dir string) []string {
		c := mustOpen(t, dir, testIdentity)
		session(t, c, func(s *Session) {
			for i := range 300 {
				put(t, s, fmt.Sprintf("d%03d", i), "", blob.ID{1, byte(i)}, named("a", "b", "c")...)
			}
		})
		must(t, c.db.Flush())
		session(t, c, func(s *Session) { put(t, s, "e", "", blob.ID{2}, named("a")...) })
		must(t, c.Commit(Base{Snapshot: blob.ID{1}, Dir: blob.ID{1}}))
		must(t, c.Close())
		files, err := filepath.Glob(filepath.Join(dir, "db", "*"))
		must(t, err)
		return files
	}
	damage := map[string]func(name string) error{
		"removed":   os.Remove,
		"truncated": func(name string) error { return os.Truncate(name, 100) },
		"emptied":   func(name string) error { return os.Truncate(name, 0) },
		"flipped": func(name string) error {
			b, err := os.ReadFile(name)
			if err != nil || len(b) == 0 {
				return err
			}
			b[len(b)/2] ^= 0x40
			return os.WriteFile(name, b, 0o600)
		},
	}
	for what, do := range damage {
		for i := range fill(t.TempDir()) {
			dir := t.TempDir()
			files := fill(dir)
			if i >= len(files) {
				continue
			}
			name := files[i]
			t.Run(what+" "+filepath.Ext(name)+filepath.Base(name), func(t *testing.T) {
				must(t, do(name))
				c := mustOpen(t, dir, testIdentity)
				defer c.Close()
				s, err := c.Session()
				must(t, err)
				for i := range 300 {
					path := []byte(fmt.Sprintf("d%03d", i))
					if got := s.Node(path); !got.IsZero() && got != (blob.ID{1, byte(i)}) {
						t.Errorf("%s has node %v", path, got)
					}
					var e Entry
					if s.Seek(path, "").Find("b", &e) && e.Stat.Ino != 2 {
						t.Errorf("%s/b is %+v", path, e)
					}
				}
				put(t, s, "new", "", blob.ID{3}, named("a")...)
				s.Close() // may say that a table is damaged
			})
		}
	}
}

// Decoding arbitrary bytes ends without a panic.
func FuzzRecord(f *testing.F) {
	var b []byte
	for _, e := range named("a", "b") {
		b = appendEntry(b, &e)
	}
	f.Add(b)
	f.Add(appendEntry(nil, &Entry{Name: "x", Xattrs: []manifest.Xattr{{Name: "user.a"}}, Target: "t"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := decoder{rest: b}
		for len(d.rest) > 0 && !d.bad {
			name := d.bytes(d.uvarint())
			e := Entry{Name: string(name)}
			d.entry(&e)
		}
	})
}

func BenchmarkOpenClose(b *testing.B) {
	dir := b.TempDir()
	c := mustOpen(b, dir, testIdentity)
	session(b, c, func(s *Session) {
		for i := range 6000 {
			put(b, s, fmt.Sprintf("some/path/%d", i), "", blob.ID{1}, named("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")...)
		}
	})
	must(b, c.Close())
	for b.Loop() {
		c := mustOpen(b, dir, testIdentity)
		must(b, c.Commit(Base{Snapshot: blob.ID{1}, Dir: blob.ID{1}}))
		must(b, c.Close())
	}
}
