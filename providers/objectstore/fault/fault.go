// Package fault makes a store fail on purpose. [New] wraps any store; for each
// call an [Injector] names the [Fault] to apply: an error before or after the
// work, an answer that is late, stale, short, damaged or simply untrue.
//
// A sweep runs a scenario with its first call failing, then its second, until
// it made fewer calls than the number that was to fail:
//
//	for n := 1; ; n++ {
//		store := fault.New(mem.New(), fault.FailNth(n, fault.ErrInjected))
//		err := scenario(store)
//		if store.Calls() < n {
//			break // err must be nil
//		}
//		// check err and what is left in the store
//	}
package fault

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// ErrInjected is an error for tests that need no particular one.
var ErrInjected = errors.New("injected fault")

// Kind names a method of objectstore.Store.
type Kind string

// The kinds of calls. They equal objectstore.Error.Op.
const (
	Put    Kind = "put"
	Get    Kind = "get"
	Stat   Kind = "stat"
	List   Kind = "list"
	Delete Kind = "delete"
)

// Op is one call to the store.
type Op struct {
	Kind Kind
	Key  string // for a listing its prefix
	N    int    // the call's serial number, from 1, over all kinds
}

// Injector chooses the fault of a call. It is called once for every call,
// possibly from several goroutines at a time, and must not block: to hold a
// call back return Await.
type Injector func(Op) Fault

// Store is an objectstore.Store that injects faults. It is safe for concurrent
// use; make one with New.
type Store struct {
	next   objectstore.Store
	inject []Injector

	mu     sync.Mutex // guards the fields below
	calls  int
	counts map[counter]int
}

type counter struct {
	kind Kind
	key  string
}

// New returns a store that passes calls on to next unless an injector says
// otherwise. The first injector that names a fault wins, but all are asked, so
// that each sees every call.
func New(next objectstore.Store, inject ...Injector) *Store {
	return &Store{next: next, inject: inject, counts: make(map[counter]int)}
}

// Calls returns the number of calls so far. A listing counts when its
// iteration starts, and however many objects it yields as one call.
func (s *Store) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Counts returns the number of calls so far by kind, of those whose key starts
// with prefix.
func (s *Store) Counts(prefix string) map[Kind]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[Kind]int)
	for c, n := range s.counts {
		if strings.HasPrefix(c.key, prefix) {
			counts[c.kind] += n
		}
	}
	return counts
}

// route counts a call, waits if its fault says so, and returns the store that
// is to answer it.
func (s *Store) route(ctx context.Context, kind Kind, key string) (objectstore.Store, error) {
	fault := s.choose(s.count(kind, key))
	for fault.decision != nil {
		select {
		case fault = <-fault.decision:
		case <-ctx.Done():
			return nil, &objectstore.Error{Op: string(kind), Key: key, Err: ctx.Err()}
		}
	}
	if fault.decorate == nil {
		return s.next, nil
	}
	return fault.decorate(s.next), nil
}

func (s *Store) count(kind Kind, key string) Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.counts[counter{kind, key}]++
	return Op{Kind: kind, Key: key, N: s.calls}
}

func (s *Store) choose(op Op) Fault {
	var chosen Fault
	for _, inject := range s.inject {
		if fault := inject(op); chosen.isNone() {
			chosen = fault
		}
	}
	return chosen
}

// Put implements objectstore.Store.
func (s *Store) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	store, err := s.route(ctx, Put, key)
	if err != nil {
		return objectstore.Info{}, err
	}
	return store.Put(ctx, key, body, opts)
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	store, err := s.route(ctx, Get, key)
	if err != nil {
		return nil, err
	}
	return store.Get(ctx, key, r)
}

// Stat implements objectstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	store, err := s.route(ctx, Stat, key)
	if err != nil {
		return objectstore.Info{}, err
	}
	return store.Stat(ctx, key)
}

// List implements objectstore.Store.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		store, err := s.route(ctx, List, prefix)
		if err != nil {
			yield(objectstore.Info{}, err)
			return
		}
		store.List(ctx, prefix, after)(yield)
	}
}

// Delete implements objectstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	store, err := s.route(ctx, Delete, key)
	if err != nil {
		return err
	}
	return store.Delete(ctx, key)
}
