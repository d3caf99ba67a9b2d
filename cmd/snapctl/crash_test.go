package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/packfile/blob"
)

const crashFiles = 2000

// crash is a changing workspace whose snapshots and restores are killed at random.
type crash struct {
	*machine
	random *rand.Rand
	files  tree
	paths  []string
	kills  int
	// acknowledged are the snapshots whose ids were printed, and what they hold.
	acknowledged map[string]tree
	rounds       map[string]tree // what every round saved, by label
	ids          []string
	delay        time.Duration // that a run takes which is not killed, about
}

// TestKilledAtRandom kills snapshots and restores, crashKills times in all. After each,
// the repository is sound, what was acknowledged is there, and nothing needs to be
// unlocked or repaired.
func TestKilledAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &crash{
		machine: newMachine(t), random: rand.New(rand.NewPCG(seed, 0)), files: tree{},
		acknowledged: map[string]tree{}, rounds: map[string]tree{},
	}
	for i := range crashFiles {
		c.paths = append(c.paths, fmt.Sprintf("d%02d/f%04d", i%40, i))
		c.files.put(t, c.ws, c.paths[i], c.random.Uint64())
	}
	c.rounds["first"] = maps.Clone(c.files)
	c.delay = c.must("snapshot", c.ws, "--label", "round=first").took
	repo := c.open()
	for round := 0; c.kills < crashKills; round++ {
		c.killSnapshot(round)
		c.must("check")
		c.sample(repo)
		if round%4 == 3 && len(c.ids) > 0 {
			c.killRestore(round)
			c.must("check", "--read-data")
		}
	}
	t.Logf("%d kills, %d snapshots acknowledged of %d", c.kills, len(c.ids), len(c.rounds))
	c.finish(repo)
}

// change changes a few files, or many, and now and then removes or adds some.
func (c *crash) change() {
	n := 1 + c.random.IntN(20)
	if c.random.IntN(8) == 0 {
		n = 600
	}
	for range n {
		path := c.paths[c.random.IntN(len(c.paths))]
		if c.random.IntN(10) == 0 && c.files[path] != 0 {
			delete(c.files, path)
			if err := os.Remove(filepath.Join(c.ws, path)); err != nil {
				c.t.Fatal(err)
			}
			continue
		}
		c.files.put(c.t, c.ws, path, c.random.Uint64())
	}
}

func (c *crash) killSnapshot(round int) {
	c.t.Helper()
	c.change()
	label := fmt.Sprint(round)
	c.rounds[label] = maps.Clone(c.files)
	o := c.runAndMaybeKill("snapshot", c.ws, "--json", "--label", "round="+label)
	if saved := o.saved(c.t); saved != nil {
		c.acknowledged[saved.Snapshot] = c.rounds[label]
		c.ids = append(c.ids, saved.Snapshot)
	}
}

// runAndMaybeKill kills most runs somewhere between their start and their end. A
// run that was to be killed and ended before tells how long they take.
func (c *crash) runAndMaybeKill(args ...string) outcome {
	c.t.Helper()
	// The later of two: what is published comes late.
	delay := max(c.random.Int64N(int64(c.delay)), c.random.Int64N(int64(c.delay)))
	o := c.runKilled(time.Duration(delay), args...)
	if o.code < 0 {
		c.kills++
		c.delay += c.delay / 16 // until one comes to its end
	} else {
		c.delay = (c.delay + o.took) / 2
	}
	return o
}

// sample reads a few files of a snapshot that was acknowledged.
func (c *crash) sample(repo *engine.Repository) {
	c.t.Helper()
	if len(c.ids) == 0 {
		return
	}
	name := c.ids[c.random.IntN(len(c.ids))]
	want := c.acknowledged[name]
	id := parseSnapshot(c.t, name)
	count := 0
	for e, err := range repo.Ls(context.Background(), id, "", engine.Recursive) {
		if err != nil {
			c.t.Fatalf("snapshot %s: %v", name, err)
		}
		if _, ok := want[e.Path]; ok {
			count++
		}
	}
	if count != len(want) {
		c.t.Fatalf("snapshot %s has %d of %d files", name, count, len(want))
	}
	for range 5 {
		path := c.paths[c.random.IntN(len(c.paths))]
		if _, ok := want[path]; !ok {
			continue
		}
		var got bytes.Buffer
		if err := repo.Cat(context.Background(), id, path, &got); err != nil || !bytes.Equal(got.Bytes(), want.content(path)) {
			c.t.Fatalf("snapshot %s: %s is not what was saved: %v", name, path, err)
		}
	}
}

