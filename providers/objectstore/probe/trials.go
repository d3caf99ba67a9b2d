package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/providers/objectstore"
)

var unconditional = objectstore.PutOptions{}

// sizes of objects, in bytes. The largest are read in several pieces.
var sizes = []int{0, 1, 1000, 64<<10 + 1, 512 << 10}

// readAfterWrite reads objects back at once: new ones, ones that were asked for
// before they were there, which caches like to remember as absent, and
// overwritten ones.
func readAfterWrite(ctx context.Context, f folder) (string, error) {
	for i, size := range sizes {
		for _, asked := range []string{"", "asked-"} {
			key := fmt.Sprintf("%snew-%d", asked, i)
			want := body(key, size)
			if asked != "" {
				if err := f.wantAbsent(ctx, key); err != nil {
					return "", err
				}
			}
			if _, err := f.put(ctx, key, want, unconditional); err != nil {
				return "", err
			}
			if err := f.wantBody(ctx, key, want); err != nil {
				return "", err
			}
		}
	}
	if err := f.rewrite(ctx, f.wantBody); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d new and %d overwritten objects were read back at once", 2*len(sizes), rewrites-1), nil
}

const rewrites = 6

// rewrite overwrites an object again and again and checks it each time.
func (f folder) rewrite(ctx context.Context, check func(ctx context.Context, key, want string) error) error {
	for i := range rewrites {
		want := body(fmt.Sprintf("version-%d", i), 1000-10*i)
		if _, err := f.put(ctx, "rewritten", want, unconditional); err != nil {
			return err
		}
		if err := check(ctx, "rewritten", want); err != nil {
			return fmt.Errorf("version %d of an object: %w", i+1, err)
		}
	}
	return nil
}

// overwrite checks everything that can be seen of an object that changes.
func overwrite(ctx context.Context, f folder) (string, error) {
	etags := map[string]bool{}
	err := f.rewrite(ctx, func(ctx context.Context, key, want string) error {
		if err := f.wantBody(ctx, key, want); err != nil {
			return err
		}
		info, err := f.store.Stat(ctx, f.prefix+key)
		if err != nil {
			return err
		}
		if etags[info.ETag] {
			return fmt.Errorf("it has the ETag %q of an earlier one", info.ETag)
		}
		etags[info.ETag] = true
		return f.wantListed(ctx, key, want)
	})
	return fmt.Sprintf("%d versions were read, listed and told apart by their ETags", rewrites), err
}

// listAfterWrite lists before and after every put, so that a listing that is
// kept somewhere is an old one.
func listAfterWrite(ctx context.Context, f folder) (string, error) {
	const puts = 8
	for i := range puts {
		found, _, err := f.list(ctx, "")
		if err != nil {
			return "", err
		}
		if len(found) != i {
			return "", fmt.Errorf("%d of %d objects are listed", len(found), i)
		}
		key := fmt.Sprintf("key-%d", (i*5)%puts)
		if _, err := f.put(ctx, key, body(key, i), unconditional); err != nil {
			return "", err
		}
		if err := f.wantListed(ctx, key, body(key, i)); err != nil {
			return "", err
		}
	}
	if err := f.rewrite(ctx, f.wantListed); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d puts were listed at once", puts+rewrites), nil
}

// listKeys are in ascending byte order, in which the characters of keys are
// '-', '.', '/', digits, upper case, '_', lower case.
var listKeys = []string{"B", "a-b", "a.b", "a/b", "a/c.d/e", "a/c/d", "a0", "aA", "a_", "aa", "b/x", "b0"}

// listAfterKey lists after every key, and after keys that are no object's.
func listAfterKey(ctx context.Context, f folder) (string, error) {
	g, putting := errgroup.WithContext(ctx)
	for _, key := range listKeys {
		g.Go(func() error {
			_, err := f.put(putting, key, key, unconditional)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	afters := append([]string{"", "A", "a", "a/", "a/b0", "a/c.", "ab", "b/", "z"}, listKeys...)
	for _, after := range afters {
		_, got, err := f.list(ctx, after)
		if err != nil {
			return "", err
		}
		want := slices.DeleteFunc(slices.Clone(listKeys), func(key string) bool { return key <= after })
		if !slices.Equal(got, want) {
			return "", fmt.Errorf("a listing after %q yields %s, not %s", after, strings.Join(got, " "), strings.Join(want, " "))
		}
	}
	return fmt.Sprintf("%d listings were complete, in order and started where they should", len(afters)), nil
}

// deleteThenList deletes objects and looks for them in every way.
func deleteThenList(ctx context.Context, f folder) (string, error) {
	const deletes = 4
	for i := range deletes {
		key := fmt.Sprintf("folder/key-%d", i)
		if _, err := f.put(ctx, key, key, unconditional); err != nil {
			return "", err
		}
		if err := f.wantListed(ctx, key, key); err != nil {
			return "", err
		}
		for range 2 { // the second time there is nothing
			if err := f.delete(ctx, key); err != nil {
				return "", err
			}
		}
		if err := f.wantAbsent(ctx, key); err != nil {
			return "", fmt.Errorf("after a delete: %w", err)
		}
		found, _, err := f.list(ctx, "")
		if err != nil {
			return "", err
		}
		if _, listed := found[key]; listed {
			return "", errors.New("an object is listed after its delete")
		}
	}
	if _, err := f.put(ctx, "folder/key-0", "again", unconditional); err != nil {
		return "", fmt.Errorf("a put where an object was deleted: %w", err)
	}
	return fmt.Sprintf("%d objects were gone as soon as they were deleted", deletes), f.wantBody(ctx, "folder/key-0", "again")
}

// ranges reads parts of an object.
func ranges(ctx context.Context, f folder) (string, error) {
	content := body("0123456789", 1000)
	if _, err := f.put(ctx, "object", content, unconditional); err != nil {
		return "", err
	}
	if _, err := f.put(ctx, "empty", "", unconditional); err != nil {
		return "", err
	}
	parts := []struct {
		key            string
		offset, length int64
		want           string
		err            error
	}{
		{"object", 0, 10, content[:10], nil},
		{"object", 0, 1000, content, nil},
		{"object", 7, 500, content[7:507], nil},
		{"object", 990, 0, content[990:], nil},
		{"object", 999, 1, content[999:], nil},
		{"object", 900, 500, content[900:], nil},
		{"object", 3, math.MaxInt64, content[3:], nil},
		{"object", 1000, 1, "", objectstore.ErrRange},
		{"object", 5000, 0, "", objectstore.ErrRange},
		{"empty", 0, 0, "", nil},
		{"empty", 0, 10, "", nil},
		{"empty", 1, 0, "", objectstore.ErrRange},
	}
	for _, part := range parts {
		got, err := f.get(ctx, part.key, objectstore.Range{Offset: part.offset, Length: part.length})
		switch {
		case part.err == nil && err != nil:
			return "", fmt.Errorf("%d bytes from %d: %w", part.length, part.offset, err)
		case part.err != nil && err == nil:
			return "", fmt.Errorf("%d bytes from %d are %s, not an error", part.length, part.offset, about(got))
		case part.err != nil && !errors.Is(err, part.err):
			return "", fmt.Errorf("%d bytes from %d, behind the end: %w", part.length, part.offset, err)
		case got != part.want:
			return "", fmt.Errorf("%d bytes from %d are %s, not %s", part.length, part.offset, about(got), about(part.want))
		}
	}
	return fmt.Sprintf("%d ranges were exact", len(parts)), nil
}
