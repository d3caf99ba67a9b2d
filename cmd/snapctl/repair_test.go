package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// repairKills is how often a repair is killed.
const repairKills = 20

// TestRepairsKilledAtRandom kills repairs of one damaged repository. Whatever they left,
// the next repairs end with a clean repository, in which everything is but the file that
// was lost.
func TestRepairsKilledAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	m, files := newMachine(t), tree{}
	for i := range 200 {
		files.put(t, m.ws, fmt.Sprintf("d%d/f%03d", i%7, i), random.Uint64())
	}
	healthy := m.must("snapshot", m.ws, "--json").saved(t).Snapshot
	incompressible(t, filepath.Join(m.ws, "lost"), 9<<20)
	damaged := m.must("snapshot", m.ws, "--json").saved(t).Snapshot
	for _, pack := range names(t, filepath.Join(m.repo, "packs")) {
		flipLarge(t, filepath.Join(m.repo, "packs", pack))
	}
	if o := m.run("check", "--read-data"); o.code != exitDamaged {
		t.Fatalf("check: exit %d\n%s", o.code, o.err)
	}
	spare := filepath.Join(m.dir, "spare")
	if err := os.CopyFS(spare, os.DirFS(m.repo)); err != nil {
		t.Fatal(err)
	}
	took := m.repairAll().took // how long it takes, about
	kills := 0
	for round := 0; kills < repairKills; round++ {
		if round > 10*repairKills {
			t.Fatalf("only %d of %d repairs were killed before their end", kills, round)
		}
		m.replace(spare)
		for _, args := range repairs[:1+round%len(repairs)] {
			if o := m.ends(time.Duration(random.Int64N(int64(took))), args); o.code < 0 {
				kills++
			} else {
				took = (took + o.took) / 2 // what was measured may have been a bad moment
			}
		}
		m.repairAll()
		m.recovered(healthy, damaged, files)
	}
	t.Logf("%d kills", kills)
}

var repairs = [][]string{{"repair", "index"}, {"repair", "packs"}, {"repair", "snapshots", "--forget-damaged"}, {"repair", "sessions", "--force"}}

// flipLarge changes a byte in the middle of a file of more than 8 MiB.
func flipLarge(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) < 8<<20 {
		return
	}
	content[len(content)/2] ^= 1
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace makes the repository what another directory holds, and forgets what is
// known of it.
func (m *machine) replace(with string) {
	m.t.Helper()
	for _, dir := range []string{m.repo, m.state} {
		if err := os.RemoveAll(dir); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := os.CopyFS(m.repo, os.DirFS(with)); err != nil {
		m.t.Fatal(err)
	}
}

// ends is the end of a run that is killed after a delay, unless it ends before.
func (m *machine) ends(delay time.Duration, args []string) outcome {
	m.t.Helper()
	cmd, wait := m.start(args...)
	timer := time.AfterFunc(delay, func() { cmd.Process.Kill() })
	defer timer.Stop()
	return wait()
}

// repairAll runs all repairs to their end. That something is lost is no failure.
func (m *machine) repairAll() (last outcome) {
	m.t.Helper()
	for _, args := range repairs {
		last = m.run(args...)
		if last.code != 0 && !(last.code == exitDamaged && args[1] == "packs") {
			m.t.Fatalf("%v: exit %d\n%s%s", args, last.code, last.out, last.err)
		}
	}
	return last
}

// recovered: the healthy snapshot is whole, and the damaged one has one successor, which
// lacks what was lost.
func (m *machine) recovered(healthy, damaged string, files tree) {
	m.t.Helper()
	m.must("check", "--read-data")
	var list struct {
		Snapshots []struct {
			Snapshot string            `json:"snapshot"`
			Labels   map[string]string `json:"labels"`
		} `json:"snapshots"`
	}
	if err := json.Unmarshal([]byte(m.must("list", "--json").out), &list); err != nil {
		m.t.Fatal(err)
	}
	if len(list.Snapshots) != 2 || list.Snapshots[0].Snapshot != healthy || list.Snapshots[1].Labels["repaired-from"] != damaged {
		m.t.Fatalf("snapshots %+v", list.Snapshots)
	}
	for _, s := range list.Snapshots {
		target := filepath.Join(m.dir, "restored")
		m.must("restore", s.Snapshot, target, "--delete")
		if wrong := files.compare(target); wrong != "" {
			m.t.Errorf("snapshot %s: %s", s.Snapshot, wrong)
		}
	}
}
