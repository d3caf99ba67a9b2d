package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
)

func TestXattrs(t *testing.T) {
	dir := shmDir(t) // tmpfs keeps user.* since Linux 6.6
	if err := unix.Setxattr(dir, "user.probe", []byte("x"), 0); err != nil {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, "f")
	write(t, path, "content")
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	long := bytes.Repeat([]byte("long"), 300)
	must(t, unix.Setxattr(path, "user.zz", []byte("short"), 0))
	must(t, unix.Setxattr(path, "user.long", long, 0))
	must(t, unix.Setxattr(path, "user.empty", nil, 0))
	must(t, unix.Setxattr(filepath.Join(dir, "d"), "user.dir", []byte("of a directory"), 0))
	must(t, unix.Setxattr(dir, "user.root", []byte("of the root"), 0))

	s := newStore()
	tree := mustTree(t, s, mustWalk(t, s, dir, nil))
	x := tree["f"].Xattrs
	if len(x) != 3 || x[0].Name != "user.empty" || x[1].Name != "user.long" || string(x[2].Value) != "short" {
		t.Fatalf("xattrs %+v", x)
	}
	if !bytes.Equal(s.blobs[x[1].Blob], long) || x[1].Size != 1200 {
		t.Errorf("long value %+v is not a blob of its own", x[1])
	}
	if x := tree["d"].Xattrs; len(x) != 1 || string(x[0].Value) != "of a directory" {
		t.Errorf("xattrs of a directory %+v", x)
	}
	if x := tree[""].Xattrs; !slices.ContainsFunc(x, func(x manifest.Xattr) bool { return x.Name == "user.root" }) {
		t.Errorf("xattrs of the root %+v", x)
	}
}

func TestXattrsByAllowList(t *testing.T) {
	f := newXattrFilter([]string{"trusted.overlay.*", "security.selinux"})
	for name, want := range map[string]bool{
		"user.a": true, "security.capability": true, "system.posix_acl_access": true, "system.posix_acl_default": true,
		"trusted.overlay.opaque": true, "security.selinux": true,
		"trusted.other": false, "security.capability2": false, "security.ima": false, "users": false,
	} {
		if f.keeps(name) != want {
			t.Errorf("%s: kept %t, want %t", name, !want, want)
		}
	}
}

func TestCapabilitiesOfFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ping")
	write(t, path, "program")
	// Version 2, effective, cap_net_raw permitted.
	value := []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if err := unix.Setxattr(path, "security.capability", value, 0); err != nil {
		t.Fatalf("set capability (needs root): %v", err)
	}
	s := newStore()
	tree := mustTree(t, s, mustWalk(t, s, dir, nil))
	if x := tree["ping"].Xattrs; len(x) != 1 || !bytes.Equal(x[0].Value, value) {
		t.Errorf("xattrs %+v", x)
	}
}
