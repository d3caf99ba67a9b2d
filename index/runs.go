package index

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/snapctl/snapctl/packfile/blob"
)

// An external merge sort: runs of entries, sorted in memory, go to files, which
// are merged once. Each run being merged takes a buffer of runBuffer bytes, so
// that a wave of 16 million entries takes 2 MiB for its 32 runs.

const (
	runRecord = blob.IDSize + 4*4
	runBuffer = 64 << 10
)

func (e entry) compare(other entry) int {
	if c := bytes.Compare(e.id[:], other.id[:]); c != 0 {
		return c
	}
	return cmp.Compare(e.number, other.number)
}

// appendRun and decodeRun are the record of a run file: it lives no longer than
// one load.
func (e entry) appendRun(dst []byte) []byte {
	dst = append(dst, e.id[:]...)
	for _, v := range [...]uint32{e.number, e.place.frame, e.place.offset, e.place.length} {
		dst = binary.LittleEndian.AppendUint32(dst, v)
	}
	return dst
}

func decodeRun(b []byte) entry {
	u := func(i int) uint32 { return binary.LittleEndian.Uint32(b[blob.IDSize+4*i:]) }
	return entry{blob.ID(b[:blob.IDSize]), u(0), place{u(1), u(2), u(3)}}
}

// runFiles are the sorted runs of a wave.
type runFiles struct {
	fs    vfs.FS
	dir   string
	paths []string
}

func (r *runFiles) empty() bool { return len(r.paths) == 0 }

// path names a new file in the directory of the load, which is made if needed.
func (r *runFiles) path(kind string, i int) (string, error) {
	if err := r.fs.MkdirAll(r.dir, 0o700); err != nil {
		return "", err
	}
	return r.fs.PathJoin(r.dir, fmt.Sprintf("%s-%06d", kind, i)), nil
}

func (r *runFiles) write(run []entry) error {
	path, err := r.path("run", len(r.paths))
	if err != nil {
		return err
	}
	f, err := r.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, runBuffer)
	var record []byte
	for _, e := range run {
		record = e.appendRun(record[:0])
		if _, err = w.Write(record); err != nil {
			break
		}
	}
	if err = errors.Join(err, w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("write sorted run: %w", err)
	}
	r.paths = append(r.paths, path)
	return nil
}

// remove removes every file of the load.
func (r *runFiles) remove() error {
	r.paths = nil
	return r.fs.RemoveAll(r.dir)
}

// merge calls fn with the entries of all runs and of last, in order.
func (r *runFiles) merge(last []entry, fn func(entry) error) (err error) {
	m := make(merger, 0, len(r.paths)+1)
	defer func() {
		for _, s := range m {
			err = errors.Join(err, s.close())
		}
	}()
	for _, path := range r.paths {
		f, err := r.fs.Open(path)
		if err != nil {
			return err
		}
		m = append(m, &runSource{file: f, reader: bufio.NewReaderSize(f, runBuffer)})
		if err := m[len(m)-1].next(); err != nil {
			return err
		}
	}
	m = append(m, &runSource{memory: last})
	if err := m[len(m)-1].next(); err != nil {
		return err
	}
	heap.Init(&m)
	for !m[0].done {
		if err := fn(m[0].head); err != nil {
			return err
		}
		if err := m[0].next(); err != nil {
			return err
		}
		heap.Fix(&m, 0)
	}
	return nil
}

// runSource is one run, in a file or in memory.
type runSource struct {
	file   vfs.File
	reader *bufio.Reader
	memory []entry
	record [runRecord]byte
	head   entry
	done   bool
}

func (s *runSource) next() error {
	if s.reader == nil {
		if len(s.memory) == 0 {
			s.done = true
			return nil
		}
		s.head, s.memory = s.memory[0], s.memory[1:]
		return nil
	}
	_, err := io.ReadFull(s.reader, s.record[:])
	if err == io.EOF {
		s.done = true
		return nil
	}
	s.head = decodeRun(s.record[:])
	return err
}

func (s *runSource) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// merger is a heap of sources by their first entries; those that are done sink
// to its end.
type merger []*runSource

func (m merger) Len() int      { return len(m) }
func (m merger) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m merger) Less(i, j int) bool {
	if m[i].done || m[j].done {
		return !m[i].done && m[j].done
	}
	return m[i].head.compare(m[j].head) < 0
}

// Push and Pop complete heap.Interface; the number of sources never changes.
func (m *merger) Push(any) { panic("index: push to a merger") }
func (m *merger) Pop() any { panic("index: pop from a merger") }
