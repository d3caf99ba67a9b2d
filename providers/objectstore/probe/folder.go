package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// folder is where one trial puts its objects. Keys are relative to it.
type folder struct {
	*prober
	prefix string
}

// put stores an object, which is deleted at the end, also if the answer was not
// clear.
func (f folder) put(ctx context.Context, key, body string, opts objectstore.PutOptions) (etag string, err error) {
	info, err := f.store.Put(ctx, f.prefix+key, strings.NewReader(body), opts)
	if !errors.Is(err, objectstore.ErrExist) && !errors.Is(err, objectstore.ErrPrecondition) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.made[f.prefix+key] = true
	}
	return info.ETag, err
}

func (f folder) get(ctx context.Context, key string, r objectstore.Range) (string, error) {
	body, err := f.store.Get(ctx, f.prefix+key, r)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(body, maxBody))
	return string(content), errors.Join(err, body.Close())
}

func (f folder) delete(ctx context.Context, key string) error {
	return f.store.Delete(ctx, f.prefix+key)
}

// list returns the sizes of the objects listed, and their keys in the order of
// the listing.
func (f folder) list(ctx context.Context, after string) (sizes map[string]int64, keys []string, err error) {
	if after != "" {
		after = f.prefix + after
	}
	sizes = make(map[string]int64)
	for info, err := range f.store.List(ctx, f.prefix, after) {
		if err != nil {
			return nil, nil, err
		}
		key, ours := strings.CutPrefix(info.Key, f.prefix)
		if !ours {
			return nil, nil, fmt.Errorf("a listing of %s holds %s", f.prefix, info.Key)
		}
		sizes[key] = info.Size
		keys = append(keys, key)
	}
	return sizes, keys, nil
}

// wantBody reads an object back, and asks for its size.
func (f folder) wantBody(ctx context.Context, key, want string) error {
	got, err := f.get(ctx, key, objectstore.Range{})
	if err != nil {
		return fmt.Errorf("read back an object of %d bytes: %w", len(want), err)
	}
	if got != want {
		return fmt.Errorf("%s was read back, not %s", about(got), about(want))
	}
	info, err := f.store.Stat(ctx, f.prefix+key)
	if err != nil {
		return fmt.Errorf("stat an object of %d bytes: %w", len(want), err)
	}
	if info.Size != int64(len(want)) {
		return fmt.Errorf("stat says %d bytes of an object of %d", info.Size, len(want))
	}
	return nil
}

func (f folder) wantAbsent(ctx context.Context, key string) error {
	got, err := f.get(ctx, key, objectstore.Range{})
	if err == nil {
		return fmt.Errorf("%s was read where no object is", about(got))
	}
	if !errors.Is(err, objectstore.ErrNotExist) {
		return fmt.Errorf("read an absent object: %w", err)
	}
	_, err = f.store.Stat(ctx, f.prefix+key)
	if err == nil {
		return errors.New("stat found an object where none is")
	}
	if !errors.Is(err, objectstore.ErrNotExist) {
		return fmt.Errorf("stat an absent object: %w", err)
	}
	return nil
}

// wantListed checks that a listing has an object at its size.
func (f folder) wantListed(ctx context.Context, key, body string) error {
	sizes, _, err := f.list(ctx, "")
	if err != nil {
		return err
	}
	size, listed := sizes[key]
	if !listed {
		return fmt.Errorf("an object is not listed right after its put; %d others are", len(sizes))
	}
	if size != int64(len(body)) {
		return fmt.Errorf("an object of %d bytes is listed with %d", len(body), size)
	}
	return nil
}

// wantRefused checks the error of a put whose condition did not hold.
func wantRefused(err, sentinel error, condition string) error {
	if err == nil {
		return fmt.Errorf("a put was acknowledged %s", condition)
	}
	if !errors.Is(err, sentinel) {
		return fmt.Errorf("a put %s: %w", condition, err)
	}
	return nil
}

// maxBody is more than any object of a probe has, in bytes.
const maxBody = 1 << 20

// body is content of a size, different for each mark.
func body(mark string, size int) string {
	line := mark + "\n"
	return strings.Repeat(line, size/len(line)+1)[:size]
}

// about names a body for people.
func about(body string) string {
	line, _, _ := strings.Cut(body, "\n")
	if len(line) > 40 {
		line = line[:40]
	}
	return fmt.Sprintf("%q (%d bytes)", line, len(body))
}
