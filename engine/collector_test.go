package engine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// The tests of this file place by hand what collectors write, at chosen moments of
// a writer, and then delete every pack that is in a dead list: what the writer
// published must be restored without them.

// meddler runs functions around puts: before one that is about to happen, and
// behind one that happened. Each runs as often as it is met.
type meddler struct {
	objectstore.Store
	before, after func(key string)
}

func (m *meddler) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if m.before != nil {
		m.before(key)
	}
	info, err := m.Store.Put(ctx, key, body, opts)
	if err == nil && m.after != nil {
		m.after(key)
	}
	return info, err
}

// once runs f at the first key that starts with prefix.
func once(prefix string, f func(key string)) func(string) {
	done := false
	return func(key string) {
		if !done && strings.HasPrefix(key, prefix) {
			done = true
			f(key)
		}
	}
}

// stage is a repository with one snapshot, whose machine is about to take another.
type stage struct {
	t    *testing.T
	dir  string
	base engine.ID
	m    *meddler
	keys commit.Repo
	*testRepo
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, dir: smallWorkspace(t), m: &meddler{Store: mem.New()}}
	// Two snapshots make two packs: a later one depends on both.
	s.testRepo = initRepo(t, s.m)
	s.keys = keysOf(t, s.m.Store)
	s.snapshot(s.dir)
	write(t, s.dir, map[string]string{"b/second": "second"})
	s.base = s.snapshot(s.dir).Snapshot
	s.testRepo = s.reopen(s.m) // nothing is cached in memory
	return s
}

