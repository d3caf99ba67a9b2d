package workspace

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// maxDirFDs bounds the descriptors of directories that wait for their children.
// More are needed only in trees deeper than this; then those unused the longest
// are closed and opened again, one name after the other from the nearest open
// ancestor. Unwinding a chain of depth d costs about d*d/2/maxDirFDs opens.
const maxDirFDs = 192

// errMoved says that a directory is no longer where it was listed.
var errMoved = errors.New("directory was moved or replaced")

// handle is the descriptor of a directory. Its fields belong to fdPool.
type handle struct {
	fd           int  // -1 if closed
	users        int  // holders at the moment
	needs        int  // steps that will ask for it; at 0 it is closed for good
	newer, older *dir // neighbours in the ring of idle ones; nil in use
}

// fdPool hands out the descriptors of directories.
type fdPool struct {
	mu   sync.Mutex
	open map[*dir]struct{}
	idle dir // ring of directories without users, most recent first
}

func newFDPool() *fdPool {
	p := &fdPool{open: map[*dir]struct{}{}}
	p.idle.older, p.idle.newer = &p.idle, &p.idle
	return p
}

// add takes over the descriptor of a new directory. It is in use by the caller,
// who needs it for one step.
func (p *fdPool) add(d *dir, fd int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.fd, d.users, d.needs = fd, 1, 1
	p.open[d] = struct{}{}
	p.evict()
}

// need announces n further steps.
func (p *fdPool) need(d *dir, n int) {
	p.mu.Lock()
	d.needs += n
	p.mu.Unlock()
}

// acquire returns the descriptor of d, opened again if it was closed. Each
// acquire is followed by a release or a done.
func (p *fdPool) acquire(d *dir) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.fd < 0 {
		return d.fd, p.reopen(d)
	}
	p.hold(d)
	return d.fd, nil
}

func (p *fdPool) hold(d *dir) {
	if d.users == 0 && d.newer != nil {
		d.newer.older, d.older.newer = d.older, d.newer
		d.newer, d.older = nil, nil
	}
	d.users++
}

// release ends a use of d.
func (p *fdPool) release(d *dir) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unhold(d)
}

// done ends a use of d and the step that it was for. A step that could not
// acquire says skip instead.
func (p *fdPool) done(d *dir) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.needs--
	p.unhold(d)
}

// skip ends a step that did not acquire d.
func (p *fdPool) skip(d *dir) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.needs--; d.needs == 0 && d.users == 0 && d.fd >= 0 {
		p.hold(d)
		p.unhold(d)
	}
}

func (p *fdPool) unhold(d *dir) {
	if d.users--; d.users > 0 {
		return
	}
	if d.needs == 0 {
		p.close(d)
		return
	}
	first := p.idle.older
	d.newer, d.older = &p.idle, first
	p.idle.older, first.newer = d, d
	p.evict()
}

func (p *fdPool) close(d *dir) {
	unix.Close(d.fd)
	d.fd = -1
	delete(p.open, d)
}

// evict closes what is unused the longest.
func (p *fdPool) evict() {
	for len(p.open) > maxDirFDs && p.idle.newer != &p.idle {
		d := p.idle.newer
		p.hold(d)
		d.users = 0
		p.close(d)
	}
}

// reopen opens the ancestors of d that are closed, and d, which it holds. It
// runs under the lock: it is rare, and two workers would open the same
// directories.
func (p *fdPool) reopen(d *dir) error {
	var chain []*dir
	above := d
	for ; above.fd < 0; above = above.parent {
		chain = append(chain, above)
	}
	p.hold(above)
	for i := len(chain) - 1; i >= 0; i-- {
		a := chain[i]
		fd, err := openDir(above.fd, a.name, &a.status)
		if err != nil {
			p.unhold(above)
			if isReplaced(err) {
				err = errMoved
			}
			return err
		}
		a.fd = fd
		p.open[a] = struct{}{}
		p.hold(a)
		p.unhold(above)
		above = a
	}
	return nil
}

// closeAll closes what is open when the walk is over, however it ended.
func (p *fdPool) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d := range p.open {
		unix.Close(d.fd)
	}
	clear(p.open)
}

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// openDir opens the directory called name in another one. It is errMoved if
// that is not the directory that was listed.
func openDir(dirfd int, name string, want *status) (int, error) {
	fd, err := openat(dirfd, name, dirFlags, want.UID)
	if err != nil {
		return -1, err
	}
	st, err := fstat(fd)
	if err == nil && !st.sameFile(want) {
		err = errMoved
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// isReplaced tells errors of opening a directory that is something else by now.
func isReplaced(err error) bool {
	return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, errMoved)
}

// openat opens without touching the access time where that is permitted: to the
// owner, and to root.
func openat(dirfd int, name string, flags int, owner uint32) (int, error) {
	if euid := effectiveUID(); euid == 0 || euid == owner {
		fd, err := openRetry(dirfd, name, flags|unix.O_NOATIME)
		if !errors.Is(err, unix.EPERM) {
			return fd, err
		}
	}
	return openRetry(dirfd, name, flags)
}

// effectiveUID is asked for once: the call would cost as much as opening.
var effectiveUID = sync.OnceValue(func() uint32 { return uint32(unix.Geteuid()) })

func openRetry(dirfd int, name string, flags int) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dirfd, name, flags, 0)
		return err
	})
	return fd, err
}
