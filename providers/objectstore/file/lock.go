package file

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

const lockFile = ".lock"

// lockMode is how a change of an existing name is locked. A compare-and-swap
// is the only one that looks before it renames; it must be alone. Plain puts
// and deletes need only keep out of its way. A put-if-absent needs no lock: it
// succeeds only where a compare-and-swap fails.
type lockMode int

const (
	shared    lockMode = unix.LOCK_SH
	exclusive lockMode = unix.LOCK_EX
)

// lock takes the store's lock; closing the file releases it. It is held for a
// stat and a rename, a few microseconds, unless the holder is stopped: hence
// the polling, which a context can end.
func (s *Store) lock(ctx context.Context, mode lockMode) (*os.File, error) {
	path := pathIn(s.root, lockFile)
	fd, err := openat(int(s.root.Fd()), lockFile, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, explain(path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := flock(file, int(mode)|unix.LOCK_NB)
		if err == nil || mode == shared && noLocks(err) {
			return file, nil
		}
		if err == unix.EWOULDBLOCK {
			err = sleep(ctx, pause)
		}
		if err != nil {
			file.Close()
			return nil, explain(path, err)
		}
	}
}

// noLocks says that the file system has no locks, so that compare-and-swap
// fails on it and nothing else needs to wait.
func noLocks(err error) bool {
	return err == unix.ENOSYS || err == unix.ENOLCK || err == unix.EOPNOTSUPP
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func flock(file *os.File, how int) error {
	return retry(func() error { return unix.Flock(int(file.Fd()), how) })
}

var _ objectstore.Store = (*Store)(nil)
