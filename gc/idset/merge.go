package idset

import (
	"bufio"
	"container/heap"
	"io"
	"os"

	"github.com/snapctl/snapctl/packfile/blob"
)

// merge yields the ids of several sorted runs in order, each once.
type merge struct {
	cursors cursorHeap
	err     error // of the first run that could not be read
}

func mergeRuns(runs []*os.File, held []blob.ID) *merge {
	m := &merge{}
	for _, run := range runs {
		m.add(&cursor{next: readIDs(bufio.NewReaderSize(io.NewSectionReader(run, 0, 1<<62), bufferSize))})
	}
	m.add(&cursor{next: heldIDs(held)})
	heap.Init(&m.cursors)
	return m
}

// add enters a run that is not empty.
func (m *merge) add(c *cursor) {
	if m.advance(c) {
		m.cursors = append(m.cursors, c)
	}
}

// advance reads the next id of a run and reports whether there was one.
func (m *merge) advance(c *cursor) bool {
	id, err := c.next()
	if err != nil && err != io.EOF && m.err == nil {
		m.err = err
	}
	c.id = id
	return err == nil
}

func (m *merge) ids(yield func(blob.ID) bool) {
	var last blob.ID // the zero id names nothing: it is never in a set
	for len(m.cursors) > 0 && m.err == nil {
		least := m.cursors[0]
		if least.id != last {
			last = least.id
			if !yield(last) {
				return
			}
		}
		if m.advance(least) {
			heap.Fix(&m.cursors, 0)
		} else {
			heap.Pop(&m.cursors)
		}
	}
}

// cursor is the place in one run.
type cursor struct {
	id   blob.ID
	next func() (blob.ID, error) // io.EOF behind the last
}

func heldIDs(ids []blob.ID) func() (blob.ID, error) {
	return func() (blob.ID, error) {
		if len(ids) == 0 {
			return blob.ID{}, io.EOF
		}
		id := ids[0]
		ids = ids[1:]
		return id, nil
	}
}

func readIDs(r io.Reader) func() (blob.ID, error) {
	buffer := make([]byte, blob.IDSize) // once: what goes to a reader escapes
	return func() (blob.ID, error) {
		_, err := io.ReadFull(r, buffer)
		return blob.ID(buffer), err
	}
}

type cursorHeap []*cursor

func (h cursorHeap) Len() int           { return len(h) }
func (h cursorHeap) Less(i, j int) bool { return h[i].id.Compare(h[j].id) < 0 }
func (h cursorHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *cursorHeap) Push(x any) { *h = append(*h, x.(*cursor)) }

// Pop implements heap.Interface.
func (h *cursorHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
