package index

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"golang.org/x/sync/errgroup"
)

// RebuildStats says what a Rebuild did, also when it failed.
type RebuildStats struct {
	Packs      int           // that the new segments describe
	Blobs      int           // in them
	Unreadable []error       // *Error, one for each pack without a usable footer
	Salvaged   int           // of those, described by an old segment, and so by a new one
	Written    []SegmentInfo // new segments
	Deleted    []SegmentName // old segments
}

// Rebuild makes the index again from the footers of the packs: it puts segments
// that describe every pack in the store, then deletes the segments that were
// there when it began. A pack whose footer cannot be used is reported, and
// described as an old segment did, if one can be read. If no pack can be read,
// as with a wrong key, Rebuild fails and deletes nothing.
//
// Other writers may go on meanwhile: their segments are not touched. Memory is
// bounded, about 100 MiB, whatever the number of packs.
func Rebuild(ctx context.Context, store objectstore.Store, sealer *seal.Sealer) (RebuildStats, error) {
	r := newRebuild(store, sealer)
	if err := r.run(ctx); err != nil {
		return r.stats, fmt.Errorf("rebuild index: %w", err)
	}
	return r.stats, nil
}

const (
	// rebuildBlobs are described by one segment: 14 MiB of content, 16 MiB of
	// packs in memory.
	rebuildBlobs = 400_000
	// maxFooters are read at a time. A footer takes 128 KiB as a rule, seldom
	// a few MiB.
	maxFooters = 16
)

type rebuild struct {
	store      objectstore.Store
	sealer     *seal.Sealer
	perSegment int // blobs

	// writing holds a token while one segment is written: those who have more
	// for the next one wait, which bounds what is in memory.
	writing chan struct{}

	mu         sync.Mutex // guards the fields below; not held over requests
	stats      RebuildStats
	packs      []packfile.Pack // read but not in a segment yet
	blobs      int             // in packs
	unreadable PackSet
}

func newRebuild(store objectstore.Store, sealer *seal.Sealer) *rebuild {
	return &rebuild{store: store, sealer: sealer, perSegment: rebuildBlobs,
		unreadable: PackSet{}, writing: make(chan struct{}, 1)}
}

func (r *rebuild) run(ctx context.Context) error {
	// Before the packs: a pack that appears in between has a segment that
	// appears later still, and stays.
	old, err := ListSegments(ctx, r.store)
	if err != nil {
		return err
	}
	if err := r.readPacks(ctx); err != nil {
		return err
	}
	if r.stats.Packs == 0 && len(r.unreadable) > 0 {
		return fmt.Errorf("%w: none of %d packs could be read: %w", ErrDamaged, len(r.unreadable), r.stats.Unreadable[0])
	}
	if err := r.salvage(ctx, old); err != nil {
		return err
	}
	if err := r.write(ctx, 0); err != nil {
		return err
	}
	names := make([]SegmentName, len(old))
	for i, s := range old {
		names[i] = s.Name
	}
	r.stats.Deleted, err = deleteSegments(ctx, r.store, names)
	return err
}

func (r *rebuild) readPacks(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxFooters)
	for info, err := range r.store.List(ctx, packPrefix, "") {
		if err != nil {
			return errors.Join(g.Wait(), fmt.Errorf("list packs: %w", err))
		}
		name, err := packfile.ParseName(strings.TrimPrefix(info.Key, packPrefix))
		if err != nil {
			continue // not ours
		}
		g.Go(func() error { return r.readPack(ctx, name, info.Size) })
		if ctx.Err() != nil {
			break
		}
	}
	return g.Wait()
}

func (r *rebuild) readPack(ctx context.Context, name packfile.Name, size int64) error {
	key := packPrefix + name.String()
	p, err := packfile.ReadFooter(r.sealer, name, size, func(offset, length int64) ([]byte, error) {
		return objectstore.ReadRange(ctx, r.store, key, offset, length)
	})
	switch {
	case vanished(err): // collected meanwhile
		return nil
	case errors.Is(err, ErrDamaged):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unreadable[name] = struct{}{}
		r.stats.Unreadable = append(r.stats.Unreadable, &Error{Op: "read footer of", Object: key, Err: err})
		return nil
	case err != nil:
		return err
	}
	r.add(p)
	return r.write(ctx, r.perSegment)
}

func (r *rebuild) add(p packfile.Pack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packs = append(r.packs, p)
	for _, f := range p.Frames {
		r.blobs += len(f.Blobs)
		r.stats.Blobs += len(f.Blobs)
	}
	r.stats.Packs++
}

// write writes a segment if there are packs with so many blobs.
func (r *rebuild) write(ctx context.Context, blobs int) error {
	if !r.pending(blobs) {
		return nil
	}
	select {
	case r.writing <- struct{}{}:
		defer func() { <-r.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	written, err := WriteSegments(ctx, r.store, r.sealer, r.take(blobs))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Written = append(r.stats.Written, written...)
	return err
}

func (r *rebuild) pending(blobs int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.packs) > 0 && r.blobs >= blobs
}

// take takes the packs out if they have so many blobs.
func (r *rebuild) take(blobs int) []packfile.Pack {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blobs < blobs {
		return nil
	}
	packs := r.packs
	r.packs, r.blobs = nil, 0
	return packs
}

// salvage looks for descriptions of unreadable packs in old segments.
func (r *rebuild) salvage(ctx context.Context, old []SegmentInfo) error {
	for _, s := range old {
		if len(r.unreadable) == 0 {
			return nil
		}
		packs, err := readListed(ctx, r.store, r.sealer, s)
		if err != nil && !vanished(err) && !errors.Is(err, ErrDamaged) {
			return err
		}
		for _, p := range packs {
			if r.unreadable.Has(p.Name) {
				delete(r.unreadable, p.Name)
				r.stats.Salvaged++
				r.add(p)
			}
		}
		if err := r.write(ctx, r.perSegment); err != nil {
			return err
		}
	}
	return nil
}
