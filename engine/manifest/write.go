package manifest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/wire"
)

// DirWriter encodes one directory from its entries, given in ascending order of
// their names. It keeps a few open nodes in memory, whatever the size of the
// directory. It belongs to one goroutine.
type DirWriter struct {
	split *splitter
	last  string
	any   bool
}

// NewDirWriter returns a writer that stores nodes by put.
func NewDirWriter(put PutNode) *DirWriter {
	return &DirWriter{split: newSplitter(dirNode, dirBounds, put)}
}

// Add appends an entry. Names that cannot be restored, entries that no reader
// would accept (see CheckName and Entry.Check) and entries out of order are
// errors, after which the writer may go on with another entry.
func (w *DirWriter) Add(e *Entry) error {
	if err := CheckName(e.Name); err != nil {
		return err
	}
	if err := e.Check(); err != nil {
		return fmt.Errorf("entry %q: %w", e.Name, err)
	}
	if w.any && e.Name <= w.last {
		return fmt.Errorf("entry %q follows %q", e.Name, w.last)
	}
	w.last, w.any = e.Name, true
	name := []byte(e.Name)
	return w.split.add(func(b []byte) []byte { return appendEntry(b, e) }, 1, name, name)
}

// Finish stores what is open and returns the id of the directory's node.
func (w *DirWriter) Finish() (blob.ID, error) { return w.split.finish() }

// ContentWriter collects the extents of one file. It belongs to one goroutine.
type ContentWriter struct {
	put     PutNode
	extents []Extent // while they fit into an entry
	split   *splitter
	last    Extent
	size    uint64
}

// NewContentWriter returns a writer that stores list nodes by put.
func NewContentWriter(put PutNode) *ContentWriter { return &ContentWriter{put: put} }

// Add appends an extent. A hole behind a hole makes it longer; an empty extent
// adds nothing. A file of 2^63 bytes or more is an error.
func (w *ContentWriter) Add(x Extent) error {
	if x.Length == 0 {
		return nil
	}
	if x.Length > math.MaxInt64-w.size {
		return invalid("extent of %d bytes behind %d", x.Length, w.size)
	}
	w.size += x.Length
	if w.last.Length > 0 && w.last.Hole() && x.Hole() {
		w.last.Length += x.Length
		return nil
	}
	err := w.flush()
	w.last = x
	return err
}

// flush appends the last extent, which can grow no more.
func (w *ContentWriter) flush() error {
	if w.last.Length == 0 {
		return nil
	}
	if w.split == nil && len(w.extents) < MaxExtents {
		w.extents = append(w.extents, w.last)
		return nil
	}
	if w.split == nil {
		w.split = newSplitter(contentNode, contentBounds, w.put)
		for _, x := range w.extents {
			if err := w.addExtent(x); err != nil {
				return err
			}
		}
	}
	return w.addExtent(w.last)
}

func (w *ContentWriter) addExtent(x Extent) error {
	key := x.ID[:]
	if x.Hole() {
		key = binary.AppendUvarint(nil, x.Length)
	}
	return w.split.add(func(b []byte) []byte { return appendExtent(b, x) }, x.Length, nil, key)
}

// Finish returns the content for an entry.
func (w *ContentWriter) Finish() (Content, error) {
	if err := w.flush(); err != nil {
		return Content{}, err
	}
	if w.split == nil {
		return Content{Extents: w.extents}, nil
	}
	list, err := w.split.finish()
	return Content{List: list}, err
}

// LinkWriter encodes the hard-link groups of a snapshot, given in ascending
// order of their first paths. It belongs to one goroutine.
type LinkWriter struct {
	split *splitter
	last  string
	any   bool
}

// NewLinkWriter returns a writer that stores nodes by put.
func NewLinkWriter(put PutNode) *LinkWriter {
	return &LinkWriter{split: newSplitter(linkNode, linkBounds, put)}
}

// Add appends a group: two or more paths of one file, relative to the root,
// joined by slashes, ascending, of MaxLinkGroup bytes together.
func (w *LinkWriter) Add(group []string) error {
	if err := checkGroup(group); err != nil {
		return err
	}
	if w.any && group[0] <= w.last {
		return fmt.Errorf("link group of %q follows that of %q", group[0], w.last)
	}
	w.last, w.any = group[0], true
	first := []byte(group[0])
	return w.split.add(func(b []byte) []byte { return appendGroup(b, group) }, 1, first, first)
}

func appendGroup(b []byte, group []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(group)))
	for _, path := range group {
		b = wire.AppendString(b, path)
	}
	return b
}

// Finish returns the id of the list, or the zero id if there is no group.
func (w *LinkWriter) Finish() (blob.ID, error) {
	if !w.any {
		return blob.ID{}, nil
	}
	return w.split.finish()
}