// packs returns the names of all packs.
func (s *stage) packs() []packfile.Name {
	s.t.Helper()
	var names []packfile.Name
	for _, key := range objects(s.t, s.m.Store, "packs/") {
		name, err := packfile.ParseName(strings.TrimPrefix(key, "packs/"))
		if err != nil {
			s.t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func (s *stage) condemn(n int, packs ...packfile.Name) {
	placeList(s.t, s.keys, n, "condemned", packs...)
}
func (s *stage) finalise(n int, packs ...packfile.Name) { placeList(s.t, s.keys, n, "final", packs...) }

// collect does what G5 does: it deletes packs.
func (s *stage) collect(packs ...packfile.Name) {
	for _, name := range packs {
		remove(s.t, s.m.Store, "packs/"+name.String())
	}
}

// prove deletes all that is dead and restores the snapshot on a machine that knows
// nothing: it must be as the workspace.
func (s *stage) prove(id engine.ID) {
	s.t.Helper()
	view, err := commit.ReadView(s.t.Context(), s.keys, commit.View{})
	if err != nil {
		s.t.Fatal(err)
	}
	for name := range view.Dead {
		s.collect(name)
	}
	s.store = s.m.Store
	elsewhere := s.elsewhere()
	same(s.t, describe(s.t, s.dir), describe(s.t, elsewhere.restore(id)))
	if report, err := elsewhere.Check(s.t.Context(), engine.CheckOptions{Snapshots: []engine.ID{id}, ReadData: 1}); err != nil {
		s.t.Errorf("check: %v, %+v", err, report)
	}
	_, record, err := commit.Find(s.t.Context(), s.keys, id)
	if err != nil || slices.ContainsFunc(record.Packs, view.Dead.Has) {
		s.t.Errorf("published with a dead pack: %v, %v", record.Packs, err)
	}
}

// change makes the next snapshot differ in one file, or in none.
func (s *stage) change(files map[string]string) { write(s.t, s.dir, files) }

var changes = map[string]map[string]string{"unchanged": nil, "changed": {"a": "other"}}

func eachChange(t *testing.T, test func(t *testing.T, s *stage)) {
	for name, files := range changes {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.change(files)
			test(t, s)
		})
	}
}

func TestCondemnedBaseIsNotTrusted(t *testing.T) {
	eachChange(t, func(t *testing.T, s *stage) {
		s.condemn(1, s.packs()...)
		saved := s.snapshot(s.dir)
		if saved.NewBlobs == 0 {
			t.Error("nothing was stored again")
		}
		s.prove(saved.Snapshot)
	})
}

func TestPartlyCondemnedBaseIsNotTrusted(t *testing.T) {
	eachChange(t, func(t *testing.T, s *stage) {
		for n, name := range s.packs() {
			s.condemn(n+1, name)
			saved := s.snapshot(s.dir)
			if saved.NewBlobs == 0 {
				t.Error("nothing was stored again")
			}
			s.prove(saved.Snapshot)
		}
	})
}

func TestSparedBaseIsTrusted(t *testing.T) {
	s := newStage(t)
	s.condemn(1, append(s.packs(), packfile.Name{1})...)
	s.finalise(1, packfile.Name{1})
	saved := s.snapshot(s.dir)
	if saved.NewBlobs != 0 || !saved.Unchanged {
		t.Errorf("stored again: %+v", saved)
	}
	s.prove(saved.Snapshot)
}

// Between W4 and W5 the blobs can be copied from the condemned packs.
func TestCondemnedBetweenPendingAndListingIsCopied(t *testing.T) {
	eachChange(t, func(t *testing.T, s *stage) {
		attempts := map[string]bool{}
		condemn := once("pending/", func(string) { s.condemn(1, s.packs()...) })
		s.m.after = func(key string) {
			if strings.HasPrefix(key, "pending/") {
				attempts[key] = true
			}
			condemn(key)
		}
		saved := s.snapshot(s.dir)
		if len(attempts) != 1 {
			t.Errorf("%d attempts", len(attempts))
		}
		s.prove(saved.Snapshot)
	})
}

// The pack that a rescue wrote is condemned too, and so is the next.
func TestCondemnedAgainAndAgainIsCopied(t *testing.T) {
	eachChange(t, func(t *testing.T, s *stage) {
		n := 0
		s.m.after = func(key string) {
			if n < 4 && (strings.HasPrefix(key, "pending/") || n > 0 && strings.HasPrefix(key, "index/")) {
				n++
				s.condemn(n, s.packs()...)
			}
		}
		s.prove(s.snapshot(s.dir).Snapshot)
		if n != 4 {
			t.Errorf("%d collections, want 4", n)
		}
	})
}

// Once the packs are gone, only the workspace has the blobs.
func TestCollectedBetweenPendingAndListingIsReadAgain(t *testing.T) {
	eachChange(t, func(t *testing.T, s *stage) {
		s.m.after = once("pending/", func(string) {
			packs := s.packs()
			s.condemn(1, packs...)
			s.finalise(1, packs...)
			s.collect(packs...)
		})
		saved := s.snapshot(s.dir)
		if left := objects(t, s.m.Store, "pending/"); len(left) != 0 {
			t.Errorf("pending objects left: %v", left)
		}
		s.prove(saved.Snapshot)
	})
}

// A collector takes the packs between the walk and W4: their list is not in the
// view of W1 either.
func TestCollectedDuringTheWalkIsReadAgain(t *testing.T) {
	s := newStage(t)
	s.change(changes["changed"])
	s.m.after = once("packs/", func(string) {
		packs := s.packs()
		s.condemn(1, packs...)
		s.finalise(1, packs...)
		s.collect(packs...)
	})
	s.prove(s.snapshot(s.dir).Snapshot)
}

func (s *stage) tombstone(key string) {
	place(s.t, s.keys, key, seal.Tombstone, []byte{2, 2}) // the attempt expired
}

func TestExpiredAttemptStartsOver(t *testing.T) {
	eachChange(t, func(t *testing.T, s *stage) {
		var lost string
		s.m.before = once("snapshots/", func(key string) {
			lost = key
			s.tombstone(key)
		})
		saved := s.snapshot(s.dir)
		published := objects(t, s.m.Store, "snapshots/"+saved.Snapshot.String())
		if lost == "" || slices.Contains(published, lost) && len(published) < 2 {
			t.Errorf("lost %q, published %q", lost, published)
		}
		s.prove(saved.Snapshot)
	})
}

func TestAttemptThatAlwaysExpiresIsRetryable(t *testing.T) {
	s := newStage(t)
	before := objects(t, s.m.Store, "snapshots/")
	s.m.before = func(key string) {
		if strings.HasPrefix(key, "snapshots/") {
			s.tombstone(key)
		}
	}
	if _, err := s.Snapshot(t.Context(), engine.SnapshotOptions{Path: s.dir}); !errors.Is(err, engine.ErrRetry) {
		t.Errorf("error %v", err)
	}
	s.m.before = nil
	infos, err := s.List(t.Context(), engine.Filter{})
	if err != nil || len(infos) != len(before) {
		t.Errorf("%d snapshots, %v", len(infos), err)
	}
	s.prove(s.snapshot(s.dir).Snapshot)
}

// The base of the stat cache was forgotten and collected: what the cache says of
// it must not be believed. The index of the repository may still name its packs.
func TestForgottenBaseIsNotBelieved(t *testing.T) {
	for name, forget := range map[string]func(s *stage, key string){
		"deleted":    func(s *stage, key string) { remove(s.t, s.m.Store, key) },
		"tombstoned": func(s *stage, key string) { s.tombstone(key) },
	} {
		for _, dropped := range []string{"indexed", "dropped from the index"} {
			t.Run(name+"/"+dropped, func(t *testing.T) {
				s := newStage(t)
				for _, key := range objects(t, s.m.Store, "snapshots/") {
					forget(s, key)
				}
				packs := s.packs()
				s.condemn(1, packs...)
				s.finalise(1, packs...)
				s.collect(packs...)
				if dropped != "indexed" {
					for _, key := range objects(t, s.m.Store, "index/") {
						remove(t, s.m.Store, key)
					}
				}
				saved := s.snapshot(s.dir)
				s.prove(saved.Snapshot)
			})
		}
	}
}

// The repository was put back to an older copy behind the local state, which knows
// of packs and snapshots that never were in it.
func TestRolledBackRepository(t *testing.T) {
	for _, to := range []string{"before the base", "to the base", "before an interrupted attempt"} {
		t.Run(to, func(t *testing.T) {
			s := &stage{t: t, dir: smallWorkspace(t), m: &meddler{Store: mem.New()}}
			s.testRepo = initRepo(t, s.m)
			s.keys = keysOf(t, s.m.Store)
			old := map[string]*mem.Store{}
			clone := func(name string) { old[name] = s.m.Store.(*mem.Store).Clone() }
			clone("before the base")
			s.snapshot(s.dir)
			clone("to the base")
			clone("before an interrupted attempt")
			s.change(map[string]string{"b/new": "new"})
			if to == "before an interrupted attempt" {
				broken := s.reopen(fault.New(s.m, fault.On(fault.Put, "index/", fault.Fail(fault.ErrInjected))))
				if _, err := broken.Snapshot(t.Context(), engine.SnapshotOptions{Path: s.dir}); !errors.Is(err, fault.ErrInjected) {
					t.Fatalf("the attempt was not interrupted: %v", err)
				}
				broken.close()
			} else {
				s.snapshot(s.dir)
				s.close()
			}
			s.m.Store = old[to]
			s.keys.Store = old[to]
			s.testRepo = (&testRepo{t: t, store: s.m, state: s.state}).open(s.m)
			s.prove(s.snapshot(s.dir).Snapshot)
		})
	}
}

// The same, and the pack that never was in it holds what a fork has to store again,
// since its own pack is condemned.
func TestForkInARolledBackRepository(t *testing.T) {
	s := newStage(t)
	packs := s.packs()
	s.condemn(1, packs...)
	old := s.m.Store.(*mem.Store).Clone()
	broken := s.reopen(fault.New(s.m, fault.On(fault.Put, "index/", fault.Fail(fault.ErrInjected))))
	if _, err := broken.Snapshot(t.Context(), engine.SnapshotOptions{Path: s.dir}); !errors.Is(err, fault.ErrInjected) {
		t.Fatalf("the attempt was not interrupted: %v", err)
	}
	if stored := s.packs(); len(stored) == len(packs) {
		t.Fatal("nothing was stored again")
	}
	broken.close()
	s.m.Store, s.keys.Store = old, old
	s.testRepo = (&testRepo{t: t, store: s.m, state: s.state}).open(s.m)
	fork, err := s.Fork(t.Context(), s.base, engine.ForkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.prove(fork.ID)
}

// Local state that belongs to another repository is not used.
func TestStateOfAnotherRepository(t *testing.T) {
	dir := smallWorkspace(t)
	other := newRepo(t)
	other.snapshot(dir)
	otherID := other.ID()
	other.close()
	s := &stage{t: t, dir: dir, m: &meddler{Store: mem.New()}}
	s.testRepo = initRepo(t, s.m)
	s.keys = keysOf(t, s.m.Store)
	id := s.ID()
	s.close()
	if err := os.RemoveAll(filepath.Join(s.state, id)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(s.state, id), os.DirFS(filepath.Join(other.state, otherID))); err != nil {
		t.Fatal(err)
	}
	s.testRepo = (&testRepo{t: t, store: s.m, state: s.state}).open(s.m)
	saved := s.snapshot(dir)
	if saved.NewBlobs == 0 || !saved.Parent.IsZero() {
		t.Errorf("took over what another repository has: %+v", saved)
	}
	s.prove(saved.Snapshot)
}

// Generations need not be without gaps, nor begin at 1.
func TestMissingGenerations(t *testing.T) {
	s := newStage(t)
	first := s.packs()
	s.condemn(5, first[0])
	s.m.after = once("pending/", func(string) {
		s.condemn(9, first[1])
		s.finalise(9, first[1])
	})
	s.prove(s.snapshot(s.dir).Snapshot)
}

// A fork shares the packs of its origin only while they live.
func TestForkOfACondemnedOrigin(t *testing.T) {
	for name, when := range map[string]string{"before": "", "between pending and listing": "pending/"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			if when == "" {
				s.condemn(1, s.packs()...)
			} else {
				s.m.after = once(when, func(string) { s.condemn(1, s.packs()...) })
			}
			fork, err := s.Fork(t.Context(), s.base, engine.ForkOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s.prove(fork.ID)
		})
	}
}

func TestForkOfACollectedOriginFails(t *testing.T) {
	s := newStage(t)
	packs := s.packs()
	s.condemn(1, packs...)
	s.finalise(1, packs...)
	s.collect(packs...)
	before := objects(t, s.m.Store, "snapshots/")
	if _, err := s.Fork(t.Context(), s.base, engine.ForkOptions{}); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("error %v", err)
	}
	if after := objects(t, s.m.Store, "snapshots/"); !slices.Equal(before, after) {
		t.Errorf("published %v, before %v", after, before)
	}
}

