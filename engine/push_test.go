package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// sibling makes a repository of the same family in a store.
func (r *testRepo) sibling(store objectstore.Store) *testRepo {
	r.t.Helper()
	s := &testRepo{t: r.t, store: store, state: r.t.TempDir()}
	repo, err := engine.Init(r.t.Context(), store, engine.InitOptions{
		OpenOptions: s.options(), Holders: []keyring.Holder{keyring.NewPlain()}, Like: r.Repository,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	s.Repository = repo
	r.t.Cleanup(s.close)
	return s
}

func (r *testRepo) push(to *testRepo, ids ...engine.ID) *engine.PushResult {
	r.t.Helper()
	result, err := r.Push(r.t.Context(), to.Repository, ids...)
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

func TestPushedSnapshotIsTheSame(t *testing.T) {
	here := newRepo(t)
	there := here.sibling(mem.New())
	dir := workspace(t)
	first := here.snapshot(dir)
	write(t, dir, map[string]string{"a/b/c/deep": "changed"})
	second := here.snapshot(dir)

	planned, err := here.PlanPush(t.Context(), there.Repository, first.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	pushed := here.push(there, first.Snapshot)
	if planned.Blobs != pushed.Blobs || planned.Bytes != pushed.Bytes || pushed.Blobs != first.NewBlobs || pushed.Bytes != first.NewBytes {
		t.Errorf("planned %d blobs of %d bytes, pushed %d of %d, the snapshot stored %d of %d",
			planned.Blobs, planned.Bytes, pushed.Blobs, pushed.Bytes, first.NewBlobs, first.NewBytes)
	}
	delta := here.push(there, second.Snapshot, first.Snapshot)
	if !delta.Snapshots[0].Present || delta.Snapshots[0].ID != first.Snapshot || delta.Blobs != second.NewBlobs {
		t.Errorf("second push: %+v, the snapshot stored %d blobs", delta, second.NewBlobs)
	}
	if again := here.push(there, second.Snapshot); again.Blobs != 0 || !again.Snapshots[0].Present {
		t.Errorf("third push: %+v", again)
	}

	there.clean()
	elsewhere := there.elsewhere()
	same(t, describe(t, dir), describe(t, elsewhere.restore(second.Snapshot)))
	same(t, describe(t, here.restore(first.Snapshot)), describe(t, elsewhere.restore(first.Snapshot)))
	if retaken := there.snapshot(dir); retaken.Root != second.Root || retaken.NewBlobs != 0 {
		t.Errorf("a snapshot of the same workspace there: root %v, %d new blobs", retaken.Root, retaken.NewBlobs)
	}
}

// Frames that are missing as a whole are not compressed again: the packs of a
// first push are as long as those of the snapshot, tree nodes apart.
func TestPushCopiesFrames(t *testing.T) {
	here := newRepo(t)
	there := here.sibling(mem.New())
	saved := here.snapshot(workspace(t))
	pushed := here.push(there, saved.Snapshot)
	if stored := pushed.StoredBytes; stored < saved.StoredBytes*9/10 || stored > saved.StoredBytes*11/10 {
		t.Errorf("pushed %d bytes, stored %d", stored, saved.StoredBytes)
	}
}

func TestPullBringsBack(t *testing.T) {
	there := newRepo(t)
	here := there.sibling(mem.New())
	dir := workspace(t)
	saved := there.snapshot(dir)
	result, err := here.Pull(t.Context(), there.Repository, saved.Snapshot)
	if err != nil || result.Blobs != saved.NewBlobs {
		t.Fatalf("pulled %+v, %v", result, err)
	}
	here.clean()
	same(t, describe(t, dir), describe(t, here.elsewhere().restore(saved.Snapshot)))
}

func TestPushTakesLabelsAlong(t *testing.T) {
	here := newRepo(t)
	there := here.sibling(mem.New())
	saved, err := here.Snapshot(t.Context(), engine.SnapshotOptions{Path: smallWorkspace(t), Labels: map[string]string{"a": "1", "b": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := here.Label(t.Context(), saved.Snapshot, map[string]string{"a": "2", "c": "3"}, []string{"b"})
	if err != nil {
		t.Fatal(err)
	}
	here.push(there, saved.Snapshot)
	info, err := there.Show(t.Context(), saved.Snapshot)
	if err != nil || !maps.Equal(info.Labels, want) {
		t.Errorf("labels there %v, %v; want %v", info.Labels, err, want)
	}
}

func TestPushNeedsAFamily(t *testing.T) {
	here, stranger := newRepo(t), newRepo(t)
	saved := here.snapshot(smallWorkspace(t))
	if _, err := here.Push(t.Context(), stranger.Repository, saved.Snapshot); !errors.Is(err, engine.ErrNotFamily) {
		t.Errorf("pushed to a stranger: %v", err)
	}
	if packs := objects(t, stranger.store, "packs/"); len(packs) > 0 {
		t.Errorf("the stranger got %v", packs)
	}
}

// A snapshot that was forgotten in the target can be pushed again: its tombstone
// belongs to another attempt.
func TestPushAfterForget(t *testing.T) {
	here := newRepo(t)
	there := here.sibling(mem.New())
	dir := smallWorkspace(t)
	saved := here.snapshot(dir)
	here.push(there, saved.Snapshot)
	s := &stage{t: t, m: &meddler{Store: there.store}, keys: keysOf(t, there.store)}
	for _, key := range objects(t, there.store, "snapshots/") {
		s.tombstone(key)
	}
	if pushed := here.push(there, saved.Snapshot); pushed.Snapshots[0].Present {
		t.Errorf("a forgotten snapshot counts as present: %+v", pushed)
	}
	same(t, describe(t, dir), describe(t, there.elsewhere().restore(saved.Snapshot)))
}

// TestPushResumes fails each request to the target in turn: the next push must
// succeed, and not send again a pack that was acknowledged.
func TestPushResumes(t *testing.T) {
	here := newRepo(t)
	dir := workspace(t) // its data fills no pack; tree and data make two
	saved := here.snapshot(dir)
	whole := here.sibling(mem.New())
	here.push(whole, saved.Snapshot)
	complete := whole.packKeys()
	for n := 3; ; n += sweepStep { // the first two requests open the repository
		under := mem.New()
		there := here.sibling(under)
		there = there.reopen(fault.New(under, fault.FailNth(n, fault.ErrInjected)))
		_, err := here.Push(t.Context(), there.Repository, saved.Snapshot)
		arrived := objects(t, under, "packs/")
		there = there.reopen(under)
		here.push(there, saved.Snapshot)
		if got := objects(t, under, "packs/"); len(arrived) == len(complete) && len(got) != len(complete) {
			t.Errorf("request %d failed: packs %v had arrived, then there were %v", n, arrived, got)
		}
		there.clean()
		same(t, describe(t, dir), describe(t, there.elsewhere().restore(saved.Snapshot)))
		if err == nil {
			break
		}
	}
}

func (r *testRepo) packKeys() []string { return objects(r.t, r.store, "packs/") }

// What a collection in the target condemns while a push is under way is sent
// again.
func TestPushBesideACollection(t *testing.T) {
	for name, list := range map[string]string{"condemned": "condemned", "finalised": "final"} {
		t.Run(name, func(t *testing.T) {
			here := newRepo(t)
			m := &meddler{Store: mem.New()}
			there := here.sibling(m)
			dir := smallWorkspace(t)
			first := here.snapshot(dir)
			here.push(there, first.Snapshot)
			write(t, dir, map[string]string{"b/second": "second"})
			second := here.snapshot(dir)

			s := &stage{t: t, dir: dir, m: m, keys: keysOf(t, m.Store), testRepo: there}
			packs := s.packs()
			m.after = once("pending/", func(string) {
				s.condemn(1, packs...)
				if list == "final" {
					s.finalise(1, packs...)
					s.collect(packs...)
				}
			})
			here.push(there, second.Snapshot)
			s.prove(second.Snapshot)
		})
	}
}

// A snapshot of which something is lost is named; the others are pushed.
func TestPushOfADamagedSnapshot(t *testing.T) {
	here := newRepo(t)
	there := here.sibling(mem.New())
	dir := smallWorkspace(t)
	before := here.packKeys()
	bad := here.snapshot(dir)
	after := here.packKeys()
	if len(after) <= len(before) {
		t.Fatal("no pack was stored")
	}
	write(t, dir, map[string]string{"alone": strings.Repeat("alone ", 1000)})
	worse := here.snapshot(dir)
	for _, key := range here.packKeys() {
		if !slices.Contains(after, key) {
			remove(t, here.store, key)
		}
	}
	here = here.elsewhere()
	result, err := here.Push(t.Context(), there.Repository, bad.Snapshot, worse.Snapshot)
	if !errors.Is(err, engine.ErrPartial) || len(result.Snapshots) != 2 || result.Snapshots[0].Err != nil || result.Snapshots[1].Err == nil {
		t.Fatalf("push: %+v, %v", result, err)
	}
	there.clean()
	there.restore(bad.Snapshot)
	if _, err := there.Show(t.Context(), worse.Snapshot); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("the damaged snapshot was published: %v", err)
	}
}

// A snapshot whose object is damaged does not keep the others from leaving.
func TestPushBesideADamagedManifest(t *testing.T) {
	here := newRepo(t)
	there := here.sibling(mem.New())
	dir := smallWorkspace(t)
	good := here.snapshot(dir)
	write(t, dir, map[string]string{"z": "z"})
	bad := here.snapshot(dir)
	for _, key := range objects(t, here.store, "snapshots/"+bad.Snapshot.String()) {
		put(t, here.store, key, []byte(strings.Repeat("x", 300)))
	}
	for name, run := range map[string]func(context.Context, *engine.Repository, ...engine.ID) (*engine.PushResult, error){"plan": here.PlanPush, "push": here.Push} {
		result, err := run(t.Context(), there.Repository, good.Snapshot, bad.Snapshot)
		if result == nil || len(result.Snapshots) != 2 || result.Snapshots[0].ID != bad.Snapshot || result.Snapshots[0].Err == nil || result.Snapshots[1].Err != nil {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
	there.clean()
	there.restore(good.Snapshot)
}

// A push that is interrupted before the labels gives them the next time.
func TestPushGivesLabelsLater(t *testing.T) {
	here := newRepo(t)
	under := mem.New()
	there := here.sibling(under)
	there = there.reopen(fault.New(under, fault.On(fault.Put, "labels/", fault.Fail(fault.ErrInjected))))
	saved := here.snapshot(smallWorkspace(t))
	want, err := here.Label(t.Context(), saved.Snapshot, map[string]string{"pin": "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.Push(t.Context(), there.Repository, saved.Snapshot); !errors.Is(err, fault.ErrInjected) {
		t.Fatalf("push: %v", err)
	}
	there = there.reopen(under)
	here.push(there, saved.Snapshot)
	info, err := there.Show(t.Context(), saved.Snapshot)
	if err != nil || !maps.Equal(info.Labels, want) {
		t.Errorf("labels there %v, %v; want %v", info.Labels, err, want)
	}
	// What was labelled in the target since is left alone.
	want, err = there.Label(t.Context(), saved.Snapshot, map[string]string{"pin": "2"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	here.push(there, saved.Snapshot)
	if info, err := there.Show(t.Context(), saved.Snapshot); err != nil || !maps.Equal(info.Labels, want) {
		t.Errorf("labels there %v, %v; want %v", info.Labels, err, want)
	}
}

// getHook runs a function at the first read of a pack.
type getHook struct {
	objectstore.Store
	once sync.Once
	f    func()
}

func (h *getHook) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	if strings.HasPrefix(key, "packs/") {
		h.once.Do(h.f)
	}
	return h.Store.Get(ctx, key, r)
}

// The source is collected while the push runs: what it holds has moved.
func TestPushFromACollectedSource(t *testing.T) {
	s := newStage(t)
	there := s.sibling(mem.New())
	hook := &getHook{Store: s.m.Store, f: func() {}}
	s.store = s.m.Store
	from := (&testRepo{t: t, store: hook, state: t.TempDir()}).open(hook)
	hook.f = func() {
		old := s.packs()
		s.condemn(1, old...)
		s.elsewhere().snapshot(s.dir) // everything anew, in other packs
		s.finalise(1, old...)
		s.collect(old...)
	}
	from.push(there, s.base)
	there.clean()
}

// A frame that is sealed well, but whose content is not what its ids say, as bad
// memory makes them, is not taken over: the target could never store the right
// content under those ids.
func TestWrongContentDoesNotTravel(t *testing.T) {
	s := newStage(t)
	s.store = s.m.Store
	var packs []packfile.Pack
	for _, name := range s.packs() {
		packs = append(packs, s.corrupt(name))
	}
	for _, key := range objects(t, s.m.Store, "index/") {
		remove(t, s.m.Store, key)
	}
	if _, err := index.WriteSegments(t.Context(), s.m.Store, s.keys.Sealer, packs); err != nil {
		t.Fatal(err)
	}
	there := s.sibling(mem.New())
	result, err := s.elsewhere().Push(t.Context(), there.Repository, s.base)
	if !errors.Is(err, engine.ErrPartial) || result.Snapshots[0].Err == nil {
		t.Errorf("push: %+v, %v", result, err)
	}
	there.clean()
	saved := there.snapshot(s.dir)
	same(t, describe(t, s.dir), describe(t, there.elsewhere().restore(saved.Snapshot)))
}

// corrupt replaces a pack by one with the same ids and other data.
func (s *stage) corrupt(name packfile.Name) packfile.Pack {
	s.t.Helper()
	object := read(s.t, s.m.Store, "packs/"+name.String())
	old, err := packfile.ReadFooter(s.keys.Sealer, name, int64(len(object)), func(offset, length int64) ([]byte, error) {
		return slices.Clone(object[offset : offset+length]), nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	pack := packfile.NewBuilder(nil)
	for _, f := range old.Frames {
		content, err := f.Open(nil, s.keys.Sealer, slices.Clone(object[f.Offset:f.Offset+f.Length]))
		if err != nil {
			s.t.Fatal(err)
		}
		if f.Kind == blob.Data {
			content[0] ^= 1
		}
		frame := packfile.NewFrameBuilder(f.Kind)
		for _, b := range f.Blobs {
			frame.Add(b.ID, content[:b.Length])
			content = content[b.Length:]
		}
		pack.Add(frame.Seal(nil, s.keys.Sealer))
	}
	described, object := pack.Finish(s.keys.Sealer)
	remove(s.t, s.m.Store, "packs/"+name.String())
	put(s.t, s.m.Store, "packs/"+described.Name.String(), object)
	return described
}

func TestRemotes(t *testing.T) {
	r := newRepo(t)
	for _, remote := range []engine.Remote{{Name: "b", Place: "s3://bucket/prefix"}, {Name: "a", Place: "/old"}, {Name: "a", Place: "/new"}} {
		if err := r.SetRemote(t.Context(), remote); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.elsewhere().Remotes(t.Context())
	if want := "[{a /new} {b s3://bucket/prefix}]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("remotes %v, %v; want %s", got, err, want)
	}
	if err := r.RemoveRemote(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a", "", "x/y", ".hidden", strings.Repeat("n", 65)} {
		if _, err := r.Remote(t.Context(), name); err == nil {
			t.Errorf("remote %q was found", name)
		}
		if err := r.RemoveRemote(t.Context(), name); err == nil {
			t.Errorf("remote %q was removed", name)
		}
	}
	if err := r.SetRemote(t.Context(), engine.Remote{Name: "long", Place: strings.Repeat("p", engine.MaxRemotePlace+1)}); err == nil {
		t.Error("a place of any length was accepted")
	}
}

// slow lets something happen before the first delete of an object takes effect.
type slow struct {
	objectstore.Store
	prefix    string
	first     sync.Once
	meanwhile func()
}

func (s *slow) Delete(ctx context.Context, key string) error {
	if strings.HasPrefix(key, s.prefix) {
		s.first.Do(s.meanwhile)
	}
	return s.Store.Delete(ctx, key)
}

// A collector is about to delete the labels of a snapshot that is gone, or another one has
// done so first, while the snapshot is pushed again: what the push said of labels stays.
func TestLabelsOfASnapshotThatIsPushedAgain(t *testing.T) {
	for _, another := range []bool{false, true} {
		t.Run(fmt.Sprint("another collector: ", another), func(t *testing.T) {
			here := newRepo(t)
			there := here.sibling(mem.New())
			id := here.snapshot(smallWorkspace(t)).Snapshot
			want, err := here.Label(t.Context(), id, map[string]string{"pin": "yes"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			labels := func() map[string]string {
				info, err := there.Show(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				return info.Labels
			}
			here.push(there, id)
			there.forget(id)
			there.collect(thorough) // takes the snapshot and its tombstone
			if left := objects(t, there.store, "labels/"); len(left) != 1 {
				t.Fatalf("labels %v", left)
			}
			gate := &slow{Store: there.store, prefix: "labels/"}
			gate.meanwhile = func() {
				if another {
					there.collect(thorough)
				}
				here.push(there, id)
				if got := labels(); !maps.Equal(got, want) {
					t.Errorf("labels %v after the push", got)
				}
			}
			collector := (&testRepo{t: t, state: t.TempDir()}).open(gate)
			collector.collect(thorough)
			if got := labels(); !maps.Equal(got, want) {
				t.Errorf("labels %v after the collection", got)
			}
			if left := objects(t, there.store, "labels/"); len(left) != 1 {
				t.Errorf("labels %v", left)
			}
		})
	}
}

// Labels that people changed in the target are theirs, also if that makes them what the
// snapshot was published with.
func TestPushLeavesLabelsThatWereChangedThere(t *testing.T) {
	here := newRepo(t)
	there := here.sibling(mem.New())
	id := here.snapshot(smallWorkspace(t)).Snapshot
	here.label(id, map[string]string{"pin": "yes"})
	here.push(there, id)
	if _, err := there.Label(t.Context(), id, nil, []string{"pin"}); err != nil {
		t.Fatal(err)
	}
	here.push(there, id)
	if info, err := there.Show(t.Context(), id); err != nil || len(info.Labels) != 0 {
		t.Errorf("labels %v, %v", info.Labels, err)
	}
}
