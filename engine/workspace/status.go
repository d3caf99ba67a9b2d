package workspace

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/statcache"
)

// status is what stat(2) says of an entry.
type status struct {
	statcache.Stat
	dev, rdev uint64
	nlink     uint64
	sparse    bool // has fewer blocks than bytes
}

// inode identifies a file while the walk runs.
type inode struct{ dev, ino uint64 }

func (s *status) inode() inode { return inode{s.dev, s.Ino} }

// sameFile reports whether both describe one inode that did not change its type.
func (s *status) sameFile(o *status) bool {
	return s.dev == o.dev && s.Ino == o.Ino && s.Mode&unix.S_IFMT == o.Mode&unix.S_IFMT
}

func (s *status) kind() manifest.EntryKind {
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return manifest.File
	case unix.S_IFDIR:
		return manifest.Dir
	case unix.S_IFLNK:
		return manifest.Symlink
	case unix.S_IFIFO:
		return manifest.FIFO
	case unix.S_IFSOCK:
		return manifest.Socket
	case unix.S_IFCHR:
		return manifest.CharDevice
	case unix.S_IFBLK:
		return manifest.BlockDevice
	}
	return 0
}

func statusOf(st *unix.Stat_t) status {
	return status{
		Stat: statcache.Stat{
			Ino:   st.Ino,
			Size:  max(0, st.Size),
			CTime: timeOf(st.Ctim),
			MTime: timeOf(st.Mtim),
			Mode:  st.Mode,
			UID:   st.Uid,
			GID:   st.Gid,
		},
		dev:    uint64(st.Dev),
		rdev:   uint64(st.Rdev),
		nlink:  uint64(st.Nlink),
		sparse: st.Blocks*512 < st.Size,
	}
}

// timeOf takes a broken number of nanoseconds, which user-space filesystems may
// pass through, for none.
func timeOf(t unix.Timespec) manifest.Time {
	sec, nsec := t.Unix()
	if nsec < 0 || nsec > 999_999_999 {
		nsec = 0
	}
	return manifest.Time{Sec: sec, Nsec: uint32(nsec)}
}

func fstat(fd int) (status, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(fd, &st) })
	return statusOf(&st), err
}

func fstatat(dirfd int, name string) (status, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return statusOf(&st), err
}

// retry repeats a call that a signal interrupted; Go's runtime sends signals to
// preempt goroutines.
func retry(call func() error) error {
	for {
		err := call()
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// granule is the distance within which two changes of a file may leave equal
// times, with some margin: on the common filesystems times come from a clock
// that ticks every 1 to 10 ms; FAT counts in 2 s, of others nothing is known.
func granule(fd int) time.Duration {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return coarseGranule
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return fineGranule
	}
	return coarseGranule
}

const (
	fineGranule   = 20 * time.Millisecond
	coarseGranule = 2 * time.Second
)

// clockSlack is how far ahead of the clock an mtime may lie and still be that
// of a change; beyond it somebody set it, and the next change will show.
const clockSlack = time.Minute

// fresh reports whether a change after now, when the status was taken, might
// leave the same times: ctime or mtime are not older than the granule. A ctime
// in the future is never believed.
func fresh(s *statcache.Stat, now time.Time, granule time.Duration) bool {
	limit := now.Add(-granule)
	if !s.CTime.Time().Before(limit) {
		return true
	}
	mtime := s.MTime.Time()
	return !mtime.Before(limit) && mtime.Before(now.Add(clockSlack))
}
