package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

var (
	soakDuration = flag.Duration("soak.duration", 15*time.Second, "how long machines are at work in a soak")
	soakSeed     = flag.Uint64("soak.seed", 0, "repeat the choices of this seed in a soak; 0 draws one")
	soakWriters  = flag.Int("soak.writers", 4, "machines that write in a soak")
	soakStop     = flag.Duration("soak.stop", 4*time.Second, "how long a process of a soak is stopped at most")
)

// TestSoak lets machines with wrong clocks save, fork, forget, take back, restore and
// collect at once, in a directory, and kills and stops their processes at random. What
// was acknowledged and not forgotten comes back, for as long as it goes on and in the
// end; nothing has to be unlocked; and no space is lost for good.
func TestSoak(t *testing.T) {
	dir := soakDir(t)
	repo := filepath.Join(dir, "repo")
	s := newSoak(t, dir, repo, func() objectstore.Store {
		store, err := file.Open(repo)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	})
	s.soak()
}

// soakDir lies in memory. It is kept if the test fails.
func soakDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "snapctl-soak-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what there is to be seen is kept in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}

const (
	soakFiles      = 120
	soakVersions   = 8 // of a file
	soakCollectors = 2
	soakKept       = 30 // snapshots; more are forgotten soon
	attemptLabel   = "attempt"
)

// soak is some machines and the repository that they share.
type soak struct {
	t         *testing.T
	seed      uint64
	dir, repo string
	env       []string
	store     func() objectstore.Store
	forkPath  string
	ledger    *ledger
	ctx       context.Context // ends when something is wrong: everything is killed
	fail      context.CancelFunc

	collecting sync.RWMutex // held for writing while nobody may collect

	mu     sync.Mutex // guards the following
	log    *os.File
	runs   int
	usual  map[string]time.Duration // that a command takes, about
	counts counts
}

// counts are the numbers of a soak.
type counts struct {
	kills, stops                                       int
	acknowledged, forks, forgotten, undone, restored   int // snapshots
	checks                                             int
	retries                                            int // commands that asked to be run again
	collections, killedCollections, overtaken, deleted int // deleted: packs
	alarms                                             map[string]int
}

// falseAlarm counts what was said to be wrong and was not.
func (s *soak) falseAlarm(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.alarms[what]++
}

func newSoak(t *testing.T, dir, repo string, store func() objectstore.Store) *soak {
	t.Helper()
	s := &soak{
		t: t, seed: *soakSeed, dir: dir, repo: repo, store: store, ledger: newLedger(false),
		usual: map[string]time.Duration{}, counts: counts{alarms: map[string]int{}},
	}
	if s.seed == 0 {
		s.seed = rand.Uint64()
	}
	t.Logf("seed %d: -soak.seed %d repeats it", s.seed, s.seed)
	s.ctx, s.fail = context.WithCancel(t.Context())
	t.Cleanup(s.fail)
	var err error
	if s.forkPath, err = exec.LookPath("soakfork"); err != nil {
		t.Fatal(err)
	}
	if s.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.log.Close() })
	return s
}

// machine makes a machine with a home and local state of its own.
func (s *soak) machine(name string) *machine {
	dir := filepath.Join(s.dir, name)
	m := machineAt(s.t, dir, s.repo, filepath.Join(dir, "state"))
	m.env = s.env
	return m
}

// random is the source of the choices of an actor.
func (s *soak) random(actor int) *rand.Rand { return rand.New(rand.NewPCG(s.seed, uint64(actor))) }

// wrong ends the soak.
func (s *soak) wrong(format string, args ...any) {
	s.t.Errorf(format, args...)
	s.note("WRONG: "+format, args...)
	s.fail()
}

// note writes a line to the log, which is kept when something is wrong.
func (s *soak) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.log, "%s %s\n", time.Now().Format("15:04:05.000000"), fmt.Sprintf(format, args...))
}

func (s *soak) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// soak lets everybody work for the time, and looks at what is left.
func (s *soak) soak() {
	s.t.Helper()
	shiftedProgram(s.t)
	s.machine("first").must("init")
	began := time.Now()
	work, end := context.WithTimeout(s.ctx, *soakDuration)
	defer end()
	var wg sync.WaitGroup
	for _, step := range s.everybody() {
		wg.Go(func() {
			for work.Err() == nil {
				step()
			}
		})
	}
	wg.Wait()
	if !s.t.Failed() {
		s.finish(time.Since(began))
	}
}

// everybody returns what each of the actors does again and again. Two writers and a
// collector are users of one machine.
func (s *soak) everybody() (steps []func()) {
	enlist := func(m *machine, step func(*actor)) {
		n := len(steps)
		a := &actor{soak: s, machine: m, name: filepath.Base(m.dir), random: s.random(n)}
		steps = append(steps, func() { step(a) })
	}
	shared := filepath.Join(s.dir, "shared")
	for n := range *soakWriters {
		m := s.machine(fmt.Sprintf("writer%d", n))
		w := &writer{files: tree{}, alone: n > 1}
		if !w.alone {
			m.state = shared
		}
		enlist(m, func(a *actor) { w.actor = a; w.step() })
	}
	for n := range soakCollectors {
		m := s.machine(fmt.Sprintf("collector%d", n))
		if n == 0 {
			m.state = shared
		}
		enlist(m, (*actor).collect)
	}
	enlist(s.machine("inspector"), (*actor).inspect)
	return steps
}
