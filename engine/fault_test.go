package engine_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// sweep runs an operation with its first call to the store failing, then its
// second, and so on in steps of sweepStep. Each attempt starts from a copy of the
// same repository and of the same local state. What it leaves must be sound, and the
// next attempt, through a store that works, must succeed.
type sweep struct {
	store *mem.Store // what every attempt starts from
	state string     // its local state; empty: none yet
	// operate is the operation. It returns the snapshots that it acknowledged.
	operate func(ctx context.Context, r *engine.Repository) ([]engine.ID, error)
	// sound checks a repository after an attempt, with the snapshots that were
	// acknowledged so far.
	sound func(t *testing.T, r *testRepo, acknowledged []engine.ID)
}

// breaks are the ways in which the nth call goes wrong.
var breaks = map[string]func(n int, cancel func()) fault.Injector{
	"fail":     func(n int, _ func()) fault.Injector { return fault.FailNth(n, fault.ErrInjected) },
	"lose ack": func(n int, _ func()) fault.Injector { return fault.LoseAckNth(n) },
	"die":      func(n int, _ func()) fault.Injector { return fault.FailFrom(n, fault.ErrInjected) },
	"cancel": func(n int, cancel func()) fault.Injector {
		return func(op fault.Op) fault.Fault {
			if op.N == n {
				cancel()
			}
			return fault.Fault{}
		}
	},
}

func (s sweep) run(t *testing.T) {
	for first, name := range slices.Sorted(maps.Keys(breaks)) {
		t.Run(name, func(t *testing.T) {
			for n := 1 + first%sweepStep; s.attempt(t, n, breaks[name]) && !t.Failed(); n += sweepStep {
				if n > 200 {
					t.Fatal("the sweep does not end")
				}
			}
		})
	}
}

// attempt reports whether the operation made n calls.
func (s sweep) attempt(t *testing.T, n int, broken func(int, func()) fault.Injector) bool {
	running := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &testRepo{t: t, store: s.store.Clone(), state: filepath.Join(t.TempDir(), "state")}
	if s.state != "" {
		if err := os.CopyFS(r.state, os.DirFS(s.state)); err != nil {
			t.Fatal(err)
		}
	}
	store := fault.New(r.store, broken(n, cancel))
	acknowledged, err := s.through(ctx, r, store)
	reached := store.Calls() >= n
	switch {
	case err == nil:
	case !reached:
		t.Errorf("call %d was not reached: %v", n, err)
	case !errors.Is(err, fault.ErrInjected) && !errors.Is(err, context.Canceled):
		t.Errorf("call %d: not the error of the store: %v", n, err)
	}
	s.settle(t, n, r, acknowledged)
	if err := goleak.Find(running); err != nil {
		t.Errorf("call %d: %v", n, err)
	}
	return reached
}

// through runs the operation through a store.
func (s sweep) through(ctx context.Context, r *testRepo, store objectstore.Store) ([]engine.ID, error) {
	repo, err := engine.Open(ctx, store, r.options())
	if err != nil {
		return nil, err
	}
	acknowledged, err := s.operate(ctx, repo)
	return acknowledged, errors.Join(err, repo.Close())
}

// settle checks what is left, makes the next attempt and checks again.
func (s sweep) settle(t *testing.T, n int, r *testRepo, acknowledged []engine.ID) {
	t.Helper()
	again := r.open(r.store)
	defer again.close()
	again.clean()
	s.sound(t, again, acknowledged)
	more, err := s.operate(t.Context(), again.Repository)
	if err != nil {
		t.Fatalf("after call %d, the next attempt: %v", n, err)
	}
	again.clean()
	s.sound(t, again, append(acknowledged, more...))
}

