package workspace

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/packfile/blob"
)

// A directory of a million files (see hugeDirectory): memory is bounded, and one file more changes
// little that is stored.
func TestHugeDirectory(t *testing.T) {
	const files = hugeDirectory
	s := &source{t: t, dir: shmDir(t), cache: t.TempDir(), store: newStore()}
	s.store.light = true
	makeEmptyFiles(t, s.dir, files)
	runtime.GC()
	before := peakMemory(t)
	first := s.snapshot(nil)
	t.Logf("peak memory %d MiB, %d MiB before; nodes of %d KiB", peakMemory(t)>>20, before>>20, s.store.added[blob.Tree]>>10)
	if first.Counts.Files != files {
		t.Errorf("counts %+v", first.Counts)
	}
	if peak := peakMemory(t); peak > before+hugeMemory {
		t.Errorf("peak memory grew from %d to %d MiB", before>>20, peak>>20)
	}
	write(t, s.path("f0050000x"), "")
	second := s.snapshot(nil)
	if second.Root == first.Root || second.FilesRead != 1 || second.Counts.Files != files+1 {
		t.Errorf("%d files read, counts %+v", second.FilesRead, second.Counts)
	}
	// One leaf of some thousand entries of about 20 bytes, the index and the root.
	if added := s.store.added[blob.Tree]; added > 256<<10 {
		t.Errorf("one file more adds %d bytes of nodes", added)
	}
	t.Logf("one file more: %d bytes of nodes, peak memory %d MiB", s.store.added[blob.Tree], peakMemory(t)>>20)
}

func makeEmptyFiles(t testing.TB, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(fd)
	for i := range n {
		must(t, unix.Mknodat(fd, fmt.Sprintf("f%07d", i), unix.S_IFREG|0o644, 0))
	}
}

// peakMemory is the largest size that the process had in memory so far.
func peakMemory(t testing.TB) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	must(t, err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			must(t, err)
			return kib << 10
		}
	}
	t.Fatal("the kernel does not tell the peak of memory")
	return 0
}
