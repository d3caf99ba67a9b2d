package restore

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
	"golang.org/x/sys/unix"
)

// capNetRaw is the attribute of a file with cap_net_raw+ep.
var capNetRaw = []byte{1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// privilegedTree is a tree of things that need privileges, as a manifest, so
// that everybody can ask for it.
func privilegedTree(t testing.TB, src *memSource) Snapshot {
	mtime := manifest.Time{Sec: 1_500_000_000, Nsec: 7}
	data := src.put(blob.Data, []byte("\x7fELF"))
	file := manifest.Entry{Kind: manifest.File, MTime: mtime, Size: 4, Content: manifest.Content{Extents: []manifest.Extent{{Length: 4, ID: data}}}}
	with := func(name string, change func(*manifest.Entry)) manifest.Entry {
		e := file
		e.Name, e.Mode, e.UID, e.GID = name, 0o755, uint32(os.Geteuid()), uint32(os.Getegid())
		change(&e)
		return e
	}
	acl := "\x02\x00\x00\x00" + aclEntry(1, 7, -1) + aclEntry(2, 5, 12) + aclEntry(4, 5, -1) + aclEntry(16, 5, -1) + aclEntry(32, 5, -1)
	return rootOf(src, dirOf(t, src,
		with("acl", func(e *manifest.Entry) {
			e.Xattrs = []manifest.Xattr{{Name: "system.posix_acl_access", Value: []byte(acl)}}
		}),
		with("caps", func(e *manifest.Entry) {
			e.Mode = 0o4755
			e.Xattrs = []manifest.Xattr{{Name: "security.capability", Value: capNetRaw}, {Name: "user.note", Value: []byte("kept")}}
		}),
		with("chardev", func(e *manifest.Entry) {
			*e = manifest.Entry{Name: e.Name, Kind: manifest.CharDevice, Mode: 0o666, UID: e.UID, GID: e.GID, MTime: mtime, Device: manifest.Device{Major: 1, Minor: 3}}
		}),
		with("setgid dir", func(e *manifest.Entry) {
			*e = manifest.Entry{Name: e.Name, Kind: manifest.Dir, Mode: 0o3775, UID: e.UID, GID: e.GID, MTime: mtime, Node: dirOf(t, src)}
		}),
		with("setuid", func(e *manifest.Entry) { e.Mode = 0o6755 }),
		with("setuid of 7", func(e *manifest.Entry) { e.Mode, e.UID, e.GID = 0o4750, 7, 8 }),
		with("whiteout", func(e *manifest.Entry) {
			*e = manifest.Entry{Name: e.Name, Kind: manifest.CharDevice, Mode: 0o600, UID: e.UID, GID: e.GID, MTime: mtime}
		}),
	))
}

// modes lists what a restore made of the tree.
func modes(t testing.TB, dir string) map[string]uint32 {
	out := make(map[string]uint32)
	names, err := os.ReadDir(dir)
	must(t, err)
	for _, n := range names {
		var st unix.Stat_t
		must(t, unix.Lstat(dir+"/"+n.Name(), &st))
		out[n.Name()] = st.Mode
	}
	return out
}

func TestPrivileges(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	snap := privilegedTree(t, src)

	// Not asked for: nobody gets any.
	r := mustRun(t, src, snap, Options{Target: dir + "/plain"})
	m := modes(t, dir+"/plain")
	if m["setuid"] != unix.S_IFREG|0o755 || m["setuid of 7"] != unix.S_IFREG|0o750 || m["caps"] != unix.S_IFREG|0o755 {
		t.Errorf("modes %v", m)
	}
	if m["setgid dir"] != unix.S_IFDIR|0o3775 || m["chardev"] != 0 || m["whiteout"] != 0 {
		t.Errorf("modes %v", m)
	}
	if _, err := unix.Lgetxattr(dir+"/plain/caps", "security.capability", make([]byte, 64)); err != unix.ENODATA {
		t.Errorf("capability: %v", err)
	}
	if _, err := unix.Lgetxattr(dir+"/plain/caps", "user.note", make([]byte, 64)); err != nil {
		t.Error(err)
	}
	var skipped strings.Builder
	for _, s := range r.Skipped {
		skipped.WriteString(s.Path + ": " + s.Reason + "\n")
	}
	for _, want := range []string{"caps: xattr security.capability", "caps: mode", "setuid: mode", "setuid of 7: mode", "chardev: chardev", "whiteout: "} {
		if !strings.Contains(skipped.String(), want) {
			t.Errorf("%q is not among the skipped:\n%s", want, &skipped)
		}
	}
	before := stamps(t, dir+"/plain")
	mustRun(t, src, snap, Options{Target: dir + "/plain"})
	wantUntouched(t, dir+"/plain", before)

	// Asked for: root can, others are told what they cannot.
	opts := Options{Target: dir + "/all", Privileged: true, Special: SpecialAll}
	r, err := Run(t.Context(), src, snap, opts)
	if isRoot() {
		must(t, err)
		wantEqual(t, src, dir+"/all", snap)
		before := stamps(t, dir+"/all")
		mustRun(t, src, snap, opts)
		// What is there already and in the snapshot is not taken away again.
		mustRun(t, src, snap, Options{Target: dir + "/all"})
		wantUntouched(t, dir+"/all", before)
		return
	}
	if !errors.Is(err, ErrPartial) {
		t.Fatalf("got %v", err)
	}
	for _, f := range r.Failed {
		if f.Path != "caps" && f.Path != "chardev" {
			t.Errorf("failed: %v", f)
		}
	}
	m = modes(t, dir+"/all")
	if m["setuid"] != unix.S_IFREG|0o6755 {
		t.Errorf("a setuid file of one's own: %o", m["setuid"])
	}
	if m["setuid of 7"] != unix.S_IFREG|0o750 {
		t.Errorf("setuid for another user: %o", m["setuid of 7"])
	}
}

func TestOwners(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	entry := manifest.Entry{Name: "f", Kind: manifest.File, Mode: 0o4755, UID: 12, GID: 13}
	link := manifest.Entry{Name: "l", Kind: manifest.Symlink, Mode: 0o777, UID: 12, GID: 13, Target: "f"}
	snap := rootOf(src, dirOf(t, src, entry, link))
	me, group := uint32(os.Geteuid()), uint32(os.Getegid())
	mapped := func(uid, gid uint32) (uint32, uint32) { return uid + 100, gid + 100 }
	toMe := func(uint32, uint32) (uint32, uint32) { return me, group }
	for name, c := range map[string]struct {
		opts     Options
		root     owner // what it becomes for root
		other    owner
		otherErr error
		setuid   bool // for root
	}{
		"auto":   {Options{}, owner{12, 13}, owner{me, group}, nil, true},
		"stored": {Options{Owner: OwnerStored}, owner{12, 13}, owner{me, group}, ErrPartial, true},
		"caller": {Options{Owner: OwnerCaller}, owner{me, group}, owner{me, group}, nil, false},
		"mapped": {Options{MapOwner: mapped}, owner{112, 113}, owner{me, group}, nil, true},
		"to me":  {Options{MapOwner: toMe}, owner{me, group}, owner{me, group}, nil, true},
	} {
		c.opts.Target, c.opts.Privileged = dir+"/"+name, true
		for range 2 {
			_, err := Run(t.Context(), src, snap, c.opts)
			want, wantErr := c.other, c.otherErr
			if isRoot() {
				want, wantErr = c.root, nil
			}
			if !errors.Is(err, wantErr) {
				t.Errorf("%s: %v", name, err)
			}
			for _, file := range []string{"f", "l"} {
				var st unix.Stat_t
				must(t, unix.Lstat(c.opts.Target+"/"+file, &st))
				if got := (owner{st.Uid, st.Gid}); got != want {
					t.Errorf("%s: %s belongs to %v, want %v", name, file, got, want)
				}
				if setuid := st.Mode&unix.S_ISUID != 0; file == "f" && isRoot() && setuid != c.setuid {
					t.Errorf("%s: mode %o", name, st.Mode)
				}
			}
		}
	}
}

// TestOwnerThenMode: a change of owner takes the setuid bit away, so it is set
// again.
func TestOwnerThenMode(t *testing.T) {
	if !isRoot() {
		return // cannot give a file away
	}
	src, dir := newMemSource(), tempDir(t)
	file := manifest.Entry{Name: "f", Kind: manifest.File, Mode: 0o4755, UID: 12, GID: 13,
		Xattrs: []manifest.Xattr{{Name: "security.capability", Value: capNetRaw}}}
	snap := rootOf(src, dirOf(t, src, file))
	opts := Options{Target: dir + "/dst", Privileged: true}
	mustRun(t, src, snap, opts)
	must(t, os.Chown(dir+"/dst/f", 99, 99))
	must(t, unix.Chmod(dir+"/dst/f", 0o4755))
	must(t, unix.Setxattr(dir+"/dst/f", "security.capability", capNetRaw, 0))
	mustRun(t, src, snap, opts)
	wantEqual(t, src, dir+"/dst", snap)
}

// TestForeignXattrs: attributes that this program knows nothing of are only
// set by those who asked for privileges, and never removed.
func TestForeignXattrs(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	long := bytes.Repeat([]byte("long"), 300)
	file := manifest.Entry{Name: "f", Kind: manifest.File, Mode: 0o644, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Xattrs: []manifest.Xattr{
		{Name: "trusted.overlay.opaque", Value: []byte("y")},
		{Name: "user.long", Size: uint32(len(long)), Blob: src.put(blob.Data, long)},
	}}
	snap := rootOf(src, dirOf(t, src, file))
	r := mustRun(t, src, snap, Options{Target: dir + "/dst"})
	if len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, "trusted.overlay.opaque") {
		t.Errorf("skipped %v", r.Skipped)
	}
	buf := make([]byte, 4096)
	if n, err := unix.Lgetxattr(dir+"/dst/f", "user.long", buf); err != nil || !bytes.Equal(buf[:n], long) {
		t.Errorf("%q, %v", buf[:n], err)
	}
	if isRoot() {
		must(t, unix.Setxattr(dir+"/dst/f", "trusted.mine", []byte("1"), 0))
	}
	must(t, unix.Setxattr(dir+"/dst/f", "user.extra", []byte("1"), 0))
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	if _, err := unix.Lgetxattr(dir+"/dst/f", "user.extra", buf); err != unix.ENODATA {
		t.Errorf("user.extra: %v", err)
	}
	if _, err := unix.Lgetxattr(dir+"/dst/f", "trusted.mine", buf); isRoot() && err != nil {
		t.Errorf("trusted.mine: %v", err)
	}
	before := stamps(t, dir+"/dst")
	mustRun(t, src, snap, Options{Target: dir + "/dst"})
	wantUntouched(t, dir+"/dst", before)
}

