package s3

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// List implements objectstore.Store. Names in the bucket that are no keys, such
// as the folders that consoles make, are left out. Memory is bounded by one
// page of 1000 keys.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		l := listing{prefix: prefix, after: after, yield: yield}
		err := ctx.Err()
		if err != nil {
			err = &objectstore.Error{Op: opList, Key: prefix, Err: err}
		} else if l.possible() {
			err = s.do(ctx, opList, prefix, &call{}, func(ctx context.Context) error { return l.run(ctx, s) })
		}
		if err != nil && !l.stopped {
			yield(objectstore.Info{}, err)
		}
	}
}

type listing struct {
	prefix  string
	after   string
	yield   func(objectstore.Info, error) bool
	stopped bool // yield has had enough
}

// possible says whether any key can have the prefix and be behind after.
func (l *listing) possible() bool {
	starts := objectstore.ValidKey(l.prefix) == nil || objectstore.ValidKey(l.prefix+"x") == nil
	return starts && (l.after < l.prefix || strings.HasPrefix(l.after, l.prefix))
}

func (l *listing) run(ctx context.Context, s *Store) error {
	options := minio.ListObjectsOptions{
		Prefix:     s.root + l.prefix,
		StartAfter: l.startAfter(s.root),
		Recursive:  true,
		FetchOwner: new(bool),
	}
	last := l.after
	for object := range s.core.ListObjectsIter(ctx, s.bucket, options) {
		if object.Err != nil {
			return object.Err
		}
		key, below := strings.CutPrefix(object.Key, s.root)
		if !below || !strings.HasPrefix(key, l.prefix) {
			return wrongAnswer(fmt.Sprintf("listing of %q has %q", options.Prefix, plain(object.Key)))
		}
		if objectstore.ValidKey(key) != nil || key <= l.after {
			continue
		}
		if key <= last {
			return wrongAnswer(fmt.Sprintf("listing is not in order: %s comes behind %s", key, last))
		}
		last = key
		if !l.yield(objectstore.Info{Key: key, Size: object.Size, ETag: object.ETag, ModTime: object.LastModified}, nil) {
			l.stopped = true
			return nil
		}
	}
	return ctx.Err() // minio-go ends quietly then
}

// startAfter is where the store starts, at after or before it: what stands in a
// request has to be printable. Empty is the first key with the prefix.
func (l *listing) startAfter(root string) string {
	if l.after < l.prefix || l.after == "" {
		return ""
	}
	strange := strings.IndexFunc(l.after, func(r rune) bool { return r <= ' ' || r > '~' })
	if strange >= 0 {
		return root + l.after[:strange]
	}
	return root + l.after
}
