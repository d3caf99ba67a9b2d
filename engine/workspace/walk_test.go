package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mustWalk walks dir into s and checks that no descriptor is left open.
func mustWalk(t testing.TB, s *store, dir string, change func(*Options)) Result {
	t.Helper()
	before := openFDs(t)
	opts := Options{Root: dir, NewWriter: s.writer, Chunk: testParams, Workers: 3, Now: later}
	if change != nil {
		change(&opts)
	}
	result, err := Walk(context.Background(), opts)
	if err != nil {
		t.Fatalf("walk: %v", err)
	}
	// A cache opens tables as it needs them.
	if after := openFDs(t); after > before && opts.Cache == nil {
		t.Errorf("%d descriptors open, %d before the walk", after, before)
	}
	return result
}

func openFDs(t testing.TB) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range fds {
		// The runtime's poller and the like come when they are first needed.
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && !strings.HasPrefix(target, "anon_inode:") {
			n++
		}
	}
	return n
}

func mustTree(t testing.TB, s *store, result Result) map[string]manifest.Entry {
	t.Helper()
	tree, err := s.tree(result.Root)
	if err != nil {
		t.Fatalf("read tree: %v", err)
	}
	return tree
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a file and the directories above it.
func write(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

// checkAgainstDisk compares everything that was stored with what lies in dir.
func checkAgainstDisk(t *testing.T, s *store, dir string, result Result) {
	t.Helper()
	tree := mustTree(t, s, result)
	seen := 0
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		seen++
		rel, _ := filepath.Rel(dir, path)
		if rel == "." { // its times may be changed by the test itself
			return nil
		}
		e, ok := tree[rel]
		if !ok {
			t.Errorf("%q is missing", rel)
			return nil
		}
		checkEntry(t, s, path, e)
		return nil
	}))
	if seen != len(tree) {
		t.Errorf("%d entries are stored, %d on disk", len(tree), seen)
	}
}

func checkEntry(t *testing.T, s *store, path string, e manifest.Entry) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	want := statusOf(&st)
	if e.Kind != want.kind() || e.Mode != want.Mode&0o7777 || e.UID != want.UID || e.GID != want.GID || e.MTime != want.MTime {
		t.Errorf("%q is stored as %v %o %d:%d %v, on disk %v %o %d:%d %v", path,
			e.Kind, e.Mode, e.UID, e.GID, e.MTime, want.kind(), want.Mode, want.UID, want.GID, want.MTime)
	}
	switch e.Kind {
	case manifest.File:
		onDisk, err := os.ReadFile(path)
		must(t, err)
		stored, err := s.content(e)
		must(t, err)
		if !bytes.Equal(stored, onDisk) || e.Size != uint64(len(onDisk)) {
			t.Errorf("%q has other content", path)
		}
	case manifest.Symlink:
		target, err := os.Readlink(path)
		must(t, err)
		if e.Target != target {
			t.Errorf("%q points to %q, want %q", path, e.Target, target)
		}
	}
}

// makeTree makes a tree with everything that needs no privileges.
func makeTree(t testing.TB, dir string) {
	t.Helper()
	noise := rand.New(rand.NewPCG(3, 4))
	for i := range 40 {
		b := make([]byte, noise.IntN(3000))
		for k := range b {
			b[k] = byte(noise.Uint32())
		}
		write(t, filepath.Join(dir, fmt.Sprintf("d%d/e%d/f%d", i%5, i%3, i)), string(b))
	}
	big := make([]byte, 12<<20)
	for i := range big[:9<<20] {
		big[i] = byte(noise.Uint32())
	}
	write(t, filepath.Join(dir, "big"), string(big))
	write(t, filepath.Join(dir, "middle"), string(big[:700<<10]))
	write(t, filepath.Join(dir, "empty"), "")
	must(t, os.Chmod(filepath.Join(dir, "middle"), 0o4751|os.ModeSetuid))
	must(t, os.Mkdir(filepath.Join(dir, "nothing in it"), 0o700))
	must(t, os.Symlink("/no/such/place", filepath.Join(dir, "dangling")))
	must(t, os.Symlink("../../..", filepath.Join(dir, "d1", "up")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o640))
	must(t, unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0))
	must(t, os.Chtimes(filepath.Join(dir, "d1"), time.Time{}, time.Unix(-5, 123456789)))
	must(t, os.Chtimes(filepath.Join(dir, "empty"), time.Time{}, time.Unix(1<<33, 1)))
}

