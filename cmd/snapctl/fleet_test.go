//go:build servers

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore/s3"
	"github.com/snapctl/snapctl/providers/objectstore/s3/s3test"
)

var (
	fleetSnapshots = flag.Int("fleet.snapshots", 24, "snapshots of each process of TestFleet")
	fleetPause     = flag.Duration("fleet.pause", time.Second, "how long TestFleet stops some of them")
)

const (
	fleetSize  = 8
	fleetFiles = 400
)

// fleet is some machines that share a bucket, and mostly what they save.
type fleet struct {
	t      *testing.T
	server *s3test.Server
	dir    string

	mu           sync.Mutex // guards the following
	acknowledged map[string]tree
	kills        int
}

// TestFleet lets eight machines save overlapping trees into one bucket at once,
// and kills or stops them at random. What was acknowledged is there for everybody, nothing
// is damaged, little is stored twice, and the index stays small.
func TestFleet(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "snapctl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fleet{t: t, server: s3test.Start(t), dir: dir, acknowledged: map[string]tree{}}
	admin := f.machine("admin")
	admin.must("init")
	began := time.Now()
	var wg sync.WaitGroup
	for n := range fleetSize {
		m := f.machine(fmt.Sprint(n))
		wg.Go(func() { f.work(m, uint64(n)) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	t.Logf("%v, %d kills, %d snapshots acknowledged", time.Since(began).Round(time.Second), f.kills, len(f.acknowledged))
	f.judge(admin)
}

func (f *fleet) machine(name string) *machine {
	dir := filepath.Join(f.dir, name)
	m := machineAt(f.t, dir, f.server.URL("fleet"), filepath.Join(dir, "state"))
	m.env = f.server.Environ()
	return m
}

// work takes snapshots until enough of them are acknowledged.
func (f *fleet) work(m *machine, n uint64) {
	random := rand.New(rand.NewPCG(n, 1))
	files := tree{}
	for i := range fleetFiles {
		files.put(f.t, m.ws, fmt.Sprintf("d%02d/f%03d", i%20, i), 0)
	}
	delay := 500 * time.Millisecond
	for done := 0; done < *fleetSnapshots && !f.t.Failed(); {
		for range 1 + random.IntN(10) { // versions are few: machines write the same content
			files.put(f.t, m.ws, fmt.Sprintf("d%02d/f%03d", random.IntN(20), random.IntN(fleetFiles)), random.Uint64N(8))
		}
		var o outcome
		moment := time.Duration(random.Int64N(int64(delay)))
		snapshot := []string{"snapshot", m.ws, "--json", "--source", "fleet"}
		switch random.IntN(6) {
		case 0, 1:
			o = m.runKilled(moment, snapshot...)
		case 2:
			o = m.runPaused(moment, *fleetPause, snapshot...)
		default:
			o = m.run(snapshot...)
			delay = o.took
		}
		if o.code > 0 {
			f.t.Errorf("snapshot: exit %d: %s", o.code, o.err)
			return
		}
		if saved := o.saved(f.t); saved != nil {
			f.acknowledge(saved.Snapshot, maps.Clone(files))
			done++
		}
		if o.code < 0 {
			f.mu.Lock()
			f.kills++
			f.mu.Unlock()
		}
	}
}

func (f *fleet) acknowledge(id string, files tree) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acknowledged[id] = files
}

// judge looks at the bucket from a machine that knows nothing of it.
func (f *fleet) judge(m *machine) {
	f.t.Helper()
	m.must("check", "--read-data")
	var listed struct {
		Snapshots []struct {
			Snapshot string `json:"snapshot"`
		} `json:"snapshots"`
	}
	if err := json.Unmarshal([]byte(m.must("list", "--json").out), &listed); err != nil {
		f.t.Fatal(err)
	}
	lost := maps.Clone(f.acknowledged)
	for _, s := range listed.Snapshots {
		delete(lost, s.Snapshot)
	}
	if len(lost) > 0 {
		f.t.Errorf("acknowledged, but not listed: %q", slices.Collect(maps.Keys(lost)))
	}
	target := filepath.Join(m.dir, "restored")
	for id, files := range f.acknowledged {
		m.must("restore", id, target, "--delete")
		if wrong := files.compare(target); wrong != "" {
			f.t.Errorf("snapshot %s: %s", id, wrong)
		}
	}
	f.t.Logf("%d snapshots restored, %d lost", len(f.acknowledged)-len(lost), len(lost))
	f.judgeSize(m, len(listed.Snapshots))
}

// judgeSize compares the bucket with a repository that has each blob once. What was killed
// before its pack was in the index stores it again the next time, and how often that
// happens is luck: there may be a pack for each kill beside those of the snapshots.
func (f *fleet) judgeSize(m *machine, snapshots int) {
	f.t.Helper()
	once := filepath.Join(m.dir, "once")
	m.must("init", "--repo", once, "--like", m.repo)
	m.must("push", once, "--all")
	packs, bytes := f.listed("packs/")
	segments, _ := f.listed("index/")
	duplicates := 100 * float64(f.duplicates(m)) / float64(bytes)
	f.t.Logf("%d snapshots, %d packs of %d bytes, %d in a repository that has each blob once, %.1f percent duplicates in the index, %d segments",
		snapshots, packs, bytes, stored(f.t, once), duplicates, segments)
	if duplicates > 5 {
		f.t.Errorf("%.1f percent of the stored bytes are duplicates", duplicates)
	}
	if most := snapshots + f.kills; packs > most {
		f.t.Errorf("%d packs, more than one for each of %d snapshots and %d kills", packs, snapshots, f.kills)
	}
	if most := 16 * bits.Len(uint(packs)); segments > most {
		f.t.Errorf("%d segments for %d packs, more than %d", segments, packs, most)
	}
}

// duplicates are the bytes that the packs in the index hold a second time, and more often.
func (f *fleet) duplicates(m *machine) uint64 {
	f.t.Helper()
	var report struct {
		Duplicates weight `json:"duplicates"`
	}
	if err := json.Unmarshal([]byte(m.must("stats", "--json").out), &report); err != nil {
		f.t.Fatal(err)
	}
	return report.Duplicates.StoredBytes
}

// listed counts the objects below a prefix, and their bytes.
func (f *fleet) listed(prefix string) (objects int, bytes int64) {
	f.t.Helper()
	opts, err := s3.ParseURL(f.server.URL("fleet"))
	if err != nil {
		f.t.Fatal(err)
	}
	opts.Credentials = s3.StaticCredentials(s3test.AccessKey, s3test.SecretKey, "")
	store, err := s3.Open(opts)
	if err != nil {
		f.t.Fatal(err)
	}
	defer store.Close()
	for info, err := range store.List(context.Background(), prefix, "") {
		if err != nil {
			f.t.Fatal(err)
		}
		if strings.HasPrefix(info.Key, prefix) {
			objects++
			bytes += info.Size
		}
	}
	return objects, bytes
}
