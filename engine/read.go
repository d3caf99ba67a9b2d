package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"

	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// LsEntry is an entry with its path below the root; "" is the root itself.
type LsEntry struct {
	Path string
	manifest.Entry
}

// Depth says how far a listing goes.
type Depth int

// The depths of listings.
const (
	Shallow   Depth = iota // a directory's own entries
	Recursive              // everything below
)

// Ls yields the entry at path and, if it is a directory, the entries in it, in
// the order of their names, each directory before what is in it.
func (r *Repository) Ls(ctx context.Context, id ID, at string, depth Depth) iter.Seq2[LsEntry, error] {
	return func(yield func(LsEntry, error) bool) {
		get, entry, err := r.entry(ctx, id, at)
		if err != nil {
			yield(LsEntry{}, failed("list", id.String(), err))
			return
		}
		at = cleanPath(at)
		if yield(LsEntry{Path: at, Entry: entry}, nil) {
			listBelow(ctx, get, at, entry, depth, yield)
		}
	}
}

// listBelow reports whether the listing goes on.
func listBelow(ctx context.Context, get manifest.GetNode, at string, dir manifest.Entry, depth Depth, yield func(LsEntry, error) bool) bool {
	if dir.Kind != manifest.Dir {
		return true
	}
	for e, err := range manifest.ReadDir(ctx, get, dir.Node) {
		if err != nil {
			return yield(LsEntry{Path: at}, failed("list", at, err))
		}
		below := path.Join(at, e.Name)
		if !yield(LsEntry{Path: below, Entry: *e}, nil) {
			return false
		}
		if depth == Recursive && !listBelow(ctx, get, below, *e, depth, yield) {
			return false
		}
	}
	return true
}

func cleanPath(at string) string { return strings.Trim(path.Clean("/"+at), "/") }

// entry finds the entry at a path of a snapshot.
func (r *Repository) entry(ctx context.Context, id ID, at string) (manifest.GetNode, manifest.Entry, error) {
	get, err := r.nodes(ctx)
	if err != nil {
		return nil, manifest.Entry{}, err
	}
	root, err := r.root(ctx, get, id)
	if err != nil {
		return nil, manifest.Entry{}, err
	}
	entry, err := manifest.Lookup(ctx, get, root, cleanPath(at))
	return get, entry, err
}

// Cat writes the content of the file at path to w. Every byte is verified before
// it is written; an error can come after the first bytes.
func (r *Repository) Cat(ctx context.Context, id ID, at string, w io.Writer) error {
	return failed("cat", at, r.cat(ctx, id, at, w))
}

func (r *Repository) cat(ctx context.Context, id ID, at string, w io.Writer) error {
	get, entry, err := r.entry(ctx, id, at)
	if err != nil {
		return err
	}
	if entry.Kind != manifest.File {
		return fmt.Errorf("it is a %v, only files have content", entry.Kind)
	}
	fetcher, err := r.fetcher(ctx)
	if err != nil {
		return err
	}
	for x, err := range manifest.ReadContent(ctx, get, &entry) {
		if err != nil {
			return err
		}
		if err := writeExtent(ctx, w, x, fetcher.Blob); err != nil {
			return err
		}
	}
	return nil
}

func writeExtent(ctx context.Context, w io.Writer, x manifest.Extent, get func(context.Context, blob.Kind, blob.ID) ([]byte, error)) error {
	if x.Hole() {
		_, err := io.CopyN(w, zeros{}, int64(x.Length))
		return err
	}
	data, err := get(ctx, blob.Data, x.ID)
	if err != nil {
		return err
	}
	if uint64(len(data)) != x.Length {
		return fmt.Errorf("blob %v: %w: %d bytes, its file says %d", x.ID, ErrDamaged, len(data), x.Length)
	}
	_, err = w.Write(data)
	return err
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func isNoEntry(err error) bool { return errors.Is(err, ErrNoEntry) }