// smallWorkspace is a tree that takes few milliseconds to save.
func smallWorkspace(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	write(t, dir, map[string]string{"a": "a", "b/c": strings.Repeat("c", 1000), "b/d/e": "e", "empty": ""})
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b/hard")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// restores fails the test unless each snapshot is restored, by a machine that
// knows nothing, as the workspace is.
func restores(dir string) func(*testing.T, *testRepo, []engine.ID) {
	return func(t *testing.T, r *testRepo, acknowledged []engine.ID) {
		t.Helper()
		elsewhere := r.elsewhere()
		defer elsewhere.close()
		for _, id := range acknowledged {
			same(t, describe(t, dir), describe(t, elsewhere.restore(id)))
		}
	}
}

func saveDir(dir string) func(context.Context, *engine.Repository) ([]engine.ID, error) {
	return func(ctx context.Context, r *engine.Repository) ([]engine.ID, error) {
		result, err := r.Snapshot(ctx, engine.SnapshotOptions{Path: dir})
		if err != nil {
			return nil, err
		}
		return []engine.ID{result.Snapshot}, nil
	}
}

func TestFirstSnapshotSurvivesEveryFault(t *testing.T) {
	dir, r := smallWorkspace(t), newRepo(t)
	r.close()
	sweep{store: r.store.(*mem.Store), operate: saveDir(dir), sound: restores(dir)}.run(t)
}

func TestNextSnapshotSurvivesEveryFault(t *testing.T) {
	dir, r := smallWorkspace(t), newRepo(t)
	first, before := r.snapshot(dir), describe(t, dir)
	write(t, dir, map[string]string{"a": "changed", "b/new": "new"})
	r.close()
	after := restores(dir)
	sweep{store: r.store.(*mem.Store), state: r.state, operate: saveDir(dir), sound: func(t *testing.T, r *testRepo, acknowledged []engine.ID) {
		same(t, before, describe(t, r.restore(first.Snapshot)))
		after(t, r, acknowledged)
	}}.run(t)
}

func TestForkSurvivesEveryFault(t *testing.T) {
	dir, r := smallWorkspace(t), newRepo(t)
	origin := r.snapshot(dir).Snapshot
	r.close()
	sweep{store: r.store.(*mem.Store), state: r.state, sound: restores(dir), operate: func(ctx context.Context, r *engine.Repository) ([]engine.ID, error) {
		fork, err := r.Fork(ctx, origin, engine.ForkOptions{Labels: map[string]string{"branch": "x"}})
		if err != nil {
			return nil, err
		}
		return []engine.ID{origin, fork.ID}, nil
	}}.run(t)
}

func TestLabelSurvivesEveryFault(t *testing.T) {
	r := newRepo(t)
	id := r.snapshot(smallWorkspace(t)).Snapshot
	r.close()
	sweep{store: r.store.(*mem.Store), state: r.state,
		operate: func(ctx context.Context, r *engine.Repository) ([]engine.ID, error) {
			_, err := r.Label(ctx, id, map[string]string{"k": "v"}, nil)
			if err != nil {
				return nil, err
			}
			return []engine.ID{id}, nil
		},
		sound: func(t *testing.T, r *testRepo, acknowledged []engine.ID) {
			info, err := r.Show(t.Context(), id)
			if err != nil || len(acknowledged) > 0 && info.Labels["k"] != "v" {
				t.Errorf("labels %v, %v", info.Labels, err)
			}
		},
	}.run(t)
}

func TestIndexRepairSurvivesEveryFault(t *testing.T) {
	dir, r := smallWorkspace(t), newRepo(t)
	first := r.snapshot(dir).Snapshot
	write(t, dir, map[string]string{"b/more": "more"})
	second := r.snapshot(dir).Snapshot
	r.close()
	repaired := restores(dir)
	sweep{store: r.store.(*mem.Store), state: r.state,
		operate: func(ctx context.Context, r *engine.Repository) ([]engine.ID, error) {
			_, err := r.RepairIndex(ctx)
			return nil, err
		},
		sound: func(t *testing.T, r *testRepo, _ []engine.ID) {
			r.restore(first)
			repaired(t, r, []engine.ID{second})
		},
	}.run(t)
}

func TestRestoreSurvivesEveryFault(t *testing.T) {
	dir, r := smallWorkspace(t), newRepo(t)
	id := r.snapshot(dir).Snapshot
	r.close()
	var target string
	sweep{store: r.store.(*mem.Store), state: r.state,
		operate: func(ctx context.Context, r *engine.Repository) ([]engine.ID, error) {
			target = filepath.Join(t.TempDir(), "restored")
			_, err := r.Restore(ctx, id, engine.RestoreOptions{Target: target})
			return []engine.ID{id}, err
		},
		sound: func(t *testing.T, r *testRepo, _ []engine.ID) {
			if target == "" {
				return // the repository was not even opened
			}
			if _, err := os.Lstat(target); isNotExist(err) {
				// It did not end: going on from there does.
				if _, err := r.Restore(t.Context(), id, engine.RestoreOptions{Target: target}); err != nil {
					t.Error(err)
				}
			}
			same(t, describe(t, dir), describe(t, target))
			if left, err := os.ReadDir(filepath.Dir(target)); err != nil || len(left) != 1 {
				t.Errorf("beside the target: %v, %v", left, err)
			}
		},
	}.run(t)
}

func TestInitSurvivesEveryFault(t *testing.T) {
	dir := smallWorkspace(t)
	holders := []keyring.Holder{keyring.NewPlain()}
	for _, name := range slices.Sorted(maps.Keys(breaks)) {
		t.Run(name, func(t *testing.T) {
			for n, reached := 1, true; reached && !t.Failed(); n++ {
				ctx, cancel := context.WithCancel(t.Context())
				r := &testRepo{t: t, store: mem.New(), state: t.TempDir()}
				store := fault.New(r.store, breaks[name](n, cancel))
				_, err := engine.Init(ctx, store, engine.InitOptions{OpenOptions: r.options(), Holders: holders})
				reached = store.Calls() >= n
				cancel()
				made, openErr := engine.Open(t.Context(), r.store, r.options())
				switch {
				case err == nil && openErr != nil:
					t.Errorf("call %d: acknowledged, then %v", n, openErr)
				case openErr == nil:
					_ = made.Close()
				case !errors.Is(openErr, engine.ErrNoRepository):
					t.Errorf("call %d: open: %v", n, openErr)
				default:
					if _, err := engine.Init(t.Context(), r.store, engine.InitOptions{OpenOptions: r.options(), Holders: holders}); err != nil {
						t.Errorf("call %d: the next attempt: %v", n, err)
					}
				}
				again := r.open(r.store)
				again.snapshot(dir)
				again.clean()
				again.close()
			}
		})
	}
}

// A store that acknowledges what it does not keep is found out, and the next
// snapshot stores it again.
func TestLyingStoreIsSeenAndHealed(t *testing.T) {
	for name, lie := range map[string]fault.Fault{"drops": fault.Drop(), "truncates": fault.Truncate(400)} {
		t.Run(name, func(t *testing.T) {
			dir, honest := smallWorkspace(t), mem.New()
			r := initRepo(t, honest)
			lying := r.reopen(fault.New(honest, fault.On(fault.Put, "packs/", lie)))
			saved := lying.snapshot(dir)
			r = lying.reopen(honest)
			report, err := r.Check(t.Context(), engine.CheckOptions{})
			if !errors.Is(err, engine.ErrDamaged) || len(report.Problems) != 1 || !strings.HasPrefix(report.Problems[0].Object, "packs/") {
				t.Fatalf("check: %v, %+v", err, report)
			}
			if a := report.Problems[0].Affected; len(a) == 0 || a[0].Snapshot != saved.Snapshot {
				t.Errorf("affected %v", a)
			}
			again := r.snapshot(dir)
			restores(dir)(t, r, []engine.ID{saved.Snapshot, again.Snapshot})
		})
	}
}
