package cache

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	shards    = 256
	shardLen  = 2 // hexadecimal digits
	tempStart = "."

	// touchAfter is how old the time of last use of a block may become before a
	// read renews it.
	touchAfter = time.Minute

	// writePause is how long nothing is written after a write failed: a full
	// disk is not made better by trying it with every block.
	writePause = time.Minute

	// dropWindow is how many block numbers are tried at a time to drop an object
	// of unknown size: 32 MiB.
	dropWindow = 128
)

// disk keeps blocks in files of a directory: a folder for each shard, in it a
// file for each block, written under a temporary name and renamed. Its
// modification time is when the block was last used. Nothing is synced: what a
// power failure damages, the checksum finds.
type disk struct {
	root *os.Root
	now  func() time.Time

	limit  int64 // bytes of one shard
	slack  int64 // bytes written to a shard between two looks at it
	shards [shards]shard

	warn     func(error)
	warnOnce sync.Once
	resumeAt atomic.Int64 // Unix nanoseconds; nothing is written earlier

	dropped, evicted atomic.Int64
}

func newDisk(root *os.Root, opts Options, size int) *disk {
	limit := opts.MaxBytes / shards
	return &disk{
		root:  root,
		now:   time.Now,
		limit: limit,
		slack: max(limit/8, occupied(int64(len(newBlock(size).buffer)))),
		warn:  opts.Warn,
	}
}

// openPrivate opens a directory, making it if need be. It refuses one that
// others can enter, or made: below /tmp anybody may have been first.
func openPrivate(dir string) (*os.Root, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	named, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	opened, err := root.Stat(".")
	if err == nil && !(isPrivate(opened) && os.SameFile(named, opened)) {
		err = fmt.Errorf("%s is not a directory that only this user can enter", dir)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

func isPrivate(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return info.IsDir() && info.Mode().Perm()&0o077 == 0 && ok && int(stat.Uid) == os.Geteuid()
}

// read reads a block into b. False if it is not there or not what it should be.
func (d *disk) read(b *block, at place) bool {
	name := at.file()
	file, err := d.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		d.report(err)
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil {
		err = b.decode(file, info.Size(), at)
	}
	if err != nil {
		d.dropped.Add(1)
		_ = d.root.Remove(name) // another process may have been faster
		return false
	}
	d.touch(name, info.ModTime())
	return true
}

// touch notes that a block was used, if the last note is old, or of a clock
// that was wrong.
func (d *disk) touch(name string, noted time.Time) {
	now := d.now()
	if now.Sub(noted).Abs() >= touchAfter {
		_ = d.root.Chtimes(name, time.Time{}, now) // it may have been evicted just now
	}
}

// has says whether there is a file for the block, good or not.
func (d *disk) has(at place) bool {
	_, err := d.root.Lstat(at.file())
	return err == nil
}

// keep stores a block, or reports why it cannot.
func (d *disk) keep(b *block) {
	if d.isPaused() {
		return
	}
	if err := d.write(b.at.file(), b.encode()); err != nil {
		d.resumeAt.Store(d.now().Add(writePause).UnixNano())
		d.report(err)
	}
}

// isPaused says that nothing is kept at the moment.
func (d *disk) isPaused() bool { return d.now().UnixNano() < d.resumeAt.Load() }

func (d *disk) write(name string, content []byte) error {
	folder := name[:shardLen]
	if err := d.makeRoom(folder, occupied(int64(len(content)))); err != nil {
		return err
	}
	temp := folder + "/" + tempStart + rand.Text()
	err := d.writeTemp(temp, content)
	if err == nil {
		err = d.root.Rename(temp, name)
	}
	if err != nil {
		_ = d.root.Remove(temp) // the next sweep of a day later gets it otherwise
	}
	return err
}

func (d *disk) writeTemp(temp string, content []byte) error {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	file, err := d.root.OpenFile(temp, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.root.Mkdir(temp[:shardLen], 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		file, err = d.root.OpenFile(temp, flags, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// drop removes the blocks of an object. Of one larger than 32 MiB it may miss
// some behind a gap of that size; they age like others.
func (d *disk) drop(key string) {
	for from := int64(0); ; from += dropWindow {
		found := false
		for n := from; n < from+dropWindow; n++ {
			found = d.root.Remove(place{key, n}.file()) == nil || found
		}
		if !found {
			return
		}
	}
}

// report tells the first of many troubles.
func (d *disk) report(err error) {
	if d.warn != nil {
		d.warnOnce.Do(func() { d.warn(fmt.Errorf("cache is passed by: %w", err)) })
	}
}
