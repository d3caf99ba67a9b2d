package gc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/gc/idset"
	"github.com/snapctl/snapctl/packfile/blob"
)

// What a collection marked is kept in a file of local state. What can be reached
// from a snapshot never changes, so if every snapshot of the file is still published,
// the next collection marks only what is new. If one was forgotten, the file is of no
// use, since what was reached from that one alone is dead.
//
// The file, numbers big-endian:
//
//	16 bytes      "snapctl mark 0\n\x00"
//	8 bytes each  number of snapshots, of tree blobs, of ids
//	for each snapshot: 2 bytes length, its key
//	16 bytes      half of the id of each tree blob, in no order
//	32 bytes      each id, ascending
//	32 bytes      BLAKE3 of everything before
//
// A file that is not this counts as none.
const memoryMagic = "snapctl mark 0\n\x00"

const memoryHeader = len(memoryMagic) + 3*8

// remember replaces the file by what is marked.
func (m *mark) remember(path string) error {
	if m.borrowed { // no key in the file would tell when it is of no use
		return os.RemoveAll(path) // there may be none
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	err = errors.Join(m.writeMemory(temp), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name())
	}
	return err
}

// writeMemory writes the header last, when the number of ids is known.
func (m *mark) writeMemory(file *os.File) error {
	if _, err := file.Seek(int64(memoryHeader), io.SeekStart); err != nil {
		return err
	}
	body := blake3.New()
	w := bufio.NewWriterSize(io.MultiWriter(file, body), 256<<10)
	keys := uint64(0)
	for key := range m.records {
		if key, published := strings.CutPrefix(key, publishedRecord); published {
			keys++
			w.Write(binary.BigEndian.AppendUint16(nil, uint16(len(key)))) // Flush returns the first error
			w.WriteString(key)
		}
	}
	for tree := range m.published.trees {
		w.Write(tree[:])
	}
	ids := uint64(0)
	live := m.ascend()
	for ; live.err == nil; live.step() {
		if live.blob.published {
			ids++
			w.Write(live.blob.id[:])
		}
	}
	if live.err != io.EOF {
		return live.err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	header := []byte(memoryMagic)
	for _, n := range []uint64{keys, uint64(len(m.published.trees)), ids} {
		header = binary.BigEndian.AppendUint64(header, n)
	}
	if _, err := file.Write(sumOf(header, body)); err != nil {
		return err
	}
	_, err := file.WriteAt(header, 0)
	return err
}

// sumOf is the checksum of a file: the body is hashed before the header is known.
func sumOf(header []byte, body hash.Hash) []byte {
	sum := blake3.Sum256(append(header[:len(header):len(header)], body.Sum(nil)...))
	return sum[:]
}

// errNoMemory says that a file is of no use.
var errNoMemory = errors.New("not what a collection marked")

// recall begins with what an earlier collection marked, if all of its snapshots are
// still published. It takes all of that or nothing: without the ids, what its trees reach
// would look dead.
func (m *mark) recall(path string, published []commit.Ref) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, ref := range published {
		known[ref.Key()] = true
	}
	memory, err := readMemory(file, known)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	set, err := idset.Open(file, memory.start, memory.ids)
	if err != nil {
		return err
	}
	m.records, m.published.trees = memory.records, memory.trees
	m.published.sets = append(m.published.sets, set)
	return nil
}

// memory is what a file of marks holds, and where its ids are.
type memory struct {
	records map[string]bool
	trees   map[short]struct{}
	start   int64 // bytes
	ids     int
}

// readMemory reads and verifies the file.
func readMemory(file *os.File, known map[string]bool) (memory, error) {
	info, err := file.Stat()
	if err != nil {
		return memory{}, err
	}
	header := make([]byte, memoryHeader)
	if _, err := io.ReadFull(file, header); err != nil || string(header[:len(memoryMagic)]) != memoryMagic {
		return memory{}, errNoMemory
	}
	counts := header[len(memoryMagic):]
	keys, trees, n := binary.BigEndian.Uint64(counts), binary.BigEndian.Uint64(counts[8:]), binary.BigEndian.Uint64(counts[16:])
	rest := uint64(info.Size()) - uint64(memoryHeader)
	if keys > rest || trees > rest/16 || n > rest/blob.IDSize || keys > uint64(len(known)) {
		return memory{}, errNoMemory
	}
	m := memory{records: map[string]bool{}, trees: map[short]struct{}{}, start: int64(memoryHeader) + int64(trees*16), ids: int(n)}
	body := blake3.New()
	r := bufio.NewReaderSize(io.TeeReader(io.LimitReader(file, int64(rest)-blake3Size), body), 256<<10)
	for range keys {
		key, err := readKey(r)
		if err != nil || !known[key] {
			return memory{}, errNoMemory
		}
		m.records[publishedRecord+key] = true
		m.start += int64(2 + len(key))
	}
	for range trees {
		var tree short
		if _, err := io.ReadFull(r, tree[:]); err != nil {
			return memory{}, err
		}
		m.trees[tree] = struct{}{}
	}
	if left, err := io.Copy(io.Discard, r); err != nil || uint64(left) != n*blob.IDSize {
		return memory{}, errors.Join(errNoMemory, err)
	}
	sum := make([]byte, blake3Size)
	if _, err := io.ReadFull(file, sum); err != nil || string(sum) != string(sumOf(header, body)) {
		return memory{}, errNoMemory
	}
	return m, nil
}

const blake3Size = 32

func readKey(r io.Reader) (string, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return "", err
	}
	key := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(r, key)
	return string(key), err
}

// resume takes what an earlier collection marked, if there is a file of it.
func (m *mark) resume(o *observation) {
	path := m.repo.MarkFile
	if path == "" {
		return
	}
	if err := m.recall(path, o.published); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errNoMemory) {
		m.repo.warn("mark", fmt.Errorf("%s: %w", path, err))
	}
}
