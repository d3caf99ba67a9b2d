package restore

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
	"golang.org/x/sys/unix"
)

// memSource is a Source in memory. fail, if set, is asked before each blob.
type memSource struct {
	namer *blob.Namer
	fail  func(kind blob.Kind, id blob.ID) error

	mu    sync.Mutex // guards blobs
	blobs map[blob.Kind]map[blob.ID][]byte
	order []stored // in which blobs were put first

	nodes, reads atomic.Int64
}

type stored struct {
	kind blob.Kind
	id   blob.ID
}

func newMemSource() *memSource {
	return &memSource{namer: blob.NewNamer([32]byte{7}), blobs: map[blob.Kind]map[blob.ID][]byte{
		blob.Data: {}, blob.Tree: {},
	}}
}

func (m *memSource) put(kind blob.Kind, b []byte) blob.ID {
	id := m.namer.ID(kind, b)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.blobs[kind][id]; !ok {
		m.blobs[kind][id] = bytes.Clone(b)
		m.order = append(m.order, stored{kind, id})
	}
	return id
}

func (m *memSource) putNode(b []byte) (blob.ID, error) { return m.put(blob.Tree, b), nil }

func (m *memSource) drop(kind blob.Kind, id blob.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs[kind], id)
}

func (m *memSource) Name(kind blob.Kind, b []byte) blob.ID { return m.namer.ID(kind, b) }

func (m *memSource) Node(ctx context.Context, id blob.ID) ([]byte, error) {
	m.nodes.Add(1)
	return m.Blob(ctx, blob.Tree, id)
}

func (m *memSource) Blob(ctx context.Context, kind blob.Kind, id blob.ID) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.fail != nil {
		if err := m.fail(kind, id); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.blobs[kind][id]
	if !ok {
		return nil, &fetch.Error{Kind: kind, ID: id, Err: fetch.ErrNotIndexed}
	}
	return b, nil
}

