package manifest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"strings"

	"github.com/snapctl/snapctl/packfile/blob"
)

// GetNode returns a tree blob whose bytes have the id. The caller does not
// change them.
type GetNode func(ctx context.Context, id blob.ID) ([]byte, error)

// ErrNotFound says that there is no entry at a path.
var ErrNotFound = errors.New("no such file in the snapshot")

// ReadDir yields the entries of the directory with the given node in ascending
// order of their names. It holds one node of each level in memory. An error is
// yielded once, last.
func ReadDir(ctx context.Context, get GetNode, node blob.ID) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		err := entryList.read(ctx, get, node, func(e *Entry) bool { return yield(e, nil) })
		if err != nil {
			yield(nil, err)
		}
	}
}

// ReadContent yields the extents of a file in order. An error is yielded once,
// last. A hostile list can repeat one blob up to the size of the file: whoever
// writes the file bounds that.
func ReadContent(ctx context.Context, get GetNode, e *Entry) iter.Seq2[Extent, error] {
	return func(yield func(Extent, error) bool) {
		if e.Content.List.IsZero() {
			for _, x := range e.Content.Extents {
				if !yield(x, nil) {
					return
				}
			}
			return
		}
		if err := readContentList(ctx, get, e, yield); err != nil {
			yield(Extent{}, err)
		}
	}
}

func readContentList(ctx context.Context, get GetNode, e *Entry, yield func(Extent, error) bool) error {
	total, stopped := uint64(0), false
	err := extentList.read(ctx, get, e.Content.List, func(x *Extent) bool {
		total += x.Length // at most 2^64-2: each is below 2^63, and the last sum was at most e.Size
		if total <= e.Size {
			stopped = !yield(*x, nil)
		}
		return !stopped && total <= e.Size
	})
	if err == nil && !stopped && total != e.Size {
		return fmt.Errorf("content list: %w: it is not the %d bytes long that its file is", ErrDamaged, e.Size)
	}
	return err
}

// ReadLinks yields the hard-link groups of a snapshot. The zero id is an empty
// list. Paths are checked like names: no component leaves the root.
func ReadLinks(ctx context.Context, get GetNode, list blob.ID) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		if list.IsZero() {
			return
		}
		err := groupList.read(ctx, get, list, func(group *[]string) bool { return yield(*group, nil) })
		if err != nil {
			yield(nil, err)
		}
	}
}

// Lookup finds the entry at path, components joined by slashes, below the root
// entry. It reads one node of each level of each directory on the way. An empty
// path is the root itself. ErrNotFound if there is none.
func Lookup(ctx context.Context, get GetNode, root Entry, path string) (Entry, error) {
	e := root
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" || name == "." {
			continue
		}
		if e.Kind != Dir {
			return Entry{}, fmt.Errorf("%w: %q", ErrNotFound, path)
		}
		found, ok, err := lookupName(ctx, get, e.Node, name)
		if err != nil {
			return Entry{}, err
		}
		if !ok {
			return Entry{}, fmt.Errorf("%w: %q", ErrNotFound, path)
		}
		e = found
	}
	return e, nil
}

func lookupName(ctx context.Context, get GetNode, node blob.ID, name string) (Entry, bool, error) {
	n, err := openTop(ctx, get, dirNode, node)
	for err == nil && n.level > 0 {
		i := sort.Search(len(n.children), func(i int) bool { return string(n.children[i].last) >= name })
		if i == len(n.children) {
			return Entry{}, false, nil
		}
		n, err = openChild(ctx, get, dirNode, n.children[i], n.level-1)
	}
	if err != nil {
		return Entry{}, false, err
	}
	entries, err := entryList.items(n)
	if err != nil {
		return Entry{}, false, err
	}
	i := sort.Search(len(entries), func(i int) bool { return entries[i].Name >= name })
	if i == len(entries) || entries[i].Name != name {
		return Entry{}, false, nil
	}
	return entries[i], true, nil
}

// IsIndex tells an encoded tree node that lists other nodes of the same directory,
// content or list from a leaf.
func IsIndex(node []byte) bool { return len(node) > 1 && node[1] > 0 }

// References returns the ids of the tree blobs that an encoded tree blob refers
// to, and of the data blobs. A collector marks by it, a check follows it.
func References(b []byte) (trees, data []blob.ID, err error) {
	if len(b) == 0 {
		return nil, nil, fmt.Errorf("tree node: %w: empty", ErrDamaged)
	}
	t := nodeType(b[0])
	d, level := openNode(b, t)
	switch {
	case level > 0 && t >= dirNode && t <= linkNode:
		for _, c := range decodeChildren(d, t) {
			trees = append(trees, c.id)
		}
	case t == dirNode:
		for _, e := range decodeEntries(d) {
			trees, data = appendReferences(trees, data, &e)
		}
	case t == rootNode:
		root, err := DecodeRoot(b)
		if err != nil {
			return nil, nil, err
		}
		trees, data = appendReferences(nil, nil, &root)
		return trees, data, nil
	case t == contentNode:
		for _, x := range decodeExtentList(d) {
			data = appendExtentBlob(data, x)
		}
	case t == linkNode:
		decodeGroups(d)
	default:
		d.Fail("unknown type %d", t)
	}
	return trees, data, d.Finish()
}

func appendReferences(trees, data []blob.ID, e *Entry) ([]blob.ID, []blob.ID) {
	if e.Kind == Dir {
		trees = append(trees, e.Node)
	}
	if !e.Content.List.IsZero() {
		trees = append(trees, e.Content.List)
	}
	for _, x := range e.Content.Extents {
		data = appendExtentBlob(data, x)
	}
	for i := range e.Xattrs {
		if !e.Xattrs[i].Blob.IsZero() {
			data = append(data, e.Xattrs[i].Blob)
		}
	}
	return trees, data
}

func appendExtentBlob(data []blob.ID, x Extent) []blob.ID {
	if x.Hole() {
		return data
	}
	return append(data, x.ID)
}
