package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/probe"
)

// keysOf returns the keys of a repository that anybody can open: tests use them to
// place and to read objects by hand.
func keysOf(t *testing.T, store objectstore.Store) commit.Repo {
	t.Helper()
	header, err := config.ReadHeader(read(t, store, config.Object))
	if err != nil {
		t.Fatal(err)
	}
	material, _, err := keyring.Unlock(t.Context(), store, header.Repository, insecure)
	if err != nil {
		t.Fatal(err)
	}
	return commit.Repo{
		Store: store, Namer: blob.NewNamer(material.ID),
		Sealer: seal.New(seal.Key{Secret: material.Data, Family: header.Family}, seal.Default),
	}
}

func read(t *testing.T, store objectstore.Store, key string) []byte {
	t.Helper()
	object, err := objectstore.ReadAll(t.Context(), store, key, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func put(t *testing.T, store objectstore.Store, key string, object []byte) {
	t.Helper()
	if _, err := store.Put(t.Context(), key, bytes.NewReader(object), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, store objectstore.Store, key string) {
	t.Helper()
	if err := store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// placeList puts what a collector would: a list of packs under gc/.
func placeList(t *testing.T, repo commit.Repo, generation int, kind string, packs ...packfile.Name) {
	t.Helper()
	unit := seal.Condemned
	if kind == "final" {
		unit = seal.Final
	}
	place(t, repo, fmt.Sprintf("gc/%010d/%s", generation, kind), unit, commit.EncodeNames(packs))
}

// place puts an object of the protocol, sealed for its key.
func place(t *testing.T, repo commit.Repo, key string, unit seal.Unit, content []byte) {
	t.Helper()
	put(t, repo.Store, key, repo.Sealer.At(key).Seal(nil, unit, content, content))
}

// patient is a repository with one object of each kind, whose healthy state is
// known: two snapshots of a workspace, one file of which changed in between.
type patient struct {
	store     *mem.Store
	keys      commit.Repo
	state     string
	workspace string
	snapshots [2]engine.ID
	trees     [2][]engine.LsEntry // what the snapshots hold
	roots     [2]blob.ID          // without which nothing is restored
	links     [2]blob.ID          // without which hard links become files
	content   [2][]string         // the restored trees, described
	objects   map[string]string   // keys by kind
}

// smallPacks opens a repository again, as one whose packs have the least size that
// is allowed: what happens to packs can then be seen in little data.
func smallPacks(t *testing.T, r *testRepo, keys commit.Repo) *testRepo {
	t.Helper()
	cfg, err := config.Open(read(t, r.store, config.Object), keys.Sealer)
	if err != nil {
		t.Fatal(err)
	}
	cfg.PackSize, cfg.FrameSize = 1<<20, 256<<10
	object, err := cfg.Encode(keys.Sealer)
	if err != nil {
		t.Fatal(err)
	}
	put(t, r.store, config.Object, object)
	return r.reopen(r.store)
}

func newPatient(t *testing.T) *patient {
	p := &patient{store: mem.New(), workspace: filepath.Join(t.TempDir(), "workspace"), objects: map[string]string{}}
	random := rand.NewChaCha8([32]byte{1})
	files := map[string]string{}
	for i := range 90 { // 720 KiB: too much for a mixed pack
		content := make([]byte, 8<<10)
		random.Read(content)
		files[fmt.Sprintf("d%d/f%02d", i%9, i)] = string(content)
	}
	files["d3/small"], files["top"] = "small", "top"
	write(t, p.workspace, files)
	if err := os.Link(filepath.Join(p.workspace, "top"), filepath.Join(p.workspace, "d1/hard")); err != nil {
		t.Fatal(err)
	}
	r := initRepo(t, p.store)
	p.state = r.state
	p.keys = keysOf(t, p.store)
	r = smallPacks(t, r, p.keys)
	defer r.close()
	p.take(t, r, 0, map[string]string{"data": blob.Data.String(), "tree": blob.Tree.String()})
	p.objects["segment"] = objects(t, p.store, "index/")[0]
	write(t, p.workspace, map[string]string{"d3/small": "changed"})
	p.take(t, r, 1, map[string]string{"mixed": ""})
	if _, err := r.Label(t.Context(), p.snapshots[0], map[string]string{"k": "v"}, nil); err != nil {
		t.Fatal(err)
	}
	p.objects["config"], p.objects["key"] = config.Object, objects(t, p.store, "keys/")[0]
	p.objects["label"] = objects(t, p.store, "labels/")[0]
	p.objects["snapshot"] = objects(t, p.store, "snapshots/"+p.snapshots[1].String())[0]
	p.objects["pending"] = "pending/" + string(commit.NewSession())
	_, record, err := commit.Find(t.Context(), p.keys, p.snapshots[0])
	if err != nil {
		t.Fatal(err)
	}
	place(t, p.keys, p.objects["pending"], seal.Pending, record.Encode())
	p.placeRecords(t, r)
	placeList(t, p.keys, 1, "condemned", packfile.Name{1}, packfile.Name{2})
	placeList(t, p.keys, 1, "final", packfile.Name{1})
	placeList(t, p.keys, 2, "condemned", packfile.Name{3})
	p.objects["final"], p.objects["condemned"] = "gc/0000000001/final", "gc/0000000002/condemned"
	return p
}

// placeRecords makes an object of each of the kinds that do not hold snapshots, and a
// snapshot of another workspace that was forgotten.
func (p *patient) placeRecords(t *testing.T, r *testRepo) {
	t.Helper()
	gone := r.snapshot(smallWorkspace(t)).Snapshot
	ref, _, err := commit.Find(t.Context(), p.keys, gone)
	if err != nil {
		t.Fatal(err)
	}
	if err := commit.Forget(t.Context(), p.keys, ref); err != nil {
		t.Fatal(err)
	}
	p.objects["tombstone"], p.objects["forgotten"] = ref.Key(), objects(t, p.store, "forgotten/")[0]
	if err := r.SetRemote(t.Context(), engine.Remote{Name: "origin", Place: "/elsewhere"}); err != nil {
		t.Fatal(err)
	}
	p.objects["remote"] = "remotes/origin"
	report, err := json.Marshal(probe.Report{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, p.store, "guarantees", p.keys.Sealer.Seal(nil, seal.Probe, report, report))
	p.objects["guarantees"] = "guarantees"
	r.clean() // reads all packs
	p.objects["verified"] = "verified"
}

// take takes a snapshot and notes which new packs are of which kind.
func (p *patient) take(t *testing.T, r *testRepo, n int, kinds map[string]string) {
	t.Helper()
	before := objects(t, p.store, "packs/")
	p.snapshots[n] = r.snapshot(p.workspace).Snapshot
	for e, err := range r.Ls(t.Context(), p.snapshots[n], "", engine.Recursive) {
		if err != nil {
			t.Fatal(err)
		}
		p.trees[n] = append(p.trees[n], e)
	}
	info, err := r.Show(t.Context(), p.snapshots[n])
	if err != nil {
		t.Fatal(err)
	}
	p.roots[n], p.links[n] = info.Manifest.Root, info.Manifest.Links
	p.content[n] = describe(t, p.workspace)
	for _, key := range objects(t, p.store, "packs/") {
		if slices.Contains(before, key) {
			continue
		}
		held := ""
		for _, f := range p.footer(t, key).Frames {
			if held == "" {
				held = f.Kind.String()
			} else if held != f.Kind.String() {
				held = "mixed"
			}
		}
		for kind, want := range kinds {
			if want == held || want == "" {
				p.objects[kind] = key
			}
		}
	}
	for kind := range kinds {
		if p.objects[kind] == "" {
			t.Fatalf("snapshot %d made no %s pack", n, kind)
		}
	}
}

func (p *patient) footer(t *testing.T, key string) packfile.Pack {
	t.Helper()
	object := read(t, p.store, key)
	name, err := packfile.ParseName(strings.TrimPrefix(key, "packs/"))
	if err != nil {
		t.Fatal(err)
	}
	pack, err := packfile.ReadFooter(p.keys.Sealer, name, int64(len(object)), func(offset, length int64) ([]byte, error) {
		return bytes.Clone(object[offset : offset+length]), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pack
}

// damage is one way to damage an object. What it returns replaces the object, nil
// deletes it.
type damage struct {
	name string
	do   func(object []byte) []byte
}

func flip(name string, at func(size int) int) damage {
	return damage{"flip " + name, func(object []byte) []byte {
		object = bytes.Clone(object)
		object[at(len(object))] ^= 0x10
		return object
	}}
}

var damages = []damage{
	flip("header", func(int) int { return 20 }),
	flip("first frame", func(size int) int { return min(100, size-1) }),
	flip("footer", func(size int) int { return size - 40 }),
	flip("trailer", func(size int) int { return size - 2 }),
	{"halve", func(object []byte) []byte { return object[:len(object)/2] }},
	flip("middle", func(size int) int { return size / 2 }),
	{"cut", func(object []byte) []byte { return object[:len(object)-1] }},
	{"empty", func([]byte) []byte { return []byte{} }},
	{"delete", func([]byte) []byte { return nil }},
}

// fewDamages are enough for objects that are one sealed unit.
var fewDamages = damages[len(damages)-4:]

var flipMiddle = fewDamages[0]

// lost returns the blobs of a pack that cannot be read any more: those of frames
// whose bytes are not what they were.
func (p *patient) lost(t *testing.T, key string, damaged []byte) map[blob.ID]bool {
	healthy, lost := read(t, p.store, key), map[blob.ID]bool{}
	for _, f := range p.footer(t, key).Frames {
		end := int(f.Offset + f.Length)
		if end <= len(damaged) && bytes.Equal(healthy[f.Offset:end], damaged[f.Offset:end]) {
			continue
		}
		for _, b := range f.Blobs {
			lost[b.ID] = true
		}
	}
	return lost
}

// affected returns the paths of a snapshot that lost blobs make unrestorable, the
// highest ones only.
func (p *patient) affected(n int, lost map[blob.ID]bool) []string {
	paths := []string{}
	if lost[p.roots[n]] || lost[p.links[n]] {
		paths = append(paths, "")
	}
	if lost[p.roots[n]] || lost[p.trees[n][0].Node] {
		return []string{""}
	}
	for _, e := range p.trees[n] {
		hit := e.Kind == manifest.Dir && lost[e.Node] ||
			slices.ContainsFunc(e.Content.Extents, func(x manifest.Extent) bool { return lost[x.ID] })
		below := slices.ContainsFunc(paths, func(dir string) bool { return strings.HasPrefix(e.Path, dir+"/") })
		if hit && !below {
			paths = append(paths, e.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

// operate damages an object in a copy of the repository. It returns what is left
// of the object.
func (p *patient) operate(t *testing.T, kind string, d damage) (*mem.Store, []byte) {
	t.Helper()
	store, key := p.store.Clone(), p.objects[kind]
	damaged := d.do(read(t, store, key))
	if damaged == nil {
		remove(t, store, key)
	} else {
		put(t, store, key, damaged)
	}
	return store, damaged
}

// copyState returns a copy of the local state of the machine that took the
// snapshots, whose caches believe that all is stored.
func (p *patient) copyState(t *testing.T) string {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(state, os.DirFS(p.state)); err != nil {
		t.Fatal(err)
	}
	return state
}

// each runs a test for every kind of object and every damage.
func each(t *testing.T, kinds []string, damages []damage, test func(t *testing.T, kind string, d damage)) {
	for _, kind := range kinds {
		for _, d := range damages {
			t.Run(kind+"/"+d.name, func(t *testing.T) { test(t, kind, d) })
		}
	}
}
