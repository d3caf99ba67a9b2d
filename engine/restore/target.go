package restore

import (
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// target is the directory that a run writes to: the one that was asked for, if
// it exists, or a private one next to it that takes its name at the end.
//
// The private one is a directory "tree" in a directory of mode 0700: whatever
// the mode of the snapshot's root, nobody else can enter before all is done,
// and a later run can tell by the owner and mode of the outer one that nobody
// else made it.
type target struct {
	path      string
	root      int    // descriptor
	self      uint32 // the user that owns what this process creates
	pristine  bool   // nothing was in it
	leftovers bool   // a run was killed in it

	build *build // nil if the run works in place

	marked atomic.Bool
	mu     sync.Mutex // held while the marker is made
}

// build is the private directory of a target that does not exist yet.
type build struct {
	parent, outer         int // descriptors
	outerName, targetName string
}

const treeName = "tree"

// openTarget opens the target, or the private directory where it is built.
func openTarget(snap Snapshot, opts Options, euid int) (*target, error) {
	path := filepath.Clean(opts.Target)
	if opts.Target == "" {
		return nil, &Error{Op: "restore to", Path: "", Err: unix.ENOENT}
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	t := &target{path: path, root: fd, self: uint32(euid)}
	switch {
	case err == nil:
		err = t.openInPlace()
	case err == unix.ENOENT:
		err = t.openBuild(partialName(filepath.Base(path), snap, opts.Paths), euid)
	}
	if err != nil {
		t.close()
		return nil, &Error{Op: "restore to", Path: path, Err: explain(err)}
	}
	return t, nil
}

func (t *target) openInPlace() error {
	if err := lock(t.root); err != nil {
		return err
	}
	_, marked, err := statAt(t.root, markerName)
	t.leftovers = marked
	return err
}

// openBuild makes the private directory, or goes on in one that a killed run
// left.
func (t *target) openBuild(name string, euid int) error {
	if _, there, err := statAt(unix.AT_FDCWD, t.path); err != nil || there {
		return cmpErr(err, fmt.Errorf("%w: a symlink that leads nowhere", unix.ENOTDIR))
	}
	b := &build{parent: -1, outer: -1, outerName: name, targetName: filepath.Base(t.path)}
	t.build = b
	var err error
	if b.parent, err = unix.Open(filepath.Dir(t.path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open its parent: %w", err)
	}
	made := unix.Mkdirat(b.parent, name, dirMode)
	if made != nil && made != unix.EEXIST {
		return fmt.Errorf("make %s: %w", name, made)
	}
	if b.outer, err = openMade(b.parent, name, euid); err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	if err := t.secure(made == nil, euid); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err = unix.Mkdirat(b.outer, treeName, dirMode)
	t.pristine = err == nil
	t.leftovers = !t.pristine
	if err != nil && err != unix.EEXIST {
		return err
	}
	t.root, err = openMade(b.outer, treeName, euid)
	return err
}

// openMade opens a directory of this user, even if the umask, or a killed run
// that finished it, took the owner's rights away.
func openMade(dirfd int, name string, euid int) (int, error) {
	fd, err := unix.Openat(dirfd, name, dirFlags, 0)
	if err == unix.EACCES && loosenAt(dirfd, name, euid) == nil {
		fd, err = unix.Openat(dirfd, name, dirFlags, 0)
	}
	return fd, err
}

// secure makes the outer directory private if this run made it, and otherwise
// checks that it is, and that nobody else works in it.
func (t *target) secure(made bool, euid int) error {
	o := object{fd: t.build.outer}
	st, err := o.stat()
	if err != nil {
		return err
	}
	t.self = st.Uid
	switch {
	case made:
		if err := o.closeToOthers(st.Uid); err != nil {
			return err
		}
	case int(st.Uid) != euid || st.Mode&modeBits != dirMode:
		return fmt.Errorf("%w: it exists and is not private to this user", unix.EEXIST)
	}
	return lock(t.build.outer)
}

// lock makes sure that no other run works in a directory. The lock ends with
// the descriptor, also when the process is killed.
func lock(fd int) error {
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	switch err {
	case unix.EWOULDBLOCK:
		return ErrBusy
	case unix.ENOLCK, unix.EOPNOTSUPP, unix.EBADF, unix.EINVAL: // network filesystems
		return nil
	}
	return err
}

// partialName is the same for the same snapshot, target and paths, so that a
// run that was killed is continued. It is cut to the length of a name.
func partialName(name string, snap Snapshot, paths []string) string {
	suffix := partialMiddle + snap.Root.String()[:12]
	if len(paths) > 0 {
		sorted := slices.Clone(paths)
		slices.Sort(sorted)
		h := fnv.New64a()
		h.Write([]byte(strings.Join(sorted, "\x00")))
		suffix += fmt.Sprintf("-%016x", h.Sum64())
	}
	return "." + name[:min(len(name), 255-1-len(suffix))] + suffix
}

// cmpErr returns err, or other if that is nil.
func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// touch is called before anything in the target changes. It marks a target that
// is restored in place as incomplete; nothing is marked, nor any time changed,
// by a run that finds everything right.
func (t *target) touch() error {
	if t.build != nil || t.marked.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.marked.Load() {
		return nil
	}
	if err := t.mark(); err != nil {
		return fmt.Errorf("%w: %w", errNoMarker, err)
	}
	t.marked.Store(true)
	return nil
}

// errNoMarker ends a run: a target that nothing marks as incomplete must not be
// changed.
var errNoMarker = errors.New("cannot mark the target as incomplete")

func (t *target) mark() error {
	const flags = unix.O_RDONLY | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if t.leftovers { // whatever it is, it is not of this run
		if err := unix.Unlinkat(t.root, markerName, 0); err != nil {
			return fmt.Errorf("remove %s: %w", markerName, err)
		}
	}
	fd, err := unix.Openat(t.root, markerName, flags|unix.O_EXCL, tempMode)
	if err == unix.EACCES && loosen(t.root, int(t.self)) == nil {
		fd, err = unix.Openat(t.root, markerName, flags|unix.O_EXCL, tempMode)
	}
	if err != nil {
		return fmt.Errorf("make %s: %w", markerName, err)
	}
	defer unix.Close(fd)
	st, err := object{fd: fd}.stat()
	t.self = st.Uid
	return err
}

// unmark removes the marker, also one that a killed run left.
func (t *target) unmark() error {
	if t.build != nil || !t.marked.Load() && !t.leftovers {
		return nil
	}
	err := unix.Unlinkat(t.root, markerName, 0)
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// publish gives a target that was built aside its name. It is the commit of
// the restore.
func (t *target) publish() error {
	b := t.build
	if b == nil {
		return nil
	}
	restore, err := t.movable()
	if err != nil {
		return err
	}
	err = unix.Renameat2(b.outer, treeName, b.parent, b.targetName, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS {
		// The filesystem lacks the flag. A plain rename replaces an empty
		// directory at most, and only one that appeared just now.
		if _, there, _ := statAt(b.parent, b.targetName); there {
			err = unix.EEXIST
		} else {
			err = unix.Renameat(b.outer, treeName, b.parent, b.targetName)
		}
	}
	if err == nil {
		err = unix.Unlinkat(b.parent, b.outerName, unix.AT_REMOVEDIR)
	}
	return errors.Join(err, restore())
}

// movable lets its owner write to the root for as long as it is moved: only
// then may the parent of a directory change. It returns what undoes that.
func (t *target) movable() (undo func() error, err error) {
	o := object{fd: t.root}
	st, err := o.stat()
	if err != nil {
		return nil, err
	}
	mode := st.Mode & modeBits
	if unix.Faccessat(t.root, ".", unix.W_OK, unix.AT_EACCESS) == nil {
		return func() error { return nil }, nil
	}
	return func() error { return o.chmod(mode) }, o.chmod(mode | dirMode)
}

// free is how many bytes the target's filesystem has room for. ok is false if
// it does not tell.
func (t *target) free() (bytes uint64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(t.root, &st); err != nil || st.Blocks == 0 || st.Bsize <= 0 {
		return 0, false
	}
	blocks := st.Bavail
	if t.self == rootOwner {
		blocks = st.Bfree
	}
	return blocks * uint64(st.Bsize), true
}

// checkSpace fails before need bytes are written if they do not fit.
func (t *target) checkSpace(need uint64) error {
	free, ok := t.free()
	if !ok || need <= free {
		return nil
	}
	return &Error{Op: "write to", Path: t.path, Err: fmt.Errorf("%w: %d bytes to write, %d free", ErrNoSpace, need, free)}
}

func (t *target) sync() error {
	if err := unix.Syncfs(t.root); err != nil {
		return err
	}
	if t.build != nil {
		return unix.Fsync(t.build.parent)
	}
	return nil
}

func (t *target) close() {
	fds := []int{t.root}
	if t.build != nil {
		fds = append(fds, t.build.outer, t.build.parent)
	}
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
