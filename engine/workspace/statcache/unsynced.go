package statcache

import "github.com/cockroachdb/pebble/v2/vfs"

// unsynced is a filesystem that never waits for a disk. What the kernel was
// given survives the process, and that is all a cache needs (see the package
// comment for what follows a power failure). With syncs, opening and closing on
// an ordinary disk costs more than a whole walk without changes.
type unsynced struct{ vfs.FS }

func (u unsynced) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return unsyncedResult(u.FS.Create(name, c))
}

func (u unsynced) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return unsyncedResult(u.FS.OpenReadWrite(name, c, opts...))
}

func (u unsynced) OpenDir(name string) (vfs.File, error) {
	return unsyncedResult(u.FS.OpenDir(name))
}

func (u unsynced) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return unsyncedResult(u.FS.ReuseForWrite(from, to, c))
}

func (u unsynced) Unwrap() vfs.FS { return u.FS }

func unsyncedResult(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                { return nil }
func (unsyncedFile) SyncData() error            { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error) { return false, nil }
