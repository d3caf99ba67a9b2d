package probe_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// The fakes are stores with one flaw each, of the kind that real ones have.

// ignoresConditions stores whatever it is given, as gateways and servers from
// before conditional writes do: they do not know the header.
type ignoresConditions struct{ objectstore.Store }

func (s ignoresConditions) Put(ctx context.Context, key string, body objectstore.Body, _ objectstore.PutOptions) (objectstore.Info, error) {
	return s.Store.Put(ctx, key, body, objectstore.PutOptions{})
}

// createsOnMatch takes an absent object for one that matches, as MinIO did.
type createsOnMatch struct{ objectstore.Store }

func (s createsOnMatch) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if _, err := s.Stat(ctx, key); errors.Is(err, objectstore.ErrNotExist) {
		opts.IfMatch = ""
	}
	return s.Store.Put(ctx, key, body, opts)
}

// checksThenActs looks whether the condition holds, and then puts, as gateways
// to a file system do (Versity's, with up to as many winners as racers). It
// takes time, so that it must run in a bubble.
type checksThenActs struct{ objectstore.Store }

func (s checksThenActs) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	info, err := s.Stat(ctx, key)
	switch {
	case opts.IfAbsent && err == nil:
		return objectstore.Info{}, &objectstore.Error{Op: "put", Key: key, Err: objectstore.ErrExist}
	case opts.IfMatch != "" && (err != nil || info.ETag != opts.IfMatch):
		return objectstore.Info{}, &objectstore.Error{Op: "put", Key: key, Err: objectstore.ErrPrecondition}
	}
	time.Sleep(time.Millisecond)
	return s.Store.Put(ctx, key, body, objectstore.PutOptions{})
}

// refuses answers every conditional put that it is not implemented, as servers
// do that know the header only to say so.
type refuses struct{ objectstore.Store }

func (s refuses) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if opts != (objectstore.PutOptions{}) {
		return objectstore.Info{}, &objectstore.Error{Op: "put", Key: key, Err: errors.New("501 Not Implemented")}
	}
	return s.Store.Put(ctx, key, body, opts)
}

// once remembers what was asked.
type once struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// first says whether this is the first call with this text.
func (o *once) first(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = make(map[string]bool)
	}
	first := !o.seen[text]
	o.seen[text] = true
	return first
}

// listsLate leaves every version of an object out of the first listing that
// should have it, as eventual listings do: OpenStack Swift's, S3's until 2020.
type listsLate struct {
	objectstore.Store
	once once
}

func (s *listsLate) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		for info, err := range s.Store.List(ctx, prefix, after) {
			if err == nil && s.once.first(info.Key+" "+info.ETag) {
				continue
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// remembersAbsence answers once more that an object is not there after it was
// put, if it was asked for before, as S3 did until 2020 and caching proxies do.
type remembersAbsence struct {
	objectstore.Store
	mu     sync.Mutex // guards absent
	absent map[string]bool
}

func (s *remembersAbsence) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	reader, err := s.Store.Get(ctx, key, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.absent[key] {
		reader.Close()
		reader, err = nil, &objectstore.Error{Op: "get", Key: key, Err: objectstore.ErrNotExist}
		delete(s.absent, key)
	} else {
		s.absent[key] = errors.Is(err, objectstore.ErrNotExist)
	}
	return reader, err
}

// readsStale reads the version before the last, as a cache between the store
// and its users does, and replicas that lag.
type readsStale struct {
	objectstore.Store
	past *mem.Store
}

func (s *readsStale) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	old, readErr := objectstore.ReadAll(ctx, s.Store, key, 1<<20)
	info, err := s.Store.Put(ctx, key, body, opts)
	if err == nil && readErr == nil {
		_, err = s.past.Put(ctx, key, bytes.NewReader(old), objectstore.PutOptions{})
	}
	return info, err
}

func (s *readsStale) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	if reader, err := s.past.Get(ctx, key, r); err == nil {
		return reader, nil
	}
	return s.Store.Get(ctx, key, r)
}

func (s *readsStale) Delete(ctx context.Context, key string) error {
	return errors.Join(s.past.Delete(ctx, key), s.Store.Delete(ctx, key))
}

// listsFolders lists folder by folder, in the order of a walk, as gateways to a
// file system do, and S3's directory buckets in no order at all.
type listsFolders struct{ objectstore.Store }

func (s listsFolders) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		var infos []objectstore.Info
		for info, err := range s.Store.List(ctx, prefix, after) {
			if err != nil {
				yield(info, err)
				return
			}
			infos = append(infos, info)
		}
		slices.SortFunc(infos, func(a, b objectstore.Info) int {
			return slices.Compare(strings.Split(a.Key, "/"), strings.Split(b.Key, "/"))
		})
		for _, info := range infos {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// ignoresAfter lists everything from the start, as servers do that know only
// the older version of the call.
type ignoresAfter struct{ objectstore.Store }

func (s ignoresAfter) List(ctx context.Context, prefix, _ string) iter.Seq2[objectstore.Info, error] {
	return s.Store.List(ctx, prefix, "")
}

// listsGhosts lists a deleted object once more, as eventual listings do.
type listsGhosts struct {
	objectstore.Store
	mu     sync.Mutex // guards ghosts
	ghosts []objectstore.Info
}

func (s *listsGhosts) Delete(ctx context.Context, key string) error {
	info, err := s.Stat(ctx, key)
	if err == nil {
		s.mu.Lock()
		s.ghosts = append(s.ghosts, info)
		s.mu.Unlock()
	}
	return s.Store.Delete(ctx, key)
}

func (s *listsGhosts) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		for _, ghost := range s.takeGhosts(prefix) {
			if !yield(ghost, nil) {
				return
			}
		}
		for info, err := range s.Store.List(ctx, prefix, after) {
			if !yield(info, err) {
				return
			}
		}
	}
}

func (s *listsGhosts) takeGhosts(prefix string) (taken []objectstore.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ghosts = slices.DeleteFunc(s.ghosts, func(ghost objectstore.Info) bool {
		ours := strings.HasPrefix(ghost.Key, prefix)
		if ours {
			taken = append(taken, ghost)
		}
		return ours
	})
	return taken
}

// servesWhole answers every range with the whole object, as proxies and simple
// HTTP servers do.
type servesWhole struct{ objectstore.Store }

func (s servesWhole) Get(ctx context.Context, key string, _ objectstore.Range) (io.ReadCloser, error) {
	return s.Store.Get(ctx, key, objectstore.Range{})
}

// servesNothing answers a range behind the end with nothing instead of an error.
type servesNothing struct{ objectstore.Store }

func (s servesNothing) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	reader, err := s.Store.Get(ctx, key, r)
	if errors.Is(err, objectstore.ErrRange) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	return reader, err
}

// mayNotDelete denies deletes, as credentials for writers that must not be able
// to destroy backups do.
type mayNotDelete struct{ objectstore.Store }

func (s mayNotDelete) Delete(_ context.Context, key string) error {
	return &objectstore.Error{Op: "delete", Key: key, Err: objectstore.ErrDenied}
}
