package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/chunk"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/statcache"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Writer takes the blobs of one worker. It is used by one goroutine at a time;
// consecutive blobs are neighbours in the tree. An error ends the walk.
type Writer interface {
	// Put stores plaintext unless it is stored already, and returns its id. It
	// must not keep plaintext.
	Put(ctx context.Context, kind blob.Kind, plaintext []byte) (blob.ID, error)
	// Has reports whether the blob is stored and may be referred to.
	Has(ctx context.Context, id blob.ID) (bool, error)
	// Flush ends what Put left open. It is called once, last, unless the walk
	// failed.
	Flush(ctx context.Context) error
}

// Reuse says how much of the cache a walk believes.
type Reuse uint8

const (
	// ReuseConfirmed reads no file that the cache knows unchanged, but asks the
	// Writer for each of its blobs. Directories are encoded again.
	ReuseConfirmed Reuse = iota
	// ReuseTrusted does not ask for what the base snapshot of the cache reaches.
	// The caller knows that this snapshot is complete.
	ReuseTrusted
	// ReuseNothing reads every file. The cache is written all the same.
	ReuseNothing
)

// Options say what to walk and how. Root or Dir, NewWriter and Chunk are needed.
type Options struct {
	Root string   // path of the directory; a symbolic link is followed here, and only here
	Dir  *os.File // an open directory, instead of Root; the walk does not close it

	// Workers is the number of goroutines; by default one a CPU, at most four.
	// Each needs a Writer and about 7 MiB.
	Workers   int
	NewWriter func() Writer
	Chunk     chunk.Params // how files are cut: parameters of the repository

	Rules            Rules // nil: nothing is left out
	OneFileSystem    bool  // a mount point below the root becomes an empty directory, reported as excluded
	SkipTaggedCaches bool  // of a directory with a CACHEDIR.TAG keep only that (https://bford.info/cachedir/)
	// Xattrs are names of extended attributes to keep, or prefixes of names ending
	// in '*', beside those always kept: user.*, security.capability and POSIX ACLs.
	Xattrs []string

	Cache   *statcache.Cache // nil: every file is read
	Reuse   Reuse
	GetNode manifest.GetNode // to confirm content lists of very large files; without it they are read again
	Sync    bool             // flush the filesystem first (syncfs), so that writes through shared mappings count

	Progress *Progress        // updated as the walk goes on; may be nil
	Now      func() time.Time // by default time.Now; decides which files are too fresh to be cached

	hooks hooks
}

// Progress counts what a walk has done so far. Its fields are read while the
// walk runs.
type Progress struct {
	Files     atomic.Uint64 // read or found unchanged
	Dirs      atomic.Uint64 // listed
	Bytes     atomic.Uint64 // of those files
	BytesRead atomic.Uint64 // of file content
}

// Result is a tree that was read.
type Result struct {
	Root      blob.ID // of the root node: manifest.Manifest.Root
	Dir       blob.ID // of the root directory's own node: statcache.Base.Dir
	Links     blob.ID // of the hard-link groups; zero if there are none
	Counts    manifest.Counts
	Omissions []manifest.Omission // the first of them in the order of paths

	FilesRead   uint64
	FilesReused uint64 // known unchanged from the cache
	DirsReused  uint64 // not even encoded
	BytesRead   uint64 // of file content

	// CacheErr says why the cache does not hold this walk. The result is complete;
	// the next walk has to read more.
	CacheErr error
}

// Partial reports whether something could not be read.
func (r *Result) Partial() bool { return r.Counts.Unreadable > 0 }

// Torn reports whether a file changed while it was read.
func (r *Result) Torn() bool { return r.Counts.Torn > 0 }

// maxDefaultWorkers is where more workers stop to help: directory operations
// contend in the kernel, and each worker costs memory.
const maxDefaultWorkers = 4

func (o Options) withDefaults() (Options, error) {
	if o.Workers <= 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), maxDefaultWorkers)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = new(Progress)
	}
	if o.NewWriter == nil || o.Root == "" && o.Dir == nil {
		return o, errors.New("walk: root and writer are needed")
	}
	if err := o.Chunk.Check(); err != nil {
		return o, fmt.Errorf("walk: %w", err)
	}
	return o, nil
}

// hooks let tests change the tree at chosen moments.
type hooks struct {
	beforeOpen func(path string)              // a file or directory was listed, and is opened next
	afterRead  func(path string, attempt int) // content was read; the last fstat comes next
}

// walk is what the workers share.
type walk struct {
	opts      Options
	xattrs    xattrFilter
	sched     *scheduler
	fds       *fdPool
	links     *links
	omissions *omissions
	buffers   *buffers
	workers   []*worker
	root      *dir
	rootNode  blob.ID // of the root directory, once it is finished
	rootXattr []manifest.Xattr

	cacheMu  sync.Mutex
	cacheErr error // the first one
}

