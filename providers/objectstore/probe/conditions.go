package probe

import (
	"context"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// putIfAbsent tries it one after the other, and in a race.
func putIfAbsent(ctx context.Context, f folder) (string, error) {
	ifAbsent := objectstore.PutOptions{IfAbsent: true}
	if _, err := f.put(ctx, "taken", "first", ifAbsent); err != nil {
		return "", fmt.Errorf("a put to a free key: %w", err)
	}
	for _, content := range []string{"second", "first", ""} {
		_, err := f.put(ctx, "taken", content, ifAbsent)
		if err := wantRefused(err, objectstore.ErrExist, "if absent to a key that is taken"); err != nil {
			return "", err
		}
		if err := f.wantBody(ctx, "taken", "first"); err != nil {
			return "", err
		}
	}
	if err := f.delete(ctx, "taken"); err == nil { // otherwise another trial finds it
		if _, err := f.put(ctx, "taken", "again", ifAbsent); err != nil {
			return "", fmt.Errorf("a put to a key that became free: %w", err)
		}
	}
	return f.races(ctx, func(r *race) error {
		r.opts, r.lost = ifAbsent, objectstore.ErrExist
		return nil
	})
}

// putIfMatch tries it one after the other, and in a race.
func putIfMatch(ctx context.Context, f folder) (string, error) {
	first, err := f.put(ctx, "key", "first", unconditional)
	if err != nil {
		return "", err
	}
	if first == "" {
		return "", errors.New("a put answers no ETag")
	}
	_, err = f.put(ctx, "absent", "created", objectstore.PutOptions{IfMatch: first})
	if err := wantRefused(err, objectstore.ErrPrecondition, "if match to an absent key"); err != nil {
		return "", err
	}
	if err := f.wantAbsent(ctx, "absent"); err != nil {
		return "", err
	}
	second, err := f.put(ctx, "key", "second", objectstore.PutOptions{IfMatch: first})
	if err != nil {
		return "", fmt.Errorf("a put with the ETag of the object: %w", err)
	}
	_, err = f.put(ctx, "key", "third", objectstore.PutOptions{IfMatch: first})
	if err := wantRefused(err, objectstore.ErrPrecondition, "with the ETag of an earlier object"); err != nil {
		return "", err
	}
	if err := f.wantBody(ctx, "key", "second"); err != nil {
		return "", err
	}
	if _, err = f.put(ctx, "key", "fourth", objectstore.PutOptions{IfMatch: second}); err != nil {
		return "", fmt.Errorf("a put with the ETag of the object: %w", err)
	}
	return f.races(ctx, func(r *race) error {
		r.before, r.lost = "before "+r.key, objectstore.ErrPrecondition
		r.opts.IfMatch, err = f.put(ctx, r.key, r.before, unconditional)
		return err
	})
}
