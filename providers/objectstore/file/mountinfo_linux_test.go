package file_test

import (
	"bufio"
	"errors"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore/file"
)

// kernelNames are the names of /proc/self/mountinfo that differ from ours, most
// since they share a magic number.
var kernelNames = map[string]string{
	"nfs4":     "nfs",
	"smb3":     "smb2",
	"overlay":  "overlayfs",
	"ext2":     "ext4",
	"ext3":     "ext4",
	"devtmpfs": "tmpfs",
	"fuseblk":  "fuse",
	"virtiofs": "fuse",
	"msdos":    "vfat",
}

// TestFilesystemsMountedHere compares the names of all file systems that are
// mounted with those that the kernel gives them.
func TestFilesystemsMountedHere(t *testing.T) {
	compared := 0
	for dir, kernelName := range mounts(t) {
		store, err := file.Open(dir)
		if err != nil {
			if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s (%s): %v", dir, kernelName, err)
			}
			continue // hidden from us
		}
		got, cached := store.FilesystemType()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		want, _, isFUSE := strings.Cut(kernelName, ".") // fuse.sshfs
		if other, differs := kernelNames[want]; differs {
			want = other
		}
		if isFUSE && want != "fuse" {
			t.Errorf("%s: the kernel says %s", dir, kernelName)
		}
		if unnamed := strings.HasPrefix(got, "0x"); !unnamed && got != want {
			t.Errorf("%s is %s (%v), the kernel says %s", dir, got, cached, kernelName)
		}
		if got == want {
			compared++
		}
	}
	if compared == 0 {
		t.Error("no file system that is mounted here has a name")
	}
}

// mounts reads /proc/self/mountinfo: the directories at which file systems are
// mounted and their types. A later mount hides earlier ones there and below.
func mounts(t *testing.T) map[string]string {
	t.Helper()
	list, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	found := map[string]string{}
	for lines := bufio.NewScanner(list); lines.Scan(); {
		place, source, _ := strings.Cut(lines.Text(), " - ")
		dir, kind := strings.Fields(place)[4], strings.Fields(source)[0]
		maps.DeleteFunc(found, func(earlier, _ string) bool {
			return earlier == dir || strings.HasPrefix(earlier, strings.TrimSuffix(dir, "/")+"/")
		})
		if info, err := os.Stat(dir); err == nil && info.IsDir() && kind != "autofs" { // which mounts when it is looked at
			found[dir] = kind
		}
	}
	return found
}