// Walk reads the tree. The error of a Writer, a missing root and the end of ctx
// end it; entries that cannot be read and errors of the cache do not. When it
// returns, none of its goroutines and descriptors are left.
func Walk(ctx context.Context, opts Options) (result Result, err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return Result{}, err
	}
	w := &walk{
		opts:      opts,
		xattrs:    newXattrFilter(opts.Xattrs),
		sched:     newScheduler(opts.Workers),
		fds:       newFDPool(),
		links:     newLinks(),
		omissions: new(omissions),
		buffers:   &buffers{size: opts.Chunk.Max},
	}
	defer w.fds.closeAll()
	if err := w.openRoot(); err != nil {
		return Result{}, fmt.Errorf("walk: %w", err)
	}
	w.makeWorkers(ctx)
	err = w.run(ctx)
	if err == nil {
		err = w.finish(ctx, &result)
	}
	w.closeSessions()
	if err != nil {
		return Result{}, fmt.Errorf("walk: %w", err)
	}
	result.CacheErr = w.cacheErr
	return result, nil
}

// openRoot opens the root directory and makes it the first one in use.
func (w *walk) openRoot() error {
	fd, err := w.openRootFD()
	if err != nil {
		return err
	}
	st, err := fstat(fd)
	if err == nil {
		err = w.syncFilesystem(fd)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	w.root = &dir{status: st, rules: w.opts.Rules, granule: granule(fd), linkDir: -1}
	if w.opts.Cache != nil && w.opts.Reuse == ReuseTrusted {
		w.root.expected = w.opts.Cache.TrustedDir()
	}
	w.fds.add(w.root, fd)
	w.fds.need(w.root, 1) // never met: every chain of directories to open again ends here
	_, err = w.fds.acquire(w.root)
	return err
}

func (w *walk) openRootFD() (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	if w.opts.Dir != nil {
		// A descriptor of its own: reading a directory moves an offset.
		fd, err := unix.Openat(int(w.opts.Dir.Fd()), ".", flags, 0)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: w.opts.Dir.Name(), Err: err}
		}
		return fd, nil
	}
	fd, err := unix.Open(w.opts.Root, flags, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: w.opts.Root, Err: err}
	}
	return fd, nil
}

func (w *walk) syncFilesystem(fd int) error {
	if !w.opts.Sync {
		return nil
	}
	if err := unix.Syncfs(fd); err != nil {
		return fmt.Errorf("sync filesystem: %w", err)
	}
	return nil
}

// makeWorkers gives each worker a session with the cache, or none of them: they
// write parts of one record.
func (w *walk) makeWorkers(ctx context.Context) {
	for i := range w.opts.Workers {
		w.workers = append(w.workers, &worker{ctx: ctx, id: i, walk: w, writer: w.opts.NewWriter()})
	}
	if w.opts.Cache == nil {
		return
	}
	for _, worker := range w.workers {
		session, err := w.opts.Cache.Session()
		if err != nil {
			w.closeSessions()
			w.cacheFailed(err)
			return
		}
		worker.session = session
	}
}

// run lets the workers go through the tree.
func (w *walk) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, w.sched.stop)
	defer stop()
	for i, worker := range w.workers {
		group.Go(func() error {
			worker.ctx = ctx
			if i == 0 {
				if err := worker.beginRoot(); err != nil {
					return err
				}
			}
			return worker.run()
		})
	}
	return group.Wait()
}

// finish stores what describes the whole tree and adds up the result.
func (w *walk) finish(ctx context.Context, result *Result) error {
	first := w.workers[0]
	first.ctx = ctx
	root := entry{status: w.root.status, node: w.rootNode, xattrs: w.rootXattr}
	id, err := first.putNode(manifest.EncodeRoot(root.manifestEntry()))
	if err != nil {
		return err
	}
	links, err := w.links.write(ctx, first.putNode)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, worker := range w.workers {
		result.add(&worker.result)
		group.Go(func() error { return worker.writer.Flush(ctx) })
	}
	result.Root, result.Dir, result.Links = id, w.rootNode, links
	result.Omissions = w.omissions.sorted()
	return group.Wait()
}

func (r *Result) add(o *Result) {
	r.Counts.Files += o.Counts.Files
	r.Counts.Dirs += o.Counts.Dirs
	r.Counts.Symlinks += o.Counts.Symlinks
	r.Counts.Others += o.Counts.Others
	r.Counts.Bytes += o.Counts.Bytes
	r.Counts.Excluded += o.Counts.Excluded
	r.Counts.Unreadable += o.Counts.Unreadable
	r.Counts.Torn += o.Counts.Torn
	r.Counts.Vanished += o.Counts.Vanished
	r.FilesRead += o.FilesRead
	r.FilesReused += o.FilesReused
	r.DirsReused += o.DirsReused
	r.BytesRead += o.BytesRead
}

func (w *walk) closeSessions() {
	for _, worker := range w.workers {
		if worker.session != nil {
			worker.noteCache(worker.session.Close())
			worker.session = nil
		}
	}
}

// cacheFailed keeps the first error of the cache.
func (w *walk) cacheFailed(err error) {
	w.cacheMu.Lock()
	defer w.cacheMu.Unlock()
	if w.cacheErr == nil {
		w.cacheErr = err
	}
}
