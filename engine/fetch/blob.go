package fetch

import (
	"context"
	"errors"
	"slices"

	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Blob returns one blob, verified. The caller must not change its bytes; they
// keep the whole frame in memory. Errors are *Error, or that of ctx.
func (f *Fetcher) Blob(ctx context.Context, kind blob.Kind, id blob.ID) ([]byte, error) {
	plaintext, failures := f.fromCopies(ctx, kind, id, nil)
	if failures != nil {
		return nil, failures.err(ctx)
	}
	return plaintext, nil
}

// copyFailures are the reasons why each copy of a blob failed, in the order in
// which they were tried.
type copyFailures struct {
	kind   blob.Kind
	id     blob.ID
	places []Location
	causes []error
}

func (c *copyFailures) add(l Location, err error) {
	c.places = append(c.places, l)
	c.causes = append(c.causes, err)
}

func (c *copyFailures) tried(l Location) bool { return slices.Contains(c.places, l) }

// allGone reports whether every copy that is known lies in a pack that does not
// exist any more, or none is known: then the blob may have moved.
func (c *copyFailures) allGone() bool {
	return !slices.ContainsFunc(c.causes, func(err error) bool {
		return !errors.Is(err, objectstore.ErrNotExist) && !errors.Is(err, ErrNotIndexed)
	})
}

func (c *copyFailures) err(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cause := c.causes[0]
	if len(c.causes) > 1 {
		cause = failedCopies(c.causes)
	}
	return &Error{Kind: c.kind, ID: c.id, Pack: c.places[0].Pack, Offset: c.places[0].FrameOffset, Err: cause}
}

// fromCopies tries the copies of a blob until one is good. failed, if not nil,
// holds a copy that was tried already. If all are gone it asks the locator to look
// again, once. It returns the failures of all copies, or nil.
func (f *Fetcher) fromCopies(ctx context.Context, kind blob.Kind, id blob.ID, failed *copyFailures) ([]byte, *copyFailures) {
	if failed == nil {
		failed = &copyFailures{kind: kind, id: id}
	}
	plaintext, ok := f.tryCopies(ctx, failed)
	if !ok && failed.allGone() {
		fresh, err := f.refresh(ctx)
		if err != nil {
			failed.add(Location{}, err)
		} else if fresh {
			plaintext, ok = f.tryCopies(ctx, failed)
		}
	}
	if ok {
		return plaintext, nil
	}
	if len(failed.causes) == 0 {
		failed.add(Location{}, ErrNotIndexed)
	}
	return nil, failed
}

// tryCopies tries the copies that were not tried yet, and enters those that fail.
func (f *Fetcher) tryCopies(ctx context.Context, failed *copyFailures) (plaintext []byte, ok bool) {
	copies, err := f.cfg.Locator.Copies(ctx, failed.kind, failed.id, make([]Location, 0, 4))
	if err != nil {
		failed.add(Location{}, err)
		return nil, false
	}
	for _, l := range copies {
		if failed.tried(l) {
			continue
		}
		plaintext, err := f.fromCopy(ctx, failed.kind, failed.id, l)
		if err == nil {
			return plaintext, true
		}
		failed.add(l, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, false
}

// refresh asks the locator to look again. An error of the store is handed back: nobody
// knows then whether the blob has moved, so it must not count as lost.
func (f *Fetcher) refresh(ctx context.Context) (bool, error) {
	locator, ok := f.cfg.Locator.(Refresher)
	if !ok {
		return false, nil
	}
	fresh, err := locator.Refresh(ctx)
	if err == nil || errors.As(err, new(*objectstore.Error)) {
		return fresh, err
	}
	return false, nil
}

func (f *Fetcher) fromCopy(ctx context.Context, kind blob.Kind, id blob.ID, l Location) ([]byte, error) {
	content, err := f.frame(ctx, kind, l)
	if err != nil {
		return nil, err
	}
	return f.verified(kind, id, l, content)
}
