package idset

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/snapctl/snapctl/packfile/blob"
)

// Set is a sorted set of ids, in memory if it is small, otherwise in a file. It is
// safe for concurrent use. Close must be called in the end.
type Set struct {
	held []blob.ID // of a set without a file

	file   *os.File
	start  int64 // of the ids in the file, bytes
	n      int
	sample []blob.ID // the first id of each block of the file
}

// blockIDs is the number of ids that a look-up reads from a file: 4 KiB. The
// sample of ten million ids takes 2.5 MB.
const blockIDs = 128

// Open returns the set of n ids that lie in a file from start on, ascending, as
// Write wrote them. The set owns the file then, also after an error.
func Open(file *os.File, start int64, n int) (*Set, error) {
	s := &Set{file: file, start: start, n: n}
	if err := s.takeSample(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

func (s *Set) takeSample() error {
	for i := 0; i < s.n; i += blockIDs {
		block, err := s.block(i, 1)
		if err != nil {
			return err
		}
		s.sample = append(s.sample, block[0])
	}
	return nil
}

// Len is the number of ids.
func (s *Set) Len() int {
	if s.file != nil {
		return s.n
	}
	return len(s.held)
}

// Has reports whether the id is in the set.
func (s *Set) Has(id blob.ID) (bool, error) {
	ids := s.held
	if s.file != nil {
		i, found := slices.BinarySearchFunc(s.sample, id, blob.ID.Compare)
		if found || i == 0 {
			return found, nil
		}
		first := (i - 1) * blockIDs
		var err error
		if ids, err = s.block(first, min(blockIDs, s.n-first)); err != nil {
			return false, err
		}
	}
	_, found := slices.BinarySearchFunc(ids, id, blob.ID.Compare)
	return found, nil
}

func (s *Set) block(first, count int) ([]blob.ID, error) {
	raw := make([]byte, count*blob.IDSize)
	if _, err := s.file.ReadAt(raw, s.start+int64(first)*blob.IDSize); err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	ids := make([]blob.ID, count)
	for i := range ids {
		copy(ids[i][:], raw[i*blob.IDSize:])
	}
	return ids, nil
}

// Ascend returns a function that steps through the ids in order, and returns io.EOF
// behind the last. A file that was cut is an error: a missing id would look dead.
func (s *Set) Ascend() func() (blob.ID, error) {
	if s.file == nil {
		return heldIDs(s.held)
	}
	next := readIDs(bufio.NewReaderSize(io.NewSectionReader(s.file, s.start, int64(s.n)*blob.IDSize), bufferSize))
	left := s.n
	return func() (blob.ID, error) {
		id, err := next()
		if err == io.EOF && left > 0 {
			err = fmt.Errorf("temporary file: %w", io.ErrUnexpectedEOF)
		}
		left--
		return id, err
	}
}

// Close frees what the set holds.
func (s *Set) Close() error { return closeFile(s.file) }
