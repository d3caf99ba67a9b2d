package file

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

const tempFolder = ".tmp"

// tempFile is an object that has no name yet. While it is open it is locked
// (flock), which tells RemoveStaleTemp that its writer lives.
type tempFile struct {
	folder *os.File
	name   string
	file   *os.File
	gone   bool // the name is no longer in the folder: it was renamed
}

func (s *Store) newTemp() (*tempFile, error) {
	err := unix.Mkdirat(int(s.root.Fd()), tempFolder, 0o777)
	if err != nil && err != unix.EEXIST {
		return nil, explain(pathIn(s.root, tempFolder), err)
	}
	folder, err := enter(s.root, tempFolder)
	if err != nil {
		return nil, err
	}
	for {
		temp, err := makeTemp(folder)
		if err != nil {
			folder.Close()
			return nil, err
		}
		if temp.claim() {
			return temp, nil
		}
		temp.file.Close()
	}
}

func makeTemp(folder *os.File) (*tempFile, error) {
	name := crand.Text()
	flags := unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW
	fd, err := openat(int(folder.Fd()), name, flags, 0o666)
	if err != nil {
		return nil, explain(pathIn(folder, name), err)
	}
	return &tempFile{folder: folder, name: name, file: os.NewFile(uintptr(fd), pathIn(folder, name))}, nil
}

// claim locks the file. False if somebody with a clock a day ahead took it for
// stale before it could be locked.
func (t *tempFile) claim() bool {
	err := flock(t.file, unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false
	}
	// Without locks on this file system there is no claim to make, and no
	// stale file is removed either.
	st, err := fstat(t.file)
	return err == nil && st.Nlink > 0
}

// discard closes the file and removes its temporary name if it still has it.
func (t *tempFile) discard() {
	if !t.gone {
		_ = unix.Unlinkat(int(t.folder.Fd()), t.name, 0) // RemoveStaleTemp gets it otherwise
	}
	t.file.Close()
	t.folder.Close()
}

// chunks are what a body is copied in: large enough for a few system calls
// per pack, small enough to stay in a core's cache between read and write.
var chunks = sync.Pool{New: func() any { return new([1 << 20]byte) }}

// fill writes the body, stamps the file and syncs it.
func (t *tempFile) fill(ctx context.Context, body objectstore.Body) (unix.Stat_t, error) {
	chunk := chunks.Get().(*[1 << 20]byte)
	defer chunks.Put(chunk)
	rest := io.NewSectionReader(body, 0, body.Size())
	for left := body.Size(); left > 0; {
		if err := ctx.Err(); err != nil {
			return unix.Stat_t{}, err
		}
		part := chunk[:min(left, int64(len(chunk)))]
		if err := readPart(rest, part); err != nil {
			return unix.Stat_t{}, err
		}
		if _, err := t.file.Write(part); err != nil {
			return unix.Stat_t{}, explain(t.file.Name(), err)
		}
		left -= int64(len(part))
	}
	t.stamp()
	if err := t.file.Sync(); err != nil {
		return unix.Stat_t{}, explain(t.file.Name(), err)
	}
	return fstat(t.file)
}

func readPart(r io.Reader, part []byte) error {
	_, err := io.ReadFull(r, part)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// stamp sets the modification time to the current second with random
// nanoseconds, for the sake of etag. A file system that refuses keeps its own
// time, which is as good as what it can do.
func (t *tempFile) stamp() {
	var random [8]byte
	crand.Read(random[:]) // never fails
	nanoseconds := int64(binary.LittleEndian.Uint64(random[:]) % 1e9)
	now := unix.NsecToTimespec(time.Now().Unix()*1e9 + nanoseconds)
	_ = unix.UtimesNanoAt(int(t.folder.Fd()), t.name, []unix.Timespec{now, now}, unix.AT_SYMLINK_NOFOLLOW)
}

// staleAge is how old a temporary file must be before it is removed. Only
// files that nobody holds locked are: the age merely spares those of writers
// on file systems whose locks do not reach across machines.
const staleAge = 24 * time.Hour

// RemoveStaleTemp removes temporary files that crashed writers left behind
// more than 24 hours ago, and returns their number. It is safe at any time.
func (s *Store) RemoveStaleTemp(ctx context.Context) (int, error) {
	folder, err := enter(s.root, tempFolder)
	if errors.Is(err, objectstore.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return 0, explain(folder.Name(), err)
	}
	removed := 0
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		stale, err := removeIfStale(folder, name)
		if err != nil {
			return removed, err
		}
		if stale {
			removed++
		}
	}
	return removed, nil
}

func removeIfStale(folder *os.File, name string) (bool, error) {
	file, _, err := openObject(folder, name)
	if err != nil {
		return false, nil // its writer finished, or it is another user's
	}
	defer file.Close()
	if flock(file, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false, nil // its writer lives
	}
	st, err := fstat(file)
	if err != nil {
		return false, err
	}
	if time.Since(time.Unix(st.Mtim.Unix())) < staleAge {
		return false, nil
	}
	err = unix.Unlinkat(int(folder.Fd()), name, 0)
	if err == unix.ENOENT {
		return false, nil
	}
	return err == nil, explain(pathIn(folder, name), err)
}
