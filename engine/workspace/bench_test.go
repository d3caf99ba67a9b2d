package workspace

import (
	"context"
	"flag"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/workspace/statcache"
	"github.com/snapctl/snapctl/packfile/blob"
)

var benchTree = flag.String("workspace.tree", "", "directory that benchmarks walk; by default this module's sources")

func benchDir() string {
	if *benchTree != "" {
		return *benchTree
	}
	return "../.."
}

// later makes every file old enough to be cached.
func later() time.Time { return time.Now().Add(time.Hour) }

func BenchmarkWalkUnchanged(b *testing.B) {
	s := newStore()
	s.light = true
	dir := b.TempDir()
	id := statcache.Identity{Root: benchDir()}
	opts := Options{Root: benchDir(), NewWriter: s.writer, Chunk: testParams, Reuse: ReuseTrusted, Now: later}
	walk := func() Result {
		cache, err := statcache.Open(dir, id)
		if err != nil {
			b.Fatal(err)
		}
		opts.Cache = cache
		result, err := Walk(context.Background(), opts)
		if err != nil {
			b.Fatal(err)
		}
		if err := cache.Commit(statcache.Base{Snapshot: blob.ID{1}, Dir: result.Dir}); err != nil {
			b.Fatal(err)
		}
		if err := cache.Close(); err != nil {
			b.Fatal(err)
		}
		return result
	}
	first := walk()
	before := cpuTime(b)
	for b.Loop() {
		result := walk()
		if result.FilesRead > 0 || result.Root != first.Root {
			b.Fatalf("read %d files, root %v, want none and %v", result.FilesRead, result.Root, first.Root)
		}
	}
	b.ReportMetric(float64(first.Counts.Files), "files")
	b.ReportMetric((cpuTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// cpuTime is what the process used so far, on a machine that is busy a better
// measure than time.
func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkWalkFirst(b *testing.B) {
	for _, cached := range []string{"without cache", "with cache"} {
		b.Run(cached, func(b *testing.B) {
			before := cpuTime(b)
			for b.Loop() {
				s := newStore()
				s.light = true
				opts := Options{Root: benchDir(), NewWriter: s.writer, Chunk: testParams, Now: later}
				if cached == "with cache" {
					cache, err := statcache.Open(b.TempDir(), statcache.Identity{})
					if err != nil {
						b.Fatal(err)
					}
					defer cache.Close()
					opts.Cache = cache
				}
				result, err := Walk(context.Background(), opts)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(result.BytesRead))
			}
			b.ReportMetric((cpuTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}
