package statcache

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/snapctl/snapctl/packfile/blob"
)

// Session reads the cache as it stood when the session began and writes what a
// walk finds. It belongs to one goroutine.
type Session struct {
	cache  *Cache
	iter   *pebble.Iterator // nil if there is nothing to read
	batch  *pebble.Batch
	sent   *pebble.Batch // committed, on its way to the log
	cursor Cursor
	key    []byte
	value  []byte
}

// Session begins a session.
func (c *Cache) Session() (*Session, error) {
	s := &Session{cache: c}
	s.cursor.session = s
	if c.empty {
		return s, nil
	}
	iter, err := c.db.NewIter(nil)
	if err != nil {
		return nil, fmt.Errorf("begin stat cache session: %w", err)
	}
	s.iter = iter
	return s, nil
}

// Close writes what is buffered and ends the session.
func (s *Session) Close() error {
	err := errors.Join(s.commit(), s.await())
	if s.iter != nil && !s.cache.failed.Panicked() {
		err = errors.Join(err, s.iter.Close())
	}
	if failed := s.cache.failed.Err(); err == nil && failed != nil { // in the background, or in another session
		err = fmt.Errorf("write stat cache: %w", failed)
	}
	return err
}

// A directory has one record, or one for each run of names if it is huge. Keys:
//
//	path NUL              the first run, or all entries
//	path NUL NUL          32 bytes: the node of a directory of several runs
//	path NUL first name   a further run
//
// where path is relative to the root, components joined by slashes.
func appendKey(b, path []byte, first string) []byte {
	b = append(b, path...)
	b = append(b, 0)
	return append(b, first...)
}

func appendNodeKey(b, path []byte) []byte { return append(appendKey(b, path, ""), 0) }

// Node returns the node that the directory had when it was last recorded in
// full; zero if it never was.
func (s *Session) Node(path []byte) blob.ID {
	var id blob.ID
	if !s.readable() {
		return id
	}
	s.key = appendKey(s.key[:0], path, "")
	if value, ok := s.get(s.key); ok && len(value) >= blob.IDSize {
		copy(id[:], value)
	}
	if id.IsZero() {
		s.key = appendNodeKey(s.key[:0], path)
		if value, ok := s.get(s.key); ok {
			copy(id[:], value)
		}
	}
	return id
}

// readable reports whether there is anything to read.
func (s *Session) readable() bool { return s.iter != nil && s.cache.failed.Err() == nil }

func (s *Session) get(key []byte) ([]byte, bool) {
	if s.iter.Valid() && bytes.Equal(s.iter.Key(), key) || s.iter.SeekGE(key) && bytes.Equal(s.iter.Key(), key) {
		value, err := s.iter.ValueAndErr()
		return value, err == nil
	}
	return nil, false
}

// Put records the entries of a directory from the name first on, in the order
// of their names, in place of the run that the cursor went through. first is
// empty for the first run; node is that of the directory if these are all of
// its entries, else zero. The node of a directory in several runs is forgotten
// until PutNode.
func (s *Session) Put(path []byte, first string, node blob.ID, entries func(yield func(*Entry) bool)) error {
	s.value = append(s.value[:0], node[:]...)
	for e := range entries {
		s.value = appendEntry(s.value, e)
	}
	b := s.openBatch()
	if node.IsZero() {
		s.key = appendNodeKey(s.key[:0], path)
		if err := b.Delete(s.key, nil); err != nil {
			return err
		}
	}
	s.key = appendKey(s.key[:0], path, first)
	if err := b.Set(s.key, s.value, nil); err != nil {
		return err
	}
	return s.commitIfLarge()
}

// PutNode records the node of a directory whose runs are all recorded.
func (s *Session) PutNode(path []byte, node blob.ID) error {
	s.key = appendNodeKey(s.key[:0], path)
	return s.openBatch().Set(s.key, node[:], nil)
}

// DropRun removes a further run of a directory.
func (s *Session) DropRun(path []byte, first string) error {
	s.key = appendKey(s.key[:0], path, first)
	return s.openBatch().Delete(s.key, nil)
}

// DropTree removes the records of a directory that is gone and of all below it.
func (s *Session) DropTree(path []byte) error {
	if s.iter == nil {
		return nil
	}
	from := appendKey(nil, path, "")
	to := append(bytes.Clone(path), 1)
	b := s.openBatch()
	if err := b.DeleteRange(from, to, nil); err != nil {
		return err
	}
	return b.DeleteRange(append(bytes.Clone(path), '/'), append(bytes.Clone(path), '/'+1), nil)
}

func (s *Session) openBatch() *pebble.Batch {
	if s.batch == nil {
		s.batch = s.cache.db.NewBatch()
	}
	return s.batch
}

// commitAt bounds what a killed process loses: the records of about 20 files. A
// commit takes some microseconds.
const commitAt = 2 << 10

func (s *Session) commitIfLarge() error {
	if s.batch.Len() < commitAt {
		return nil
	}
	return s.commit()
}

// Checkpoint writes what is buffered. Runs of one directory that different
// sessions put are each followed by one, so that none becomes visible without
// those before it.
func (s *Session) Checkpoint() error { return s.commit() }

// commit sends the batch to the log. Pebble keeps what need not be synced in
// memory until a block is full, so this asks for a sync, which unsynced makes a
// plain write, and does not wait for it.
func (s *Session) commit() error {
	if s.batch == nil || s.cache.failed.Err() != nil {
		return nil
	}
	if err := s.await(); err != nil {
		return err
	}
	s.sent, s.batch = s.batch, nil
	err := s.cache.failed.Catch(func() error { return s.cache.db.ApplyNoSyncWait(s.sent, pebble.Sync) })
	if err != nil {
		s.sent = nil
		return fmt.Errorf("write stat cache: %w", err)
	}
	return nil
}

// await waits until what was sent is written.
func (s *Session) await() error {
	if s.sent == nil || s.cache.failed.Panicked() {
		return nil
	}
	err := errors.Join(s.sent.SyncWait(), s.sent.Close())
	s.sent = nil
	if err != nil {
		return fmt.Errorf("write stat cache: %w", err)
	}
	return nil
}
