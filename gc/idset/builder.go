// Package idset keeps a set of blob ids that may be larger than memory.
//
// A Builder takes ids in any order and any number of times. What exceeds its
// memory is sorted and written to a temporary file as one run; Build merges the
// runs into one sorted file without duplicates (external merge sort, Knuth, The Art
// of Computer Programming, volume 3, section 5.4). A Set answers look-ups and can
// be walked in order, beside an index that is sorted in the same way.
package idset

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/snapctl/snapctl/packfile/blob"
)

// runIDs is how many ids a builder holds in memory: 16 MiB.
const runIDs = 512 << 10

// bufferSize is what the merge reads of each run at a time: 64 runs, of 32 million
// ids, take 4 MiB.
const bufferSize = 64 << 10

// Builder collects ids. It belongs to one goroutine.
type Builder struct {
	dir  string
	held []blob.ID // not in a run yet
	runs []*os.File
	size int // of a run, in ids
}

// NewBuilder returns an empty builder, which puts its files, if it needs any, into
// the directory.
func NewBuilder(dir string) *Builder { return &Builder{dir: dir, size: runIDs} }

// Add enters ids.
func (b *Builder) Add(ids ...blob.ID) error {
	for _, id := range ids {
		if len(b.held) == b.size {
			if err := b.makeRoom(); err != nil {
				return err
			}
		}
		b.held = append(b.held, id)
	}
	return nil
}

// makeRoom drops duplicates, and writes a run if that did not free half of the
// memory.
func (b *Builder) makeRoom() error {
	b.sort()
	if len(b.held) <= b.size/2 {
		return nil
	}
	run, err := writeFile(b.dir, slices.Values(b.held))
	if err != nil {
		return err
	}
	b.runs = append(b.runs, run)
	b.held = b.held[:0]
	return nil
}

func (b *Builder) sort() {
	slices.SortFunc(b.held, blob.ID.Compare)
	b.held = slices.Compact(b.held)
}

// Build returns the set of all ids that were added. The builder is empty again
// afterwards, and need not be discarded.
func (b *Builder) Build() (*Set, error) {
	b.sort()
	set := &Set{held: b.held}
	if len(b.runs) > 0 {
		merged := mergeRuns(b.runs, b.held)
		file, err := writeFile(b.dir, merged.ids)
		if err = errors.Join(err, merged.err); err != nil {
			return nil, errors.Join(err, closeFile(file), b.Discard())
		}
		info, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, closeFile(file), b.Discard())
		}
		if set, err = Open(file, 0, int(info.Size()/blob.IDSize)); err != nil {
			return nil, errors.Join(err, b.Discard())
		}
		b.held = nil
	}
	runs := b.runs
	b.held, b.runs = nil, nil
	return set, closeAll(runs)
}

// Discard frees what a builder holds that will not be built.
func (b *Builder) Discard() error {
	runs := b.runs
	b.held, b.runs = nil, nil
	return closeAll(runs)
}

// writeFile writes ids to a file that has no name any more, so that nothing is
// left of it when the process dies.
func writeFile(dir string, ids func(yield func(blob.ID) bool)) (*os.File, error) {
	file, err := os.CreateTemp(dir, "ids-")
	if err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	w := bufio.NewWriterSize(file, bufferSize)
	for id := range ids {
		if _, err = w.Write(id[:]); err != nil {
			break
		}
	}
	if err := errors.Join(err, w.Flush()); err != nil {
		return nil, errors.Join(fmt.Errorf("temporary file: %w", err), file.Close())
	}
	return file, nil
}

func closeFile(file *os.File) error {
	if file == nil {
		return nil
	}
	return file.Close()
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, file := range files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
