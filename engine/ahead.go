package engine

import (
	"bytes"
	"context"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// ahead is a store that has some answers already: their requests were made at the
// same time, before anybody needed them, so that all cost one round trip. Each answer
// is given once, to whoever makes that request; any other goes to the store. An
// error is an answer too.
type ahead struct {
	objectstore.Store
	asked time.Time // when the requests were made

	mu      sync.Mutex // guards answers
	answers map[string]answer
}

// answer is what came of a request: the content of an object, by its key, or a
// listing, by its prefix. A prefix ends with a slash, so no key looks like one.
type answer struct {
	object  []byte
	listing []objectstore.Info
	err     error
}

// question is a request that can be made ahead.
type question struct {
	name string
	ask  func(ctx context.Context, store objectstore.Store) answer
}

// objectAhead asks for a whole object of at most limit bytes.
func objectAhead(key string, limit int64) question {
	return question{key, func(ctx context.Context, store objectstore.Store) answer {
		object, err := objectstore.ReadAll(ctx, store, key, limit)
		return answer{object: object, err: err}
	}}
}

// listingAhead asks for a whole listing.
func listingAhead(prefix string) question {
	return question{prefix, func(ctx context.Context, store objectstore.Store) answer {
		var a answer
		for info, err := range store.List(ctx, prefix, "") {
			if a.err = err; err != nil {
				break
			}
			a.listing = append(a.listing, info)
		}
		return a
	}}
}

// askAhead makes the requests and returns when all are answered. If the first one
// fails, the others are of no use and are cancelled. The error is that of ctx.
func askAhead(ctx context.Context, store objectstore.Store, first question, others ...question) (*ahead, error) {
	a := &ahead{Store: store, asked: time.Now(), answers: map[string]answer{}}
	useful, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var requests sync.WaitGroup
	for _, q := range others {
		requests.Go(func() { a.keep(q.name, q.ask(useful, store)) })
	}
	needed := first.ask(ctx, store)
	if needed.err != nil {
		giveUp()
	}
	requests.Wait()
	a.keep(first.name, needed)
	return a, ctx.Err()
}

func (a *ahead) keep(name string, got answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[name] = got
}

func (a *ahead) take(name string) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	got, ok := a.answers[name]
	delete(a.answers, name)
	return got, ok
}

// Get implements objectstore.Store.
func (a *ahead) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	if r != (objectstore.Range{}) {
		return a.Store.Get(ctx, key, r)
	}
	got, ok := a.take(key)
	switch {
	case !ok:
		return a.Store.Get(ctx, key, r)
	case got.err != nil:
		return nil, got.err
	}
	return io.NopCloser(bytes.NewReader(got.object)), nil
}

// List implements objectstore.Store.
func (a *ahead) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	if after != "" {
		return a.Store.List(ctx, prefix, after)
	}
	got, ok := a.take(prefix)
	if !ok {
		return a.Store.List(ctx, prefix, after)
	}
	return func(yield func(objectstore.Info, error) bool) {
		for _, info := range got.listing {
			if !yield(info, nil) {
				return
			}
		}
		if got.err != nil {
			yield(objectstore.Info{}, got.err)
		}
	}
}