func (m *memSource) Blobs(ctx context.Context, kind blob.Kind, ids []blob.ID, deliver func(int, []byte, error) error) error {
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for w := range errs {
		wg.Go(func() {
			for i := w; i < len(ids) && errs[w] == nil; i += len(errs) {
				m.reads.Add(1)
				b, err := m.Blob(ctx, kind, ids[i])
				if ctx.Err() != nil {
					errs[w] = ctx.Err()
					return
				}
				errs[w] = deliver(i, bytes.Clone(b), err)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// capture reads a directory into src and returns its snapshot. It shares no
// code with the package, so that two directories are equal exactly if their
// snapshots are.
func capture(t testing.TB, src *memSource, dir string) Snapshot {
	t.Helper()
	c := &capturer{t: t, src: src, links: make(map[inode][]string)}
	root := c.entry(dir, "")
	root.Name = ""
	snap := Snapshot{Root: src.put(blob.Tree, manifest.EncodeRoot(root)), Bytes: c.bytes}
	var groups [][]string
	for _, group := range c.links {
		if len(group) > 1 {
			slices.Sort(group)
			groups = append(groups, group)
		}
	}
	slices.SortFunc(groups, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	w := manifest.NewLinkWriter(src.putNode)
	for _, g := range groups {
		must(t, w.Add(g))
	}
	links, err := w.Finish()
	must(t, err)
	snap.Links = links
	return snap
}

type capturer struct {
	t     testing.TB
	src   *memSource
	links map[inode][]string
	bytes uint64
}

func (c *capturer) entry(path, rel string) manifest.Entry {
	c.t.Helper()
	var st unix.Stat_t
	must(c.t, unix.Lstat(path, &st))
	e := manifest.Entry{Name: filepath.Base(path), Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid,
		MTime: manifest.Time{Sec: st.Mtim.Sec, Nsec: uint32(st.Mtim.Nsec)}, Xattrs: c.xattrs(path)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Kind, e.Size = manifest.File, uint64(st.Size)
		e.Content = c.content(path)
		c.bytes += e.Size
	case unix.S_IFDIR:
		e.Kind, e.Node = manifest.Dir, c.dir(path, rel)
		return e
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		must(c.t, err)
		e.Kind, e.Target = manifest.Symlink, target
	case unix.S_IFIFO:
		e.Kind = manifest.FIFO
	case unix.S_IFSOCK:
		e.Kind = manifest.Socket
	case unix.S_IFCHR, unix.S_IFBLK:
		e.Kind = manifest.CharDevice
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			e.Kind = manifest.BlockDevice
		}
		e.Device = manifest.Device{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}
	}
	id := inode{st.Dev, st.Ino}
	c.links[id] = append(c.links[id], rel)
	return e
}

func (c *capturer) dir(path, rel string) blob.ID {
	f, err := os.Open(path)
	must(c.t, err)
	names, err := f.Readdirnames(-1)
	must(c.t, err)
	f.Close()
	sort.Strings(names)
	w := manifest.NewDirWriter(c.src.putNode)
	for _, name := range names {
		e := c.entry(path+"/"+name, strings.TrimPrefix(rel+"/"+name, "/"))
		e.Name = name
		must(c.t, w.Add(&e))
	}
	id, err := w.Finish()
	must(c.t, err)
	return id
}

const (
	testChunk = 256 << 10
	testHole  = 64 << 10
)

func (c *capturer) content(path string) manifest.Content {
	b, err := os.ReadFile(path)
	must(c.t, err)
	content, err := contentOf(c.src, b)
	must(c.t, err)
	return content
}

// contentOf stores b in chunks, with aligned runs of zeros as holes.
func contentOf(src *memSource, b []byte) (manifest.Content, error) {
	w := manifest.NewContentWriter(src.putNode)
	var data []byte
	flush := func() {
		if len(data) > 0 {
			w.Add(manifest.Extent{Length: uint64(len(data)), ID: src.put(blob.Data, data)})
		}
		data = nil
	}
	for len(b) > 0 {
		n := min(len(b), testHole)
		if n == testHole && bytes.Count(b[:n], []byte{0}) == n {
			flush()
			w.Add(manifest.Extent{Length: uint64(n)})
		} else {
			data = append(data, b[:n]...)
		}
		if b = b[n:]; len(data) >= testChunk {
			flush()
		}
	}
	flush()
	return w.Finish()
}

func (c *capturer) xattrs(path string) []manifest.Xattr {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err == unix.ENOTSUP || err == unix.EPERM {
		return nil
	}
	must(c.t, err)
	var xattrs []manifest.Xattr
	for _, name := range strings.Split(string(buf[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl") && name != "security.capability" {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(path, name, value)
		must(c.t, err)
		x := manifest.Xattr{Name: name, Value: value[:n]}
		if n > manifest.MaxInlineXattr {
			x = manifest.Xattr{Name: name, Size: uint32(n), Blob: c.src.put(blob.Data, value[:n])}
		}
		xattrs = append(xattrs, x)
	}
	slices.SortFunc(xattrs, func(a, b manifest.Xattr) int { return strings.Compare(a.Name, b.Name) })
	return xattrs
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustRun restores and fails the test unless everything is restored.
func mustRun(t testing.TB, src Source, snap Snapshot, opts Options) Result {
	t.Helper()
	r, err := Run(t.Context(), src, snap, opts)
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	return r
}

// wantEqual fails the test unless the directory holds the snapshot.
func wantEqual(t testing.TB, src *memSource, dir string, want Snapshot) {
	t.Helper()
	got := capture(t, src, dir)
	if got.Root != want.Root || got.Links != want.Links {
		t.Fatalf("%s differs from the snapshot:\n%s", dir, describeDiff(t, src, want, got))
	}
}

func describeDiff(t testing.TB, src *memSource, want, got Snapshot) string {
	a, b := describe(t, src, want), describe(t, src, got)
	var out strings.Builder
	for path, e := range a {
		if b[path] != e {
			fmt.Fprintf(&out, "want %s %s\n got %s %s\n", path, e, path, b[path])
		}
	}
	for path, e := range b {
		if _, ok := a[path]; !ok {
			fmt.Fprintf(&out, "extra %s %s\n", path, e)
		}
	}
	fmt.Fprintf(&out, "links %v, got %v\n", linksOf(t, src, want), linksOf(t, src, got))
	return out.String()
}

func linksOf(t testing.TB, src *memSource, snap Snapshot) (groups [][]string) {
	for g, err := range manifest.ReadLinks(context.Background(), src.Node, snap.Links) {
		must(t, err)
		groups = append(groups, g)
	}
	return groups
}

func describe(t testing.TB, src *memSource, snap Snapshot) map[string]string {
	b, err := src.Node(context.Background(), snap.Root)
	must(t, err)
	root, err := manifest.DecodeRoot(b)
	must(t, err)
	out := make(map[string]string)
	var walk func(path string, e manifest.Entry)
	walk = func(path string, e manifest.Entry) {
		node := e.Node
		e.Node = blob.ID{}
		out[path] = fmt.Sprintf("%+v", e)
		if e.Kind != manifest.Dir {
			return
		}
		for child, err := range manifest.ReadDir(context.Background(), src.Node, node) {
			must(t, err)
			walk(path+"/"+child.Name, *child)
		}
	}
	walk("", root)
	return out
}

func lookup(t testing.TB, src *memSource, snap Snapshot, path string) manifest.Entry {
	t.Helper()
	b, err := src.Node(context.Background(), snap.Root)
	must(t, err)
	root, err := manifest.DecodeRoot(b)
	must(t, err)
	e, err := manifest.Lookup(context.Background(), src.Node, root, path)
	must(t, err)
	return e
}

func sortEntries(entries []manifest.Entry) {
	slices.SortFunc(entries, func(a, b manifest.Entry) int { return strings.Compare(a.Name, b.Name) })
}