// What a collection deleted is no damage while nobody needs it.
func TestCheckIsSilentAboutCollectedPacks(t *testing.T) {
	s := newStage(t)
	for _, key := range objects(t, s.m.Store, "snapshots/") {
		if !strings.Contains(key, s.base.String()) {
			remove(t, s.m.Store, key)
		}
	}
	s.condemn(1, s.packs()...)
	s.prove(s.snapshot(s.dir).Snapshot)
	if report := s.clean(); len(report.Problems) != 0 {
		t.Errorf("problems %+v", report.Problems)
	}
	if marks := objects(t, s.m.Store, "gc/damaged/"); len(marks) != 0 {
		t.Errorf("marks %v", marks)
	}
}

// Two attempts never share an object: each has a session of its own.
func TestAttemptsHaveSessionsOfTheirOwn(t *testing.T) {
	s := newStage(t)
	var keys []string
	s.m.before = func(key string) {
		if strings.HasPrefix(key, "pending/") || strings.HasPrefix(key, "snapshots/") {
			keys = append(keys, key)
		}
		if strings.HasPrefix(key, "snapshots/") && len(keys) == 2 {
			s.tombstone(key)
		}
	}
	s.snapshot(s.dir)
	if len(keys) != 4 || len(slices.Compact(slices.Sorted(slices.Values(keys)))) != 4 {
		t.Errorf("objects of two attempts: %v", keys)
	}
	sessions := bytes.Count([]byte(strings.Join(keys, "\n")), []byte(strings.TrimPrefix(keys[0], "pending/")))
	if sessions != 2 {
		t.Errorf("the session of the first attempt is in %d keys of %v", sessions, keys)
	}
}

