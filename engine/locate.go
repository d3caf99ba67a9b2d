package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile/blob"
)

// locator lets a fetcher ask the index from many goroutines: a reader of the
// index belongs to one, so idle ones are kept for the next question.
type locator struct {
	db *index.DB
	// sync brings the index up to date, and reports whether that changed it; nil if
	// the index is to stay as it is.
	sync func(context.Context) (bool, error)

	mu   sync.Mutex // guards idle
	idle []*index.Reader

	refreshing sync.Mutex // guards what follows, and is held while the index is read
	fruitless  int        // refreshes in a row that changed nothing
	failed     bool       // the last refresh
}

// maxFruitless bounds what a snapshot with many lost blobs costs: each of them may
// ask for a refresh.
const maxFruitless = 3

// Refresh implements fetch.Refresher. Who waited for another refresh may find in it
// what it looks for.
func (l *locator) Refresh(ctx context.Context) (bool, error) {
	if l.sync == nil {
		return false, nil
	}
	waited := !l.refreshing.TryLock()
	if waited {
		l.refreshing.Lock()
	}
	defer l.refreshing.Unlock()
	if waited && !l.failed {
		return true, nil
	}
	if l.fruitless >= maxFruitless {
		return false, nil
	}
	changed, err := l.sync(ctx)
	l.failed = err != nil
	switch {
	case changed:
		l.fruitless = 0
	case err == nil:
		l.fruitless++
	}
	return changed, err
}

// renewed says that the index was brought up to date for another reason.
func (l *locator) renewed() {
	l.refreshing.Lock()
	defer l.refreshing.Unlock()
	l.fruitless = 0
}

func (l *locator) take() *index.Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		reader := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return reader
	}
	return l.db.NewReader(nil)
}

func (l *locator) give(reader *index.Reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = append(l.idle, reader)
}

// Copies implements fetch.Locator.
func (l *locator) Copies(ctx context.Context, kind blob.Kind, id blob.ID, dst []fetch.Location) ([]fetch.Location, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	reader := l.take()
	defer l.give(reader)
	copies, err := reader.Copies(nil, id)
	for _, c := range copies {
		if c.Kind == kind {
			dst = append(dst, fetch.Location{
				Pack: c.Pack, FrameOffset: c.FrameOffset, FrameLength: c.FrameLength,
				FrameContent: c.FrameContent, Offset: c.Offset, Length: c.Length,
			})
		}
	}
	return dst, err
}

// close closes the idle readers; no question may be under way.
func (l *locator) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, reader := range l.idle {
		errs = append(errs, reader.Close())
	}
	l.idle = nil
	return errors.Join(errs...)
}

// fetcher returns what reads blobs, with the index brought up to date.
func (r *Repository) fetcher(ctx context.Context) (*fetch.Fetcher, error) {
	if _, err := r.index(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fetch, nil
}

// nodes returns what reads tree nodes.
func (r *Repository) nodes(ctx context.Context) (manifest.GetNode, error) {
	fetcher, err := r.fetcher(ctx)
	if err != nil {
		return nil, err
	}
	return fetcher.Node, nil
}
