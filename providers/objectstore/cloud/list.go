package cloud

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"gocloud.dev/blob"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// pageSize is how many objects are asked for at once.
const pageSize = 1000

// List implements objectstore.Store. Names in the bucket that are no keys, such
// as the folders that consoles make, are left out. Memory is bounded by one
// page of 1000 keys.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objectstore.Info, error] {
	return func(yield func(objectstore.Info, error) bool) {
		l := listing{store: s, prefix: prefix, after: after, last: after, yield: yield}
		err := ctx.Err()
		if err != nil {
			err = &objectstore.Error{Op: opList, Key: prefix, Err: err}
		} else if l.possible() {
			err = s.do(ctx, opList, prefix, &call{}, l.run)
		}
		if err != nil && !l.stopped {
			yield(objectstore.Info{}, err)
		}
	}
}

type listing struct {
	store   *Store
	prefix  string
	after   string
	last    string // the key yielded last
	yield   func(objectstore.Info, error) bool
	stopped bool // yield has had enough
}

// possible says whether any key can have the prefix and be behind after.
func (l *listing) possible() bool {
	starts := objectstore.ValidKey(l.prefix) == nil || objectstore.ValidKey(l.prefix+"x") == nil
	return starts && (l.after < l.prefix || strings.HasPrefix(l.after, l.prefix))
}

func (l *listing) run(ctx context.Context) error {
	bucket, options := l.store.service.pages(l.store.place.root+l.prefix, l.from())
	for token := blob.FirstPageToken; len(token) > 0 && !l.stopped; {
		page, next, err := bucket.ListPage(ctx, token, pageSize, options)
		if err != nil {
			return err
		}
		infos, err := l.store.service.listed(page)
		if err != nil {
			return err
		}
		if err := l.take(ctx, infos); err != nil {
			return err
		}
		token = next
	}
	return nil
}

// take yields the objects of one page.
func (l *listing) take(ctx context.Context, page []objectstore.Info) error {
	for _, info := range page {
		if err := ctx.Err(); err != nil {
			return err
		}
		key, below := strings.CutPrefix(info.Key, l.store.place.root)
		if !below || !strings.HasPrefix(key, l.prefix) {
			return wrongAnswer(fmt.Sprintf("listing of %q has %q", l.store.place.root+l.prefix, plain(info.Key)))
		}
		if objectstore.ValidKey(key) != nil || key <= l.after {
			continue
		}
		if key <= l.last {
			return wrongAnswer(fmt.Sprintf("listing is not in order: %s comes behind %s", key, l.last))
		}
		l.last = key
		info.Key = key
		if !l.yield(info, nil) {
			l.stopped = true
			return nil
		}
	}
	return nil
}

// from is the name where the store starts, at after or before it: what stands
// in a request has to be printable. Empty is the first name with the prefix.
func (l *listing) from() string {
	if l.after < l.prefix || l.after == "" {
		return ""
	}
	strange := strings.IndexFunc(l.after, func(r rune) bool { return r <= ' ' || r > '~' })
	if strange >= 0 {
		return l.store.place.root + l.after[:strange]
	}
	return l.store.place.root + l.after
}
