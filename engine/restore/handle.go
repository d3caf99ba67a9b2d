package restore

import (
	"container/list"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// dir is a directory below the target. Everything but what handles guards is
// set before it is shared.
type dir struct {
	parent *dir // nil for the root
	name   string
	whole  bool // everything in it is to be restored, not only a path through it

	// private says that this run made the directory, with mode 0700, and has
	// not opened it to others yet: what is created in it has the owner that the
	// directory has, and inherits no ACL.
	private bool
	owner   owner

	absent bool // only in a plan: it would have to be made
	broken bool // its entries are not all known: nothing in it is extra
	rest   rest // what is left to do in it at the end

	// Guarded by handles.mu.
	id    inode // of the directory when it was first opened
	fd    int   // -1 while it is closed
	users int
	place *list.Element // among the open ones that nobody uses
}

type owner struct{ uid, gid uint32 }

// inode identifies a file of this host.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{dev: uint64(st.Dev), ino: st.Ino} }

func newDir(parent *dir, name string, whole bool) *dir {
	return &dir{parent: parent, name: name, whole: whole, fd: -1}
}

// path is relative to the root, whose path is empty.
func (d *dir) path() string { return d.below(nil) }

// below is the path from an ancestor.
func (d *dir) below(ancestor *dir) string {
	var names []string
	for ; d != ancestor && d.parent != nil; d = d.parent {
		names = append(names, d.name)
	}
	var b strings.Builder
	for i := len(names) - 1; i >= 0; i-- {
		b.WriteString(names[i])
		if i > 0 {
			b.WriteByte('/')
		}
	}
	return b.String()
}

// join is the path of an entry in d.
func (d *dir) join(name string) string {
	if d.parent == nil {
		return name
	}
	return d.path() + "/" + name
}

// place is an entry of a directory.
type place struct {
	dir  *dir
	name string
}

// path is that of the directory itself if there is no name.
func (p place) path() string {
	if p.name == "" {
		return p.dir.path()
	}
	return p.dir.join(p.name)
}

// handles keeps directories open that are used again and again, never more
// than limit beyond those in use. It is safe for concurrent use.
type handles struct {
	limit int

	mu   sync.Mutex // guards idle and fields of dir; not held while files are opened
	idle *list.List // of *dir; the last used first
}

// maxIdle leaves most of the usual 1,024 descriptors to files.
const maxIdle = 200

func newHandles(limit int) *handles { return &handles{limit: limit, idle: list.New()} }

// acquire opens the directory, or shares its descriptor, until release.
// ErrChanged if it is not the directory that it was before.
func (h *handles) acquire(d *dir) (int, error) {
	h.mu.Lock()
	if d.fd >= 0 {
		defer h.mu.Unlock()
		h.use(d)
		return d.fd, nil
	}
	base := d.parent
	for base.fd < 0 {
		base = base.parent
	}
	h.use(base)
	basefd := base.fd
	h.mu.Unlock()

	fd, id, err := open(basefd, d.below(base))
	h.release(base)
	if err != nil {
		return -1, err
	}
	return h.share(d, fd, id)
}

func open(basefd int, path string) (int, inode, error) {
	fd, err := openDir(basefd, path)
	if err != nil {
		return -1, inode{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, inode{}, err
	}
	return fd, inodeOf(&st), nil
}

// share makes fd the descriptor of d, unless somebody else was faster.
func (h *handles) share(d *dir, fd int, id inode) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.id != (inode{}) && d.id != id {
		unix.Close(fd)
		return -1, ErrChanged
	}
	d.id = id
	if d.fd >= 0 {
		unix.Close(fd)
	} else {
		d.fd = fd
	}
	h.use(d)
	return d.fd, nil
}

// use marks an open directory as used. The caller holds mu.
func (h *handles) use(d *dir) {
	d.users++
	if d.place != nil {
		h.idle.Remove(d.place)
		d.place = nil
	}
}

// release ends one use of an acquired directory.
func (h *handles) release(d *dir) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	d.place = h.idle.PushFront(d)
	for h.idle.Len() > h.limit {
		h.shut(h.idle.Back().Value.(*dir))
	}
}

// forget closes a directory that nobody uses any more.
func (h *handles) forget(d *dir) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.place != nil {
		h.shut(d)
	}
}

func (h *handles) shut(d *dir) {
	h.idle.Remove(d.place)
	unix.Close(d.fd)
	d.place, d.fd = nil, -1
}

// close closes what is open and idle.
func (h *handles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.idle.Len() > 0 {
		h.shut(h.idle.Back().Value.(*dir))
	}
}