// TestSparse restores a file of 10 GiB with 4 KiB in it, and one with zeros
// between its data that are too short to be holes in the snapshot.
func TestSparse(t *testing.T) {
	src, dir := newMemSource(), tempDir(t)
	const size = 10 << 30
	page := bytes.Repeat([]byte{7}, 4096)
	mixed := bytes.Repeat(append(append([]byte{}, page...), make([]byte, 3*4096)...), 4)
	mixed = append(mixed, make([]byte, testHole)...)
	mixed = append(mixed, page[:100]...)
	content, err := contentOf(src, mixed)
	must(t, err)
	me := manifest.Entry{Kind: manifest.File, Mode: 0o644, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	huge, some := me, me
	huge.Name, huge.Size = "huge", size
	huge.Content.Extents = []manifest.Extent{{Length: 1 << 30}, {Length: 4096, ID: src.put(blob.Data, page)}, {Length: size - 1<<30 - 4096}}
	some.Name, some.Size, some.Content = "some", uint64(len(mixed)), content
	snap := rootOf(src, dirOf(t, src, huge, some))
	snap.Bytes = size
	for _, opts := range []Options{{}, {Rescan: true}} {
		opts.Target = dir + "/dst"
		mustRun(t, src, snap, opts)
		var st unix.Stat_t
		must(t, unix.Lstat(dir+"/dst/huge", &st))
		if st.Size != size || st.Blocks > 64 {
			t.Errorf("%d bytes in %d blocks", st.Size, st.Blocks)
		}
		must(t, unix.Lstat(dir+"/dst/some", &st))
		if st.Blocks > 5*8 {
			t.Errorf("%d blocks for five pages", st.Blocks)
		}
		got, err := os.ReadFile(dir + "/dst/some")
		must(t, err)
		if !bytes.Equal(got, mixed) {
			t.Error("the content differs")
		}
	}
	// One byte in a hole is found by content only.
	f, err := os.OpenFile(dir+"/dst/huge", os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{1}, size/2)
	must(t, err)
	must(t, f.Close())
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/dst/huge", []unix.Timespec{{}, {}}, 0))
	if r := mustRun(t, src, snap, Options{Target: dir + "/dst", Rescan: true}); r.Updated != 1 {
		t.Errorf("%+v", r)
	}
}
