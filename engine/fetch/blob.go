package fetch

import (
	"context"

	"github.com/snapctl/snapctl/packfile/blob"
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
	first  Location
	causes []error
}

func (c *copyFailures) add(l Location, err error) {
	if len(c.causes) == 0 {
		c.first = l
	}
	c.causes = append(c.causes, err)
}

func (c *copyFailures) tried(l Location) bool { return len(c.causes) > 0 && c.first == l }

func (c *copyFailures) err(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cause := c.causes[0]
	if len(c.causes) > 1 {
		cause = failedCopies(c.causes)
	}
	return &Error{Kind: c.kind, ID: c.id, Pack: c.first.Pack, Offset: c.first.FrameOffset, Err: cause}
}

// fromCopies tries the copies of a blob until one is good. failed, if not nil,
// holds a copy that was tried already. It returns the failures of all copies,
// or nil.
func (f *Fetcher) fromCopies(ctx context.Context, kind blob.Kind, id blob.ID, failed *copyFailures) ([]byte, *copyFailures) {
	if failed == nil {
		failed = &copyFailures{kind: kind, id: id}
	}
	copies, err := f.cfg.Locator.Copies(ctx, kind, id, make([]Location, 0, 4))
	if err != nil {
		failed.add(Location{}, err)
		return nil, failed
	}
	for _, l := range copies {
		if failed.tried(l) {
			continue
		}
		plaintext, err := f.fromCopy(ctx, kind, id, l)
		if err == nil {
			return plaintext, nil
		}
		failed.add(l, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(failed.causes) == 0 {
		failed.add(Location{}, ErrNotIndexed)
	}
	return nil, failed
}

func (f *Fetcher) fromCopy(ctx context.Context, kind blob.Kind, id blob.ID, l Location) ([]byte, error) {
	content, err := f.frame(ctx, kind, l)
	if err != nil {
		return nil, err
	}
	return f.verified(kind, id, l, content)
}
