package workspace

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// links finds the names that share an inode. In a workspace whose packages are
// linked from a store outside of it nearly every file has several names of
// which one is here, so a first name costs little: about 80 bytes and the name;
// the path of its directory is kept once.
type links struct {
	mu     sync.Mutex
	dirs   []string
	first  map[inode]link
	groups map[inode][]link
	read   map[inode]*linkedContent
}

type link struct {
	dir  uint32 // index in dirs
	name string
}

// linkedContent is what one name of an inode was read as.
type linkedContent struct {
	status  status
	content manifest.Content
	xattrs  []manifest.Xattr
	fresh   bool // not to be believed the next time, under any name
}

// minLinkedContent is the size from which content is remembered for further
// names; below, reading again is cheaper than a million entries.
const minLinkedContent = 64 << 10

func newLinks() *links {
	return &links{first: map[inode]link{}, groups: map[inode][]link{}, read: map[inode]*linkedContent{}}
}

// dirIndex registers a directory.
func (l *links) dirIndex(path string) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirs = append(l.dirs, path)
	return uint32(len(l.dirs) - 1)
}

// add records a name.
func (l *links) add(i inode, dir uint32, name string) {
	member := link{dir: dir, name: strings.Clone(name)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if group, ok := l.groups[i]; ok {
		l.groups[i] = append(group, member)
		return
	}
	if first, ok := l.first[i]; ok {
		l.groups[i] = []link{first, member}
		delete(l.first, i)
		return
	}
	l.first[i] = member
}

// remember keeps what a name was read as.
func (l *links) remember(c *linkedContent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read[c.status.inode()] = c
}

// known returns what another name of the inode was read as, if it did not change.
func (l *links) known(s *status) *linkedContent {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.read[s.inode()]; c != nil && c.status.Stat == s.Stat {
		return c
	}
	return nil
}

// write stores the groups of two names and more, sorted.
func (l *links) write(ctx context.Context, put manifest.PutNode) (blob.ID, error) {
	groups := make([][]string, 0, len(l.groups))
	for _, members := range l.groups {
		paths := make([]string, len(members))
		for i, m := range members {
			paths[i] = joinPath(l.dirs[m.dir], m.name)
		}
		slices.Sort(paths)
		groups = appendGroups(groups, paths)
	}
	slices.SortFunc(groups, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	w := manifest.NewLinkWriter(put)
	for _, group := range groups {
		if err := ctx.Err(); err != nil {
			return blob.ID{}, err
		}
		if err := w.Add(group); err != nil {
			return blob.ID{}, err
		}
	}
	return w.Finish()
}

// maxGroup bounds a group in bytes: one node holds it, and a filesystem without a
// bound on links may have gigabytes of names of one file.
const maxGroup = 4 << 20

// appendGroups appends the paths of one inode: as one group, or as several if
// they are too long, whose content is shared all the same.
func appendGroups(groups [][]string, paths []string) [][]string {
	begin, size := 0, 0
	for i, path := range paths {
		if size += len(path); size > maxGroup {
			groups = append(groups, paths[begin:i])
			begin, size = i, len(path)
		}
	}
	if len(paths)-begin > 1 {
		groups = append(groups, paths[begin:])
	}
	return groups
}

func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