func TestWalkStoresEverything(t *testing.T) {
	dir := t.TempDir()
	makeTree(t, dir)
	var roots []blob.ID
	for _, workers := range []int{1, 2, 5} {
		s := newStore()
		result := mustWalk(t, s, dir, func(o *Options) { o.Workers = workers })
		checkAgainstDisk(t, s, dir, result)
		checkEntry(t, s, dir, mustTree(t, s, result)[""])
		roots = append(roots, result.Root)
		want := manifest.Counts{Files: 43, Dirs: 21, Symlinks: 2, Others: 2}
		want.Bytes = result.Counts.Bytes
		if result.Counts != want {
			t.Errorf("counts %+v, want %+v", result.Counts, want)
		}
		if len(result.Omissions) > 0 || result.Partial() || result.Torn() || !result.Links.IsZero() {
			t.Errorf("unexpected result %+v", result)
		}
	}
	if roots[0] != roots[1] || roots[0] != roots[2] {
		t.Errorf("roots differ with the number of workers: %v", roots)
	}
}

func onOverlay(t *testing.T, dir string) bool {
	t.Helper()
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	return st.Type == unix.OVERLAYFS_SUPER_MAGIC
}

func TestDevices(t *testing.T) {
	dir := t.TempDir()
	err := unix.Mknod(filepath.Join(dir, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	if errors.Is(err, unix.EPERM) {
		t.Fatal("device nodes can be made by root only")
	}
	must(t, err)
	want := map[string]manifest.Device{"null": {Major: 1, Minor: 3}, "disk": {Major: 259, Minor: 300}}
	if !onOverlay(t, dir) { // there such a node is how the filesystem itself marks what was deleted
		must(t, unix.Mknod(filepath.Join(dir, "whiteout"), unix.S_IFCHR, int(unix.Mkdev(0, 0))))
		want["whiteout"] = manifest.Device{}
	}
	must(t, unix.Mknod(filepath.Join(dir, "disk"), unix.S_IFBLK|0o600, int(unix.Mkdev(259, 300))))
	s := newStore()
	result := mustWalk(t, s, dir, nil)
	checkAgainstDisk(t, s, dir, result)
	tree := mustTree(t, s, result)
	for name, want := range want {
		if tree[name].Device != want {
			t.Errorf("%s has device %v, want %v", name, tree[name].Device, want)
		}
	}
	if result.Counts.Others != uint64(len(want)) {
		t.Errorf("counts %+v", result.Counts)
	}
}

func TestNamesAreBytes(t *testing.T) {
	dir := t.TempDir()
	names := []string{"\xfe", "\xff", "a\nb", strings.Repeat("x", 255), "\u00e9", "e\u0301", " ", "-rf", "a\\b", "..."}
	for _, name := range names {
		write(t, filepath.Join(dir, name), name)
	}
	s := newStore()
	tree := mustTree(t, s, mustWalk(t, s, dir, nil))
	for _, name := range names {
		content, err := s.content(tree[name])
		if err != nil || string(content) != name {
			t.Errorf("%q holds %q, %v", name, content, err)
		}
	}
	if len(tree) != len(names)+1 {
		t.Errorf("%d entries, want %d", len(tree), len(names)+1)
	}
}

// The same tree on two filesystems, made in another order, has the same root.
func TestRootDoesNotDependOnTheHost(t *testing.T) {
	s := newStore()
	var roots, links []blob.ID
	for i, base := range []string{t.TempDir(), shmDir(t)} {
		dir := filepath.Join(base, "tree")
		files := []string{"a/1", "a/2", "b/c/3", "4", "b/5"}
		if i == 1 {
			slices.Reverse(files)
		}
		for _, name := range files {
			write(t, filepath.Join(dir, name), "content of "+name)
			must(t, os.Link(filepath.Join(dir, name), filepath.Join(dir, name)+".link"))
		}
		sparse, err := os.Create(filepath.Join(dir, "sparse"))
		must(t, err)
		if i == 0 {
			must(t, sparse.Truncate(1<<20))
		} else {
			_, err = sparse.Write(make([]byte, 1<<20))
			must(t, err)
		}
		must(t, sparse.Close())
		for _, name := range []string{"a", "b/c", "b", ""} {
			setTimes(t, filepath.Join(dir, name))
		}
		result := mustWalk(t, s, dir, nil)
		roots, links = append(roots, result.Root), append(links, result.Links)
	}
	if roots[0] != roots[1] || links[0] != links[1] {
		t.Errorf("roots %v, links %v", roots, links)
	}
}

// setTimes gives a directory and the files in it fixed times.
func setTimes(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	when := time.Unix(1_700_000_000, 42)
	for _, e := range entries {
		must(t, os.Chtimes(filepath.Join(dir, e.Name()), when, when))
	}
	must(t, os.Chtimes(dir, when, when))
}

// shmDir is a directory on tmpfs.
func shmDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "workspace-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestHardLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "b/one"), strings.Repeat("x", 100_000))
	must(t, os.MkdirAll(filepath.Join(dir, "a"), 0o755))
	must(t, os.Link(filepath.Join(dir, "b/one"), filepath.Join(dir, "a/two")))
	must(t, os.Link(filepath.Join(dir, "b/one"), filepath.Join(dir, "three")))
	write(t, filepath.Join(dir, "single"), "its other name is outside")
	must(t, os.Link(filepath.Join(dir, "single"), filepath.Join(outside, "single")))
	must(t, os.Symlink("target", filepath.Join(dir, "link")))
	must(t, os.Link(filepath.Join(dir, "link"), filepath.Join(dir, "b/link")))

	s := newStore()
	result := mustWalk(t, s, dir, func(o *Options) { o.Workers = 1 })
	var groups [][]string
	for group, err := range manifest.ReadLinks(context.Background(), s.getNode, result.Links) {
		must(t, err)
		groups = append(groups, group)
	}
	want := [][]string{{"a/two", "b/one", "three"}, {"b/link", "link"}}
	if !slices.EqualFunc(groups, want, slices.Equal) {
		t.Errorf("groups %q, want %q", groups, want)
	}
	if result.BytesRead != 100_000+25 {
		t.Errorf("read %d bytes: content of a further name was read again", result.BytesRead)
	}
	checkAgainstDisk(t, s, dir, result)
}

func TestLongGroupsAreSplit(t *testing.T) {
	var paths []string
	for i := range 1000 {
		paths = append(paths, fmt.Sprintf("%05d%s", i, strings.Repeat("p", 10_000)))
	}
	groups := appendGroups(nil, paths)
	var all []string
	for _, group := range groups {
		all = append(all, group...)
		if size := len(group) * len(group[0]); size > maxGroup || len(group) < 2 {
			t.Errorf("group of %d paths and %d bytes", len(group), size)
		}
	}
	if len(groups) != 3 || !slices.Equal(all, paths) {
		t.Errorf("%d groups of %d paths", len(groups), len(all))
	}
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "open/f"), "f")
	write(t, filepath.Join(dir, "shut/g"), "g")
	write(t, filepath.Join(dir, "secret"), "s")
	must(t, os.Chmod(filepath.Join(dir, "shut"), 0))
	must(t, os.Chmod(filepath.Join(dir, "secret"), 0))
	must(t, os.Chmod(dir, 0o755))
	s := newStore()
	root, err := os.Open(dir) // the way to it may be shut as well
	must(t, err)
	defer root.Close()
	var result Result
	asUser(t, func() { result = mustWalk(t, s, "", func(o *Options) { o.Dir = root }) })
	tree := mustTree(t, s, result)
	if _, ok := tree["secret"]; ok {
		t.Error("a file that cannot be read is stored")
	}
	if e, ok := tree["shut"]; !ok || e.Mode != 0 {
		t.Error("a directory that cannot be read is not kept")
	}
	if _, ok := tree["open/f"]; !ok {
		t.Error("its neighbour is missing")
	}
	want := []manifest.Omission{
		{Path: "secret", Class: manifest.Unreadable, Reason: "permission denied"},
		{Path: "shut", Class: manifest.Unreadable, Reason: "permission denied"},
	}
	if !slices.Equal(result.Omissions, want) || result.Counts.Unreadable != 2 || !result.Partial() {
		t.Errorf("omissions %+v, counts %+v", result.Omissions, result.Counts)
	}
}

