package main

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

// finish looks at what a soak left, when nobody is at work any more.
func (s *soak) finish(worked time.Duration) {
	s.t.Helper()
	last := &actor{soak: s, machine: s.machine("last"), name: "last", random: s.random(-1)}
	s.nothingIsLocked(last)
	left := last.list()
	last.machine.must("check", "--read-data")
	undisturbed := func(args ...string) (outcome, told) { return last.runAs(process{}, args...) }
	for _, snapshot := range left {
		last.restoreOne(s.ledger.get(snapshot.Snapshot), undisturbed)
	}
	if s.t.Failed() {
		return
	}
	c := s.counts
	s.t.Logf("%v, %d kills, %d stops, %d snapshots acknowledged, %d forgotten, %d forks, %d undone, %d restored, %d asked to be run again, %d checks, "+
		"%d collections completed, %d killed, %d overtaken, %d generations, %d packs deleted, lost = 0 of %d in the end; false alarms: %v",
		worked.Round(time.Second), c.kills, c.stops, c.acknowledged, c.forgotten, c.forks, c.undone, c.restored, c.retries, c.checks,
		c.collections, c.killedCollections, c.overtaken, s.generations(), c.deleted, len(left), c.alarms)
	s.shrink(last, left)
}

// nothingIsLocked kills a collection and a snapshot once more. Both succeed when they
// are run again, at once.
func (s *soak) nothingIsLocked(last *actor) {
	s.t.Helper()
	other := &actor{soak: s, machine: s.machine("other"), name: "other", random: s.random(-2)}
	w := &writer{actor: other, files: tree{}}
	w.files.put(s.t, other.machine.ws, "last", 1)
	label := w.attempt(w.files)
	save := []string{"snapshot", other.machine.ws, "--label", label}
	killed := func(args ...string) outcome {
		o, _ := other.runAs(process{kill: true, after: s.usual[args[0]] / 2}, args...)
		return o
	}
	killed("gc")
	w.acknowledged(killed(save...), label)
	last.machine.must("gc")
	last.machine.must(save...)
}

// soakRest is how many snapshots are left in the end.
const soakRest = 3

// shrink forgets all but a few snapshots. After two collections the repository takes
// hardly more than a new one with the same content: nothing leaked.
func (s *soak) shrink(last *actor, left []listed) {
	s.t.Helper()
	rest := left[max(len(left)-soakRest, 0):]
	forget := []string{"forget", "--force"}
	for _, snapshot := range left[:len(left)-len(rest)] {
		forget = append(forget, snapshot.Snapshot)
	}
	if len(rest) < len(left) {
		last.machine.must(forget...)
	}
	for range 2 {
		last.machine.must("gc", "--undo-window", "0", "--grace", "0")
	}
	last.machine.must("check", "--read-data")
	once := *last.machine
	once.repo = filepath.Join(s.dir, "once")
	once.must("init", "--like", s.repo)
	for _, snapshot := range rest {
		last.machine.must("restore", snapshot.Snapshot, once.ws, "--delete")
		once.must("snapshot", once.ws)
	}
	fresh, err := file.Open(once.repo)
	if err != nil {
		s.t.Fatal(err)
	}
	defer fresh.Close()
	s.compareSizes(sizes(s.t, s.store()), sizes(s.t, fresh))
	s.endedAttempts()
	s.forgottenRecords(rest)
}

// content is what a store holds, by the first part of the keys.
type content map[string]struct {
	objects int
	bytes   int64
}

func sizes(t *testing.T, store objectstore.Store) content {
	t.Helper()
	all := content{}
	for info, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(info.Key, "/")
		sum := all[kind]
		sum.objects++
		sum.bytes += info.Size
		all[kind] = sum
	}
	return all
}

// compareSizes compares packs and index with those of a new repository. They may take a
// tenth more: a twentieth of the packs may stay unused (--max-unused), and what is
// compressed together differs. And a KiB for each small pack, and each segment: there may
// be some before they are merged. Of all else nothing is left but what has to stay for
// ever: two objects of each generation, the tombstones of attempts that were expired, and
// what processes left that were killed (see endedAttempts and forgottenRecords).
func (s *soak) compareSizes(is, fresh content) {
	s.t.Helper()
	s.t.Logf("in the end: %v; a new repository: %v", is, fresh)
	for _, kind := range []string{"packs", "index"} {
		if most := fresh[kind].bytes*11/10 + soakSmall<<10; is[kind].bytes > most {
			s.t.Errorf("%s take %d bytes, more than %d: in a new repository %d", kind, is[kind].bytes, most, fresh[kind].bytes)
		}
	}
	if n := is["labels"].objects; n > 0 {
		s.t.Errorf("%d objects are left in labels/", n)
	}
}

// soakSmall is how many small packs there may be: gc merges as many.
const soakSmall = 16

// endedAttempts fails for pending objects whose attempt may still be waited for: those of
// a writer that was killed between W6 and W7 stay, beside the snapshot or its tombstone.
func (s *soak) endedAttempts() {
	s.t.Helper()
	ended := map[string]bool{}
	for _, key := range s.keys("snapshots/") {
		ended[path.Base(key)] = true
	}
	for _, key := range s.keys("pending/") {
		if !ended[path.Base(key)] {
			s.t.Errorf("%s is left of an attempt that never published and was not expired", key)
		}
	}
}

// forgottenRecords fails for records of snapshots that were forgotten. That of a forget
// which was killed before it came to the snapshot stays beside it.
func (s *soak) forgottenRecords(published []listed) {
	s.t.Helper()
	stays := map[string]bool{}
	for _, snapshot := range published {
		for _, key := range s.keys("snapshots/" + snapshot.Snapshot + "/") {
			stays[strings.TrimPrefix(key, "snapshots/")] = true
		}
	}
	for _, key := range s.keys("forgotten/") {
		if !stays[strings.TrimPrefix(key, "forgotten/")] {
			s.t.Errorf("%s is left", key)
		}
	}
}

func (s *soak) keys(prefix string) (keys []string) {
	s.t.Helper()
	for info, err := range s.store().List(s.t.Context(), prefix, "") {
		if err != nil {
			s.t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// generations counts what collections have left.
func (s *soak) generations() (n int) {
	s.t.Helper()
	for _, key := range s.keys("gc/") {
		if path.Base(key) == "condemned" {
			n++
		}
	}
	return n
}
