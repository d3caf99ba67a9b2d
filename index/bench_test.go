package index

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore/file"
	"golang.org/x/sys/unix"
)

// The numbers in the documentation come from
//
//	TMPDIR=/dev/shm go test -run '^$' -bench Lookup -blobs 10000000 ./index
var benchBlobs = flag.Int("blobs", 200_000, "blobs in the index of the benchmarks")

const (
	blobsPerBenchPack    = 1000
	packsPerBenchSegment = 400
)

// fillStore writes segments of n blobs into a directory, outside of the memory
// that is measured.
func fillStore(b *testing.B, n int) *file.Store {
	store, err := file.Open(b.TempDir())
	check(b, err)
	var packs []packfile.Pack
	for first := 0; first < n; first += blobsPerBenchPack {
		packs = append(packs, testPack(first/blobsPerBenchPack, span(first, min(first+blobsPerBenchPack, n))...))
		if len(packs) == packsPerBenchSegment || first+blobsPerBenchPack >= n {
			writeSegments(b, store, packs...)
			packs = packs[:0]
		}
	}
	return store
}

// memory reads a line of /proc/self/status, in MiB.
func memory(b *testing.B, field string) float64 {
	f, err := os.Open("/proc/self/status")
	check(b, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), field+":"); ok {
			var kib float64
			_, err := fmt.Sscan(rest, &kib)
			check(b, err)
			return kib / 1024
		}
	}
	b.Fatalf("no %s in /proc/self/status", field)
	return 0
}

// processorTime is what the process has used, in all threads: on a busy machine
// it says more than the clock.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	check(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchDB(b *testing.B) *DB {
	store := fillStore(b, *benchBlobs)
	debug.FreeOSMemory()
	check(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // VmHWM starts again
	before := memory(b, "VmRSS")
	db, err := Open(b.TempDir(), "bench", Options{})
	check(b, err)
	b.Cleanup(func() { check(b, db.Close()) })
	start, used := time.Now(), processorTime(b)
	syncDB(b, db, store)
	b.Logf("%d blobs: loaded in %.1f s (%.1f s of processor time), RSS %.0f MiB before, at most %.0f MiB meanwhile; %d MB on disk",
		db.Known().Blobs, time.Since(start).Seconds(), (processorTime(b) - used).Seconds(), before, memory(b, "VmHWM"),
		db.pebble.Metrics().DiskSpaceUsage()/1e6)
	return db
}

func BenchmarkLookup(b *testing.B) {
	db := benchDB(b)
	check(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
	for _, c := range []struct {
		name  string
		first int
		found bool
	}{{"hit", 0, true}, {"miss", *benchBlobs, false}} {
		ids := make([]blob.ID, min(*benchBlobs, 1<<20))
		for i := range ids {
			ids[i] = testID(c.first + rand.IntN(*benchBlobs))
		}
		b.Run(c.name, func(b *testing.B) {
			r := db.NewReader(nil)
			defer r.Close()
			b.ReportAllocs()
			used := processorTime(b)
			for i := 0; b.Loop(); i++ {
				if _, ok, err := r.Lookup(ids[i%len(ids)]); ok != c.found || err != nil {
					b.Fatal(ok, err)
				}
			}
			b.ReportMetric(float64((processorTime(b)-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(memory(b, "VmHWM"), "peak-MiB")
			b.ReportMetric(memory(b, "VmRSS"), "MiB")
		})
	}
}