func TestMissingRoot(t *testing.T) {
	s := newStore()
	write(t, filepath.Join(t.TempDir(), "file"), "")
	for _, root := range []string{filepath.Join(t.TempDir(), "missing"), os.Args[0]} {
		_, err := Walk(context.Background(), Options{Root: root, NewWriter: s.writer, Chunk: testParams})
		var path *os.PathError
		if !errors.As(err, &path) || path.Path != root {
			t.Errorf("root %q: %v", root, err)
		}
	}
}

func TestRootByDescriptorAndLink(t *testing.T) {
	dir := t.TempDir()
	makeTree(t, dir)
	s := newStore()
	want := mustWalk(t, s, dir, nil)
	f, err := os.Open(dir)
	must(t, err)
	defer f.Close()
	for range 2 { // the offset of the descriptor does not matter
		got := mustWalk(t, s, "", func(o *Options) { o.Dir = f })
		if got.Root != want.Root {
			t.Error("root by descriptor differs")
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	if got := mustWalk(t, s, link, nil); got.Root != want.Root {
		t.Error("root by link differs")
	}
}

func TestErrorsOfTheWriterEndTheWalk(t *testing.T) {
	dir := t.TempDir()
	makeTree(t, dir)
	for limit := 1; limit < 40; limit += 3 {
		s := newStore()
		s.limit = limit
		before := openFDs(t)
		_, err := Walk(context.Background(), Options{Root: dir, NewWriter: s.writer, Chunk: testParams, Workers: 3})
		if !errors.Is(err, errStoreFull) {
			t.Fatalf("limit %d: %v", limit, err)
		}
		if after := openFDs(t); after > before {
			t.Errorf("limit %d: %d descriptors, %d before", limit, after, before)
		}
	}
}

func TestCancel(t *testing.T) {
	dir := t.TempDir()
	makeTree(t, dir)
	for _, at := range []string{"d1/e1/f1", "big", "d4"} {
		ctx, cancel := context.WithCancel(context.Background())
		s := newStore()
		before := openFDs(t)
		_, err := Walk(ctx, Options{Root: dir, NewWriter: s.writer, Chunk: testParams, Workers: 2, hooks: hooks{
			beforeOpen: func(path string) {
				if path == at {
					cancel()
				}
			},
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %s: %v", at, err)
		}
		if after := openFDs(t); after > before {
			t.Errorf("cancelled at %s: %d descriptors, %d before", at, after, before)
		}
		cancel()
	}
}

func TestMountPoints(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "below the root")
	mount := filepath.Join(dir, "mount")
	must(t, os.Mkdir(mount, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "none", mount).CombinedOutput(); err != nil {
		t.Fatalf("mount (needs root): %v: %s", err, out)
	}
	defer unix.Unmount(mount, unix.MNT_DETACH)
	write(t, filepath.Join(mount, "other"), "on another filesystem")

	s := newStore()
	tree := mustTree(t, s, mustWalk(t, s, dir, func(o *Options) { o.Sync = true }))
	if _, ok := tree["mount/other"]; !ok {
		t.Error("another filesystem is left out unasked")
	}
	result := mustWalk(t, s, dir, func(o *Options) { o.OneFileSystem = true })
	tree = mustTree(t, s, result)
	if _, ok := tree["mount"]; !ok || len(tree) != 3 {
		t.Errorf("%d entries, want the mount point as an empty directory", len(tree))
	}
	want := []manifest.Omission{{Path: "mount", Class: manifest.Excluded, Reason: foreignReason}}
	if !slices.Equal(result.Omissions, want) || result.Counts.Excluded != 1 || result.Partial() {
		t.Errorf("omissions %v, counts %+v", result.Omissions, result.Counts)
	}
}
