package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/verified"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// wall is a clock that tests set.
type wall struct {
	mu sync.Mutex // guards at
	at time.Time
}

func newWall() *wall { return &wall{at: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)} }

func (w *wall) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *wall) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

// openAt opens a repository on a machine of its own with a clock that a test sets.
func openAt(t *testing.T, store objectstore.Store, clock *wall) *testRepo {
	t.Helper()
	r := &testRepo{t: t, store: store, state: t.TempDir()}
	opts := r.options()
	opts.Now = clock.now
	repo, err := engine.Open(t.Context(), store, opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Repository = repo
	t.Cleanup(r.close)
	return r
}

// manyPacks is a repository of n packs of about 20 KiB.
func manyPacks(t *testing.T, n int) *mem.Store {
	t.Helper()
	r, dir := newRepo(t), filepath.Join(t.TempDir(), "workspace")
	random := rand.NewChaCha8([32]byte{7})
	for i := range n {
		content := make([]byte, 20<<10)
		random.Read(content)
		write(t, dir, map[string]string{fmt.Sprintf("f%03d", i): string(content)})
		r.snapshot(dir)
	}
	r.close()
	return r.store.(*mem.Store)
}

// readKeys counts the packs that are read whole.
type readKeys struct {
	objectstore.Store
	mu   sync.Mutex // guards read
	read map[string]int
}

func (s *readKeys) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	if r == (objectstore.Range{}) {
		s.mu.Lock()
		s.read[key]++
		s.mu.Unlock()
	}
	return s.Store.Get(ctx, key, r)
}

