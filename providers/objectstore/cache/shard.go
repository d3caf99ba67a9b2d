package cache

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Each shard has an equal part of the limit. A name's hash spreads the blocks
// evenly, so that what was not used for the longest time in its shard is about
// what was not used for the longest time at all, and nobody ever has to look at
// more than one shard. In a cache of 10 GiB that is 160 files, in one of 1 TiB
// 16,000.
//
// A process looks at a shard before it first writes there, and then whenever it
// has written slack more, an eighth of the shard's limit. It evicts until slack
// is free: alone it never exceeds the limit, and every other process adds at
// most its own slack before it looks too. So each block that is written pays
// for looking at eight.
type shard struct {
	mu   sync.Mutex // held during a look, so that two do not evict for the same bytes
	room int64      // what may be written before the next look
}

// staleAge is how old a temporary file must be before it counts as left behind
// by a process that died.
const staleAge = 24 * time.Hour

// occupied is the disk space of a file of size bytes, about.
func occupied(size int64) int64 { return (size + 4095) &^ 4095 }

// makeRoom waits while somebody else looks at the shard.
func (d *disk) makeRoom(folder string, size int64) error {
	number, err := strconv.ParseUint(folder, 16, 8)
	if err != nil {
		return err
	}
	s := &d.shards[number]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room < size {
		if err := d.sweep(folder); err != nil {
			return err
		}
		s.room = d.slack
	}
	s.room -= size
	return nil
}

// sweep evicts blocks from a shard until slack is free below its limit, and
// removes stale temporary files.
func (d *disk) sweep(folder string) error {
	root, err := d.root.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	files, err := d.survey(root)
	if err != nil {
		return err
	}
	used := int64(0)
	for _, f := range files {
		used += f.size
	}
	slices.SortFunc(files, func(a, b entry) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name))
	})
	for _, f := range files {
		if used <= d.limit-d.slack {
			break
		}
		if strings.HasPrefix(f.name, tempStart) {
			continue // somebody is writing it
		}
		if err := root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		used -= f.size
		d.evicted.Add(1)
	}
	return nil
}

type entry struct {
	name string
	size int64
	used time.Time
}

// survey lists the files of a shard, after it removed the stale ones.
func (d *disk) survey(root *os.Root) ([]entry, error) {
	folder, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	files := make([]entry, 0, len(names))
	for _, name := range names {
		info, err := root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue // renamed or evicted just now, or none of ours
		}
		if strings.HasPrefix(name, tempStart) && d.now().Sub(info.ModTime()) > staleAge {
			_ = root.Remove(name)
			continue
		}
		files = append(files, entry{name, occupied(info.Size()), info.ModTime()})
	}
	return files, nil
}
