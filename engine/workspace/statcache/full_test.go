package statcache

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/packfile/blob"
)

// On a disk that is full, writing the cache fails and closing it ends: Pebble
// would try a failed flush for ever. The next open works.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatalf("this test mounts a small filesystem and needs root: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	c := mustOpen(t, dir, testIdentity)
	s, err := c.Session()
	must(t, err)
	failed := false
	for i := range 20_000 {
		err := s.Put(fmt.Appendf(nil, "directory%06d", i), "", blob.ID{1}, func(yield func(*Entry) bool) {
			for _, e := range named("some", "names", "of", "entries") {
				if !yield(&e) {
					return
				}
			}
		})
		failed = failed || err != nil
	}
	failed = s.Close() != nil || failed
	failed = c.Commit(Base{Snapshot: blob.ID{1}, Dir: blob.ID{1}}) != nil || failed
	failed = c.Close() != nil || failed
	if !failed {
		t.Error("nothing failed on a full disk")
	}
	again := mustOpen(t, dir, testIdentity)
	if base, ok := again.Base(); ok {
		t.Errorf("base %v was kept although it was not written", base)
	}
	again.Close() // the disk is still full
}