func (r *testRepo) check(opts engine.CheckOptions) *engine.CheckReport {
	r.t.Helper()
	report, err := r.Check(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

// A part of the repository every day, on changing machines, comes round to all of it,
// new packs first.
func TestDailySubsetsCoverTheWhole(t *testing.T) {
	store, clock := manyPacks(t, 20), newWall()
	counted := &readKeys{Store: store, read: map[string]int{}}
	packs := objects(t, store, "packs/")
	for day, opts := range []engine.CheckOptions{{ReadData: 0.2}, {ReadData: 0.2}, {ReadBytes: 90 << 10}, {ReadData: 0.2, ReadBytes: 1}, {ReadData: 0.2}} {
		report := openAt(t, counted, clock).check(opts)
		if got := report.Verified.Within[2].Packs; got < uint64(4*(day+1)) || report.Verified.Packs != 20 {
			t.Errorf("day %d: %d of %d packs are verified", day, got, report.Verified.Packs)
		}
		clock.pass(24 * time.Hour)
	}
	for _, key := range packs {
		if n := counted.read[key]; n < 1 || n > 2 {
			t.Errorf("%s was read %d times", key, n)
		}
	}
	report := openAt(t, store, clock).check(engine.CheckOptions{})
	if v := report.Verified; v.Never.Packs != 0 || v.Within[0].Packs >= 20 || v.Within[1].Packs != 20 || report.ReadPacks != 0 {
		t.Errorf("verified %+v", v)
	}
	// One of those for which it is longest ago is next.
	record := verifiedRecord(t, store)
	counted.read = map[string]int{}
	openAt(t, counted, clock).check(engine.CheckOptions{ReadBytes: 1})
	read := 0
	for key := range counted.read {
		name, err := packfile.ParseName(strings.TrimPrefix(key, "packs/"))
		if err != nil {
			continue // no pack
		}
		read++
		if at, _ := record.Time(name); !at.Equal(report.Verified.Oldest) {
			t.Errorf("a pack of %v was read, the oldest is of %v", at, report.Verified.Oldest)
		}
	}
	if read != 1 {
		t.Errorf("%d packs were read", read)
	}
}

// verifiedRecord reads the record of a repository.
func verifiedRecord(t *testing.T, store objectstore.Store) verified.Record {
	t.Helper()
	content, err := keysOf(t, store).Sealer.Open(nil, seal.Verified, read(t, store, "verified"), verified.MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	record, err := verified.Decode(content)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// A pack that is gone leaves the record, a damaged one too.
func TestRecordHoldsWhatIsThereAndWhole(t *testing.T) {
	store, clock := manyPacks(t, 3), newWall()
	r := openAt(t, store, clock)
	r.check(engine.CheckOptions{ReadData: 1})
	packs := objects(t, store, "packs/")
	put(t, store, packs[0], flipMiddle.do(read(t, store, packs[0])))
	remove(t, store, packs[1])
	report, err := r.Check(t.Context(), engine.CheckOptions{ReadData: 1})
	if !errors.Is(err, engine.ErrDamaged) {
		t.Fatalf("check: %v", err)
	}
	if v := report.Verified; v.Packs != 2 || v.Within[0].Packs != 1 || v.Never.Packs != 1 {
		t.Errorf("verified %+v", v)
	}
	if record := verifiedRecord(t, store); record.Len() != 1 {
		t.Errorf("the record has %d packs", record.Len())
	}
}

// A check that is interrupted keeps what it verified; the next one goes on from there.
func TestInterruptedCheckKeepsItsRecord(t *testing.T) {
	store, clock := manyPacks(t, 12), newWall()
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	var mu sync.Mutex // guards reads
	interrupt := func(op fault.Op) fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind == fault.Get && len(op.Key) > 6 && op.Key[:6] == "packs/" {
			if reads++; reads == 7 {
				cancel()
			}
		}
		return fault.Fault{}
	}
	r := openAt(t, fault.New(store, interrupt), clock)
	if _, err := r.Check(ctx, engine.CheckOptions{ReadData: 1}); !errors.Is(err, context.Canceled) {
		t.Fatalf("check: %v", err)
	}
	report := openAt(t, store, clock).check(engine.CheckOptions{})
	done := report.Verified.Within[0].Packs
	if done == 0 || done > 11 {
		t.Errorf("%d packs are verified", done)
	}
	counted := &readKeys{Store: store, read: map[string]int{}}
	openAt(t, counted, clock).check(engine.CheckOptions{ReadData: float64(12-done) / 12})
	all := openAt(t, store, clock).check(engine.CheckOptions{})
	if left := all.Verified.Never.Packs; left > 1 {
		t.Errorf("%d packs are not verified after the rest was read", left)
	}
}

// A long check writes its record every few minutes, for when it is killed.
func TestLongCheckKeepsItsRecordNowAndThen(t *testing.T) {
	// One reader: of several, some may read all the rest while one writes, and a record
	// that is due then has nothing to add.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	store, clock := manyPacks(t, 12), newWall()
	slow := fault.New(store, func(op fault.Op) fault.Fault {
		if op.Kind == fault.Get && len(op.Key) > 6 && op.Key[:6] == "packs/" {
			clock.pass(time.Minute)
		}
		return fault.Fault{}
	})
	openAt(t, slow, clock).check(engine.CheckOptions{ReadData: 1})
	if n := slow.Counts("verified")[fault.Put]; n < 3 || n > 8 {
		t.Errorf("the record was written %d times in %v", n, clock.now())
	}
}

// Two checks at the same time do not lose what the other one found.
func TestChecksShareTheRecord(t *testing.T) {
	store, clock := manyPacks(t, 6), newWall()
	gets := 0
	// The second check runs when the first one is about to write: it reads the record
	// once more then.
	nested := fault.New(store, func(op fault.Op) fault.Fault {
		if op.Kind == fault.Get && op.Key == "verified" {
			if gets++; gets == 2 {
				openAt(t, store, clock).check(engine.CheckOptions{ReadData: 1})
			}
		}
		return fault.Fault{}
	})
	openAt(t, nested, clock).check(engine.CheckOptions{ReadData: 0.3})
	if report := openAt(t, store, clock).check(engine.CheckOptions{}); report.Verified.Never.Packs != 0 {
		t.Errorf("verified %+v", report.Verified)
	}
}

// A repository that cannot be written to can be checked.
func TestCheckOfAReadOnlyStore(t *testing.T) {
	store, clock := manyPacks(t, 2), newWall()
	r := openAt(t, fault.New(store, fault.On(fault.Put, "", fault.Fail(objectstore.ErrDenied))), clock)
	if report := r.check(engine.CheckOptions{ReadData: 1}); report.ReadPacks != 2 || report.Verified.Within[0].Packs != 2 {
		t.Errorf("report %+v", report)
	}
	if left := objects(t, store, "verified"); len(left) != 0 {
		t.Errorf("a record was written: %v", left)
	}
}
