// Package mem keeps objects in memory. It gives every guarantee of the
// contract, at once and in full, and is deterministic: the same calls in the
// same order give the same ETags and times.
package mem

import (
	"bytes"
	"context"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Store is an objectstore.Store in memory. It is safe for concurrent use; make
// one with New.
type Store struct {
	mu      sync.RWMutex // guards the fields below
	objects map[string]object
	puts    uint64 // successful puts so far: the store's clock and source of ETags
}

// object is immutable: a put replaces it, so that readers need no lock.
type object struct {
	data []byte
	put  uint64 // which put stored it, from 1
}

// New returns an empty store.
func New() *Store { return &Store{objects: make(map[string]object)} }

// Clone returns an independent store with the same objects. It copies the
// keys and shares the contents.
func (s *Store) Clone() *Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &Store{objects: maps.Clone(s.objects), puts: s.puts}
}

// Put implements objectstore.Store. It copies the body.
func (s *Store) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if err := check(ctx, key); err != nil {
		return objectstore.Info{}, failed("put", key, err)
	}
	if err := opts.Validate(); err != nil {
		return objectstore.Info{}, failed("put", key, err)
	}
	data := make([]byte, body.Size())
	if err := readBody(data, body); err != nil {
		return objectstore.Info{}, failed("put", key, err)
	}
	info, err := s.store(key, data, opts)
	if err != nil {
		return objectstore.Info{}, failed("put", key, err)
	}
	return info, nil
}

func readBody(data []byte, body objectstore.Body) error {
	_, err := io.ReadFull(io.NewSectionReader(body, 0, body.Size()), data)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (s *Store) store(key string, data []byte, opts objectstore.PutOptions) (objectstore.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, found := s.objects[key]
	if opts.IfAbsent && found {
		return objectstore.Info{}, objectstore.ErrExist
	}
	if opts.IfMatch != "" && (!found || old.etag() != opts.IfMatch) {
		return objectstore.Info{}, objectstore.ErrPrecondition
	}
	s.puts++
	o := object{data: data, put: s.puts}
	s.objects[key] = o
	return o.info(key), nil
}

// Get implements objectstore.Store. The reader goes on reading the object that
// it was opened on, whatever happens to the key.
func (s *Store) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	o, err := s.lookup(ctx, key)
	if err != nil {
		return nil, failed("get", key, err)
	}
	r, err = r.Within(int64(len(o.data)))
	if err != nil {
		return nil, failed("get", key, err)
	}
	return io.NopCloser(bytes.NewReader(o.data[r.Offset : r.Offset+r.Length])), nil
}

// Stat implements objectstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	o, err := s.lookup(ctx, key)
	if err != nil {
		return objectstore.Info{}, failed("stat", key, err)
	}
	return o.info(key), nil
}

func (s *Store) lookup(ctx context.Context, key string) (object, error) {
	if err := check(ctx, key); err != nil {
		return object{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, found := s.objects[key]
	if !found {
		return object{}, objectstore.ErrNotExist
	}
	return o, nil
}

// List implements objectstore.Store. It yields the objects of the moment at
// which the iteration starts, and holds no lock while it yields.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		for _, info := range s.infos(prefix, after) {
			if ctx.Err() != nil {
				break
			}
			if !yield(info, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(objectstore.Info{}, failed("list", prefix, err))
		}
	}
}

func (s *Store) infos(prefix, after string) []objectstore.Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var infos []objectstore.Info
	for key, o := range s.objects {
		if key > after && strings.HasPrefix(key, prefix) {
			infos = append(infos, o.info(key))
		}
	}
	slices.SortFunc(infos, func(a, b objectstore.Info) int { return strings.Compare(a.Key, b.Key) })
	return infos
}

// Delete implements objectstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := check(ctx, key); err != nil {
		return failed("delete", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	return nil
}

func (o object) etag() string { return strconv.FormatUint(o.put, 10) }

func (o object) info(key string) objectstore.Info {
	return objectstore.Info{
		Key:     key,
		Size:    int64(len(o.data)),
		ETag:    o.etag(),
		ModTime: time.Unix(int64(o.put), 0).UTC(), // one put a second since 1970
	}
}

func check(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return objectstore.ValidKey(key)
}

func failed(op, key string, err error) error {
	return &objectstore.Error{Op: op, Key: key, Err: err}
}
