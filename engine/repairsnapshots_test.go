package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// casualty is a repository with one snapshot, of which a test takes single blobs.
type casualty struct {
	keys     commit.Repo
	pieces   map[blob.ID]piece
	snapshot engine.ID
	manifest *manifest.Manifest
	content  []string // the workspace, described
	entries  map[string]engine.LsEntry
}

func newCasualty(t *testing.T) *casualty {
	dir := filepath.Join(t.TempDir(), "workspace")
	files := map[string]string{"top": "top", "d/one": "one", "d/two": "two", "e/f/three": "three", "d/linked": "linked"}
	for i := range 3000 { // a directory that is split
		files[fmt.Sprintf("many/%04d", i)] = ""
	}
	var scattered strings.Builder // more extents than an entry holds
	for i := range 40 {
		scattered.WriteString(strings.Repeat("\x00", 64<<10) + strings.Repeat(string(rune(0x41+i)), 64<<10))
	}
	files["scattered"] = scattered.String()
	write(t, dir, files)
	for _, err := range []error{
		os.Link(filepath.Join(dir, "d/linked"), filepath.Join(dir, "e/linked")),
		os.Link(filepath.Join(dir, "d/linked"), filepath.Join(dir, "many/2500-linked")),
		os.Link(filepath.Join(dir, "top"), filepath.Join(dir, "e/f/top")),
		unix.Setxattr(filepath.Join(dir, "d/two"), "user.long", []byte(strings.Repeat("long ", 200)), 0),
		unix.Setxattr(filepath.Join(dir, "d/two"), "user.short", []byte("short"), 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := newRepo(t)
	saved, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: dir, Labels: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Label(t.Context(), saved.Snapshot, map[string]string{"later": "yes"}, nil); err != nil {
		t.Fatal(err)
	}
	c := &casualty{keys: keysOf(t, r.store), snapshot: saved.Snapshot, content: describe(t, dir), entries: map[string]engine.LsEntry{}}
	c.pieces = dissect(t, c.keys)
	info, err := r.Show(t.Context(), saved.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	c.manifest = info.Manifest
	for e, err := range r.Ls(t.Context(), saved.Snapshot, "", engine.Recursive) {
		if err != nil {
			t.Fatal(err)
		}
		c.entries[e.Path] = e
	}
	return c
}

// leaves returns the nodes below the index node of a split list.
func (c *casualty) leaves(t *testing.T, index blob.ID) []blob.ID {
	t.Helper()
	trees, _, err := manifest.References(c.pieces[index].content)
	if err != nil || len(trees) < 3 {
		t.Fatalf("%d nodes, %v", len(trees), err)
	}
	return trees
}

// names returns the names of the entries in a node of a directory.
func (c *casualty) names(t *testing.T, dir string, node blob.ID) (paths []string) {
	t.Helper()
	get := func(_ context.Context, id blob.ID) ([]byte, error) { return c.pieces[id].content, nil }
	for e, err := range manifest.ReadDir(t.Context(), get, node) {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, dir+"/"+e.Name)
	}
	return paths
}

// injury is a loss, and what it should cost.
type injury struct {
	name     string
	lost     func(t *testing.T, c *casualty) []blob.ID
	dropped  []manifest.Omission // paths and classes; the reasons are matched
	gone     func(t *testing.T, c *casualty) []string
	unlinked []string // paths that were hard links and are files of their own now
	hopeless bool
}

func paths(list ...string) func(*testing.T, *casualty) []string {
	return func(*testing.T, *casualty) []string { return list }
}

func omitted(path string, class manifest.OmissionClass, reason string) manifest.Omission {
	return manifest.Omission{Path: path, Class: class, Reason: reason}
}

var injuries = []injury{
	{
		name:    "content",
		lost:    func(_ *testing.T, c *casualty) []blob.ID { return []blob.ID{c.entries["d/one"].Content.Extents[0].ID} },
		dropped: []manifest.Omission{omitted("d/one", manifest.Unreadable, "lost: data blob .* is missing")},
		gone:    paths("d/one"),
	},
	{
		name:    "directory",
		lost:    func(_ *testing.T, c *casualty) []blob.ID { return []blob.ID{c.entries["e"].Node} },
		dropped: []manifest.Omission{omitted("e", manifest.Unreadable, "lost: tree blob .* is missing")},
		gone:    paths("e"), unlinked: []string{"top"},
	},
	{
		name:    "part of a directory",
		lost:    func(t *testing.T, c *casualty) []blob.ID { return c.leaves(t, c.entries["many"].Node)[1:2] },
		dropped: []manifest.Omission{omitted("many", manifest.Unreadable, `a part of the directory, behind "....", is lost: .*`)},
		gone: func(t *testing.T, c *casualty) []string {
			return c.names(t, "many", c.leaves(t, c.entries["many"].Node)[1])
		},
	},
	{
		name: "ends of a directory",
		lost: func(t *testing.T, c *casualty) []blob.ID {
			leaves := c.leaves(t, c.entries["many"].Node)
			return []blob.ID{leaves[0], leaves[len(leaves)-1]}
		},
		dropped: []manifest.Omission{
			omitted("many", manifest.Unreadable, `a part of the directory, behind "", is lost: .*`),
			omitted("many", manifest.Unreadable, `a part of the directory, behind "....", is lost: .*`),
		},
		gone: func(t *testing.T, c *casualty) []string {
			leaves := c.leaves(t, c.entries["many"].Node)
			return append(c.names(t, "many", leaves[0]), c.names(t, "many", leaves[len(leaves)-1])...)
		},
	},
	{
		name:    "index of a directory",
		lost:    func(_ *testing.T, c *casualty) []blob.ID { return []blob.ID{c.entries["many"].Node} },
		dropped: []manifest.Omission{omitted("many", manifest.Unreadable, "lost: .*")},
		gone:    paths("many"),
	},
	{
		name:    "content list",
		lost:    func(_ *testing.T, c *casualty) []blob.ID { return []blob.ID{c.entries["scattered"].Content.List} },
		dropped: []manifest.Omission{omitted("scattered", manifest.Unreadable, "lost: .*")},
		gone:    paths("scattered"),
	},
	{
		name:    "attribute",
		lost:    func(_ *testing.T, c *casualty) []blob.ID { return []blob.ID{c.entries["d/two"].Xattrs[0].Blob} },
		dropped: []manifest.Omission{omitted("d/two", manifest.Unsupported, "attribute user.long is lost: .*")},
		gone:    paths(),
	},
	{
		name:    "hard links",
		lost:    func(_ *testing.T, c *casualty) []blob.ID { return []blob.ID{c.manifest.Links} },
		dropped: []manifest.Omission{omitted("", manifest.Unsupported, "hard links became files of their own: .* lost: .*")},
		gone:    paths(), unlinked: []string{"top", "e/f/top", "d/linked", "e/linked", "many/2500-linked"},
	},
	{
		name: "several",
		lost: func(_ *testing.T, c *casualty) []blob.ID {
			return []blob.ID{c.entries["d/linked"].Content.Extents[0].ID, c.entries["e/f"].Node, c.entries["d/two"].Content.Extents[0].ID}
		},
		dropped: []manifest.Omission{
			omitted("d/linked", manifest.Unreadable, "lost: .*"), omitted("d/two", manifest.Unreadable, "lost: .*"), omitted("e/f", manifest.Unreadable, "lost: .*"),
			omitted("e/linked", manifest.Unreadable, "lost: .*"), omitted("many/2500-linked", manifest.Unreadable, "lost: .*"),
		},
		gone: paths("d/linked", "d/two", "e/f", "e/linked", "many/2500-linked"), unlinked: []string{"top"},
	},
	{
		name: "root", hopeless: true,
		lost: func(_ *testing.T, c *casualty) []blob.ID { return []blob.ID{c.manifest.Root} },
	},
	{
		name: "directory of the root", hopeless: true,
		lost: func(_ *testing.T, c *casualty) []blob.ID { return []blob.ID{c.entries[""].Node} },
	},
}

// operate returns the repository without the lost blobs.
func (c *casualty) operate(t *testing.T, lost []blob.ID) *mem.Store {
	t.Helper()
	_, left := part(c.pieces, lost)
	if len(left) != len(c.pieces)-len(lost) {
		t.Fatalf("%d of %d blobs are left without %d", len(left), len(c.pieces), len(lost))
	}
	return withPacks(t, c.keys, left)
}

func (r *testRepo) planSnapshots(opts engine.RepairSnapshotsOptions) *engine.RepairSnapshotsPlan {
	r.t.Helper()
	plan, err := r.PlanRepairSnapshots(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	return plan
}

// A damaged snapshot gets a successor that has everything but what is named.
func TestRepairOfSnapshots(t *testing.T) {
	c := newCasualty(t)
	for _, hurt := range injuries {
		t.Run(hurt.name, func(t *testing.T) {
			store := c.operate(t, hurt.lost(t, c))
			r := (&testRepo{t: t, store: store, state: t.TempDir()}).open(store)
			before := objects(t, store, "")
			plan := r.planSnapshots(engine.RepairSnapshotsOptions{})
			if after := objects(t, store, ""); !slices.Equal(before, after) {
				t.Errorf("a plan changed the repository: %v, then %v", before, after)
			}
			if len(plan.Snapshots) != 1 || plan.Snapshots[0].ID != c.snapshot || plan.Empty() != hurt.hopeless {
				t.Fatalf("plan %+v", plan.Snapshots)
			}
			c.sameDropped(t, hurt, plan.Snapshots[0].Dropped)
			result, err := r.RepairSnapshots(t.Context(), plan)
			if hurt.hopeless {
				if !errors.Is(err, engine.ErrDamaged) || plan.Snapshots[0].Hopeless == nil || !result.Snapshots[0].Successor.IsZero() {
					t.Errorf("repair: %v, %+v", err, plan.Snapshots)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.sameDropped(t, hurt, result.Snapshots[0].Dropped)
			c.examine(t, r, hurt, result.Snapshots[0].Successor)
			again := r.planSnapshots(engine.RepairSnapshotsOptions{})
			if !again.Empty() || again.Snapshots[0].Successor != result.Snapshots[0].Successor {
				t.Errorf("a second repair has something to do: %+v", again.Snapshots)
			}
		})
	}
}

func (c *casualty) sameDropped(t *testing.T, hurt injury, dropped []manifest.Omission) {
	t.Helper()
	if len(dropped) != len(hurt.dropped) {
		t.Fatalf("dropped %+v, want %+v", dropped, hurt.dropped)
	}
	for i, want := range hurt.dropped {
		got := dropped[i]
		if got.Path != want.Path || got.Class != want.Class || !regexp.MustCompile(`\A`+want.Reason+`\z`).MatchString(got.Reason) {
			t.Errorf("dropped %+v, want %+v", got, want)
		}
	}
}

// examine compares the successor with what it should be.
func (c *casualty) examine(t *testing.T, r *testRepo, hurt injury, id engine.ID) {
	t.Helper()
	info, err := r.Show(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	m := info.Manifest
	if m.Parent != c.snapshot || info.Labels[engine.RepairedFrom] != c.snapshot.String() || info.Labels["k"] != "v" || info.Labels["later"] != "yes" || m.Source != c.manifest.Source {
		t.Errorf("parent %v, labels %v, source %s", m.Parent, info.Labels, m.Source)
	}
	if !m.Time.Time().After(c.manifest.Time.Time()) || m.Counts.Unreadable != uint64(len(hurt.dropped)) {
		t.Errorf("time %v, %d unreadable", m.Time.Time(), m.Counts.Unreadable)
	}
	c.sameDropped(t, hurt, m.Omissions)
	target := r.elsewhere().restore(id)
	want := c.without(hurt.gone(t, c), hurt.unlinked)
	same(t, want, unlink(describe(t, target), hurt.unlinked))
	if hurt.name == "attribute" {
		names := make([]byte, 1<<10)
		n, err := unix.Listxattr(filepath.Join(target, "d/two"), names)
		if err != nil || string(names[:n]) != "user.short\x00" {
			t.Errorf("attributes %q, %v", names[:n], err)
		}
	}
	if report, err := r.Check(t.Context(), engine.CheckOptions{Snapshots: []engine.ID{id}, ReadData: 1}); err != nil {
		t.Errorf("check of the successor: %v, %+v", err, report)
	}
	// What was restored has the same root again: nothing else was changed.
	if saved := r.snapshot(target); saved.Root != m.Root || saved.Counts.Files != m.Counts.Files || saved.Counts.Dirs != m.Counts.Dirs || saved.Counts.Bytes != m.Counts.Bytes {
		t.Errorf("saved again it has root %v and counts %+v, want %v and %+v", saved.Root, saved.Counts, m.Root, m.Counts)
	}
}

var linkMark = regexp.MustCompile(` = .*$`)

// unlink takes the mark of a hard link from the lines of some paths.
func unlink(lines []string, paths []string) []string {
	lines = slices.Clone(lines)
	for i, line := range lines {
		if slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(line, fmt.Sprintf("%q ", path)) }) {
			lines[i] = linkMark.ReplaceAllString(line, "")
		}
	}
	return lines
}

// without is the description of the workspace without some paths.
func (c *casualty) without(gone, unlinked []string) []string {
	lines := unlink(c.content, unlinked)
	return slices.DeleteFunc(lines, func(line string) bool {
		return slices.ContainsFunc(gone, func(path string) bool {
			return strings.HasPrefix(line, fmt.Sprintf("%q ", path)) || strings.HasPrefix(line, strings.TrimSuffix(fmt.Sprintf("%q", path+"/"), `"`))
		})
	})
}