func parseSnapshot(t *testing.T, name string) engine.ID {
	t.Helper()
	id, err := blob.ParseID(name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// killRestore kills a restore into a new directory, which must not look complete
// then, and lets another one go on from there.
func (c *crash) killRestore(round int) {
	c.t.Helper()
	name := c.ids[c.random.IntN(len(c.ids))]
	want := c.acknowledged[name]
	place := filepath.Join(c.dir, fmt.Sprintf("restored%d", round))
	if err := os.Mkdir(place, 0o755); err != nil {
		c.t.Fatal(err)
	}
	target := filepath.Join(place, "target")
	o := c.runAndMaybeKill("restore", name, target)
	if _, err := os.Lstat(target); err == nil {
		if wrong := want.compare(target); wrong != "" {
			c.t.Fatalf("a restore that ended with %d left: %s", o.code, wrong)
		}
	} else if o.code == 0 {
		c.t.Fatal(err)
	}
	c.must("restore", name, target)
	if wrong := want.compare(target); wrong != "" {
		c.t.Fatalf("the next restore left: %s", wrong)
	}
	if left := names(c.t, place); !slices.Equal(left, []string{"target"}) {
		c.t.Fatalf("beside the target: %q", left)
	}
	if err := os.RemoveAll(place); err != nil {
		c.t.Fatal(err)
	}
}

// finish restores everything that is visible, one after the other into one
// directory, and looks at what all the killed processes left.
func (c *crash) finish(repo *engine.Repository) {
	c.t.Helper()
	infos, err := repo.List(context.Background(), engine.Filter{})
	if err != nil {
		c.t.Fatal(err)
	}
	target := filepath.Join(c.dir, "all")
	for _, info := range infos {
		delete(c.acknowledged, info.ID.String())
		c.must("restore", info.ID.String(), target, "--delete")
		if wrong := c.rounds[info.Labels["round"]].compare(target); wrong != "" {
			c.t.Errorf("snapshot %v of round %s: %s", info.ID, info.Labels["round"], wrong)
		}
	}
	if len(c.acknowledged) > 0 {
		c.t.Errorf("acknowledged, but not listed: %q", slices.Collect(maps.Keys(c.acknowledged)))
	}
	c.leftovers()
	sound(c.t, repo, 1)
}

// leftovers: what is a day old is removed by the next snapshot.
func (c *crash) leftovers() {
	c.t.Helper()
	temp := filepath.Join(c.repo, ".tmp")
	yesterday := time.Now().Add(-25 * time.Hour)
	left := names(c.t, temp)
	for _, name := range left {
		if err := os.Chtimes(filepath.Join(temp, name), yesterday, yesterday); err != nil {
			c.t.Fatal(err)
		}
	}
	c.t.Logf("%d temporary files, %d pending objects", len(left), len(names(c.t, filepath.Join(c.repo, "pending"))))
	c.must("snapshot", c.ws)
	if still := names(c.t, temp); len(still) > 0 {
		c.t.Errorf("%d temporary files are left: %q", len(still), still[:min(3, len(still))])
	}
	private, err := filepath.Glob(filepath.Join(c.state, "*", "private", "private-*"))
	if err != nil || len(private) > 0 {
		c.t.Errorf("private indexes are left: %q, %v", private, err)
	}
}

// TestInterruptedFirstSnapshotGoesOn kills a first snapshot when the repository
// holds about 60 percent of the data. The next one reads less than 45 percent.
func TestInterruptedFirstSnapshotGoesOn(t *testing.T) {
	// What was on its way is lost: two packs of 16 MiB, 6 percent of this.
	const files, size = 2000, 256 << 10
	for _, layout := range []string{"d%02d/f%04d", "one/f%04[2]d"} {
		t.Run(strings.Split(layout, "/")[0], func(t *testing.T) {
			m := newMachine(t)
			random := rand.NewChaCha8([32]byte{1})
			content := make([]byte, size)
			for i := range files {
				random.Read(content)
				name := filepath.Join(m.ws, fmt.Sprintf(layout, i%40, i))
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cmd, wait := m.start("snapshot", m.ws)
			ended := make(chan outcome, 1)
			go func() { ended <- wait() }()
			look := time.NewTicker(time.Millisecond)
			defer look.Stop()
			for stored(t, m.repo) < files*size*62/100 {
				select {
				case o := <-ended:
					t.Fatalf("the snapshot ended too early: %d %s", o.code, o.err)
				case <-look.C:
				}
			}
			cmd.Process.Kill()
			if o := <-ended; o.code >= 0 {
				t.Fatalf("the snapshot ended before it was killed: %d %s", o.code, o.err)
			}
			held := stored(t, m.repo)
			again := m.must("snapshot", m.ws, "--json").saved(t)
			t.Logf("killed with %d MB of %d MB stored; the next run read %d MB", held>>20, files*size>>20, again.ReadBytes>>20)
			if again.ReadBytes*100 >= files*size*45 {
				t.Errorf("read %d bytes of %d", again.ReadBytes, files*size)
			}
			sound(t, m.open(), 1)
		})
	}
}

// stored adds up the packs of a repository.
func stored(t *testing.T, repo string) int64 {
	t.Helper()
	sum := int64(0)
	err := filepath.WalkDir(filepath.Join(repo, "packs"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // not there yet
		}
		if _, err := hex.DecodeString(d.Name()); err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