// A list of packs that is counted anew holds none that no segment names: another
// session of this process may have put one, and failed.
func TestCountedPacksAreIndexed(t *testing.T) {
	under := mem.New()
	broken := false
	flaky := fault.New(under, func(op fault.Op) fault.Fault {
		if broken && op.Kind == fault.Put && strings.HasPrefix(op.Key, "index/") {
			return fault.Fail(fault.ErrInjected)
		}
		return fault.Fault{}
	})
	m := &meddler{Store: flaky}
	r := initRepo(t, m)
	dir, other := t.TempDir(), t.TempDir()
	for i := range 66 { // one pack each: the list is about to be counted
		write(t, dir, map[string]string{"f": strings.Repeat("x", i)})
		r.snapshot(dir)
	}
	write(t, dir, map[string]string{"shared": "content of both"})
	write(t, other, map[string]string{"shared": "content of both"})
	m.before = once("packs/", func(string) {
		broken = true
		defer func() { broken = false }()
		if _, err := r.Snapshot(t.Context(), engine.SnapshotOptions{Path: other}); !errors.Is(err, fault.ErrInjected) {
			t.Errorf("the other session: %v", err)
		}
	})
	_, record, err := commit.Find(t.Context(), keysOf(t, under), r.snapshot(dir).Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if len(record.Packs) > 60 {
		t.Fatalf("%d packs: they were not counted", len(record.Packs))
	}
	indexed := r.indexedPacks(under)
	for _, name := range record.Packs {
		if !indexed.Has(name) {
			t.Errorf("no segment names pack %v", name)
		}
	}
}

// indexedPacks are those that segments name.
func (r *testRepo) indexedPacks(store objectstore.Store) index.PackSet {
	r.t.Helper()
	segments, err := index.ListSegments(r.t.Context(), store)
	if err != nil {
		r.t.Fatal(err)
	}
	named := index.PackSet{}
	for _, s := range segments {
		packs, err := index.ReadSegment(r.t.Context(), store, keysOf(r.t, store).Sealer, s.Name)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, pack := range packs {
			named[pack.Name] = struct{}{}
		}
	}
	return named
}
