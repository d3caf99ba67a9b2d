package workspace

import (
	"sync/atomic"
	"time"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/engine/workspace/statcache"
	"github.com/snapctl/snapctl/packfile/blob"
)

// dir is a directory from when it is opened until its last child is complete.
// Steps on one directory follow each other, except that children and runs of
// files write to their own entries at the same time.
type dir struct {
	handle
	parent  *dir
	index   int // of its entry in parent.entries
	name    string
	status  status // as it was listed
	pathLen int
	rules   Rules
	granule time.Duration

	list     *listing
	next     int                 // index in list of the first name behind the batch
	node     blob.ID             // when it is finished
	writer   *manifest.DirWriter // of a directory of several batches
	finisher *worker             // puts the writer's nodes
	linkDir  int                 // index in links.dirs, or -1

	// What the cache holds of it.
	expected  blob.ID // node that the base snapshot is known to reach here
	recorded  blob.ID // node that the record has
	rewritten bool    // a run was recorded anew

	batch
}

// batch is a run of entries of a directory that are in memory together.
type batch struct {
	now     time.Time // before the first stat
	first   string    // its first name; empty if it begins the directory
	entries []entry
	toRead  []int       // indices of files that are not known
	ends    []int       // the runs: toRead[0:ends[0]], toRead[ends[0]:ends[1]], ...
	interim atomic.Bool // some runs are recorded on their own
	exact   bool        // the record holds just these names
	passed  []string    // further runs that a new record replaces
	// pending counts children and runs that are not complete, and the step that
	// takes the batch.
	pending atomic.Int32
}

// entry is a name of the batch.
type entry struct {
	name    string
	status  status
	content manifest.Content
	node    blob.ID // of a directory: at first the recorded one, or zero
	target  string
	xattrs  []manifest.Xattr

	settled bool // a directory that is not entered
	known   bool // as recorded; a directory may have changed below
	changed bool // of a directory: its node is not the recorded one
	omitted bool // not in the snapshot
	fresh   bool // not to be believed the next time, whatever its times say
	tries   int  // how often it turned out to be something else
}

// trusted reports whether what the record holds is reached by the base snapshot.
func (d *dir) trusted() bool { return !d.expected.IsZero() && d.expected == d.recorded }

// sole reports whether the batch is the whole directory.
func (d *dir) sole() bool { return d.first == "" && d.last() }

// last reports whether the batch is the last one.
func (d *dir) last() bool { return d.next >= len(d.list.names) }

// appendPath appends the path below the root. Directories know their parents
// and not their paths, which in a deep tree would take the square of its depth.
func (d *dir) appendPath(b []byte) []byte {
	b = append(b, make([]byte, d.pathLen)...)
	for end := len(b); d.parent != nil; d = d.parent {
		end -= len(d.name)
		copy(b[end:], d.name)
		if d.parent.parent != nil {
			end--
			b[end] = '/'
		}
	}
	return b
}

func (d *dir) path() string { return string(d.appendPath(nil)) }

func (d *dir) pathOf(name string) string { return joinPath(d.path(), name) }

// entryPathLen is the length of the path of an entry.
func (d *dir) entryPathLen(name string) int {
	if d.parent == nil {
		return len(name)
	}
	return d.pathLen + 1 + len(name)
}

// manifestEntry is what the snapshot holds of an entry.
func (e *entry) manifestEntry() manifest.Entry {
	m := manifest.Entry{
		Name:   e.name,
		Kind:   e.status.kind(),
		Mode:   e.status.Mode & 0o7777,
		UID:    e.status.UID,
		GID:    e.status.GID,
		MTime:  e.status.MTime,
		Xattrs: e.xattrs,
	}
	switch m.Kind {
	case manifest.File:
		m.Size, m.Content = uint64(e.status.Size), e.content
	case manifest.Dir:
		m.Node = e.node
	case manifest.Symlink:
		m.Target = e.target
	case manifest.CharDevice, manifest.BlockDevice:
		m.Device = deviceOf(e.status.rdev)
	}
	return m
}

// cacheEntry is what the cache holds of it.
func (e *entry) cacheEntry(d *dir) statcache.Entry {
	c := statcache.Entry{
		Name:    e.name,
		Stat:    e.status.Stat,
		Fresh:   e.fresh || !e.known && fresh(&e.status.Stat, d.now, d.granule),
		Content: e.content,
		Target:  e.target,
		Xattrs:  e.xattrs,
	}
	if e.status.kind() == manifest.Dir {
		c.Node = e.node
	}
	return c
}
