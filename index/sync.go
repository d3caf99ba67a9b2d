package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// SyncStats says what a Sync did.
type SyncStats struct {
	Listings     int     // of the index in the store
	Loaded       int     // segments read
	LoadedBytes  int64   // of their objects
	Forgotten    int     // segments that are gone from the store
	PacksAdded   int     // not known before
	PacksRemoved int     // named by no segment any more
	Damaged      []error // *Error, one for each segment that cannot be used
}

// maxListings bounds how often one Sync lists the index.
const maxListings = 10

// Sync makes the database agree with the segments in the store: it loads those
// that are new, and forgets packs that no segment names any more, except those
// that AddPacks recorded. Damaged segments are reported and left out; the rest
// is loaded.
//
// A compaction puts a segment before it deletes those that it replaces, but a
// listing that runs meanwhile may show neither. So a segment is forgotten only
// after two listings in a row lack it, the second one begun when the first had
// ended: by then the segment that replaced it was put, and is listed. A segment
// that vanishes before it is read also asks for another listing. ErrChanging
// after ten listings.
//
// Memory is bounded, about 100 MiB, whatever the size of the index. One Sync of
// a DB runs at a time; others wait.
func (db *DB) Sync(ctx context.Context, store objectstore.Store, sealer *seal.Sealer) (SyncStats, error) {
	select {
	case db.syncing <- struct{}{}:
		defer func() { <-db.syncing }()
	case <-ctx.Done():
		return SyncStats{}, ctx.Err()
	}
	r := syncRun{db: db, store: store, sealer: sealer, unusable: map[SegmentName]bool{}}
	if err := r.run(ctx); err != nil {
		return r.stats, fmt.Errorf("sync index: %w", err)
	}
	return r.stats, nil
}

// syncRun is one Sync.
type syncRun struct {
	db       *DB
	store    objectstore.Store
	sealer   *seal.Sealer
	stats    SyncStats
	unusable map[SegmentName]bool // damaged segments
}

func (r *syncRun) run(ctx context.Context) error {
	var missing map[SegmentName]bool // from the listing before
	for r.stats.Listings < maxListings {
		fresh, gone, err := r.compare(ctx)
		if err != nil {
			return err
		}
		complete, err := r.load(ctx, fresh)
		if err != nil {
			return err
		}
		surprise := slices.ContainsFunc(gone, func(s SegmentName) bool { return !missing[s] })
		// A listing beside a compaction can lack both a segment that the database
		// never knew and the one that replaced it: whatever was new asks for
		// another listing, until one shows nothing new.
		if complete && !surprise && len(fresh) == 0 {
			return r.forget(ctx, gone)
		}
		missing = map[SegmentName]bool{}
		for _, s := range gone {
			missing[s] = true
		}
	}
	return ErrChanging
}

// compare lists the segments that only the store has, and those that only the
// database has. It asks the database first: what that names then was put
// before the listing began, so it is listed, or was deleted.
func (r *syncRun) compare(ctx context.Context) (fresh []SegmentInfo, gone []SegmentName, err error) {
	known, err := r.db.Segments(ctx)
	if err != nil {
		return nil, nil, err
	}
	listed, err := ListSegments(ctx, r.store)
	if err != nil {
		return nil, nil, err
	}
	r.stats.Listings++
	unlisted := map[SegmentName]bool{}
	for _, s := range known {
		unlisted[s.Name] = true
	}
	for _, s := range listed {
		if !unlisted[s.Name] && !r.unusable[s.Name] {
			fresh = append(fresh, s)
		}
		delete(unlisted, s.Name)
	}
	return fresh, slices.Collect(maps.Keys(unlisted)), nil
}

// What is being read takes about three times the sealed bytes: these, the
// content, and the packs that it decodes to.
const (
	maxFetchBytes = maxSegment + 1<<20 // of sealed bytes at a time: one segment of full size
	maxFetches    = 16                 // at a time, when segments are small
)

// fetched is a segment that was read, or why it was not.
type fetched struct {
	info  SegmentInfo
	packs []packfile.Pack
	err   error
}

// load reads the segments and adds them to the database. It is complete unless
// some vanished.
func (r *syncRun) load(ctx context.Context, fresh []SegmentInfo) (complete bool, err error) {
	if len(fresh) == 0 {
		return true, nil
	}
	g, ctx := errgroup.WithContext(ctx)
	results := make(chan fetched)
	weight := semaphore.NewWeighted(maxFetchBytes)
	g.Go(func() error {
		defer close(results)
		return fetchAll(ctx, r.store, r.sealer, fresh, weight, results)
	})
	complete = true
	g.Go(func() error {
		l := newLoader(r.db, &r.stats)
		for f := range results {
			if vanished(f.err) {
				complete = false
			} else if err := r.add(ctx, l, f); err != nil {
				return errors.Join(err, l.discard())
			}
			weight.Release(fetchWeight(f.info))
		}
		return errors.Join(l.flush(ctx), l.discard())
	})
	return complete, g.Wait()
}

func (r *syncRun) add(ctx context.Context, l *loader, f fetched) error {
	if f.err != nil {
		r.unusable[f.info.Name] = true
		r.stats.Damaged = append(r.stats.Damaged, f.err)
		return nil
	}
	return l.add(ctx, f.info, f.packs)
}

func fetchWeight(s SegmentInfo) int64 { return min(max(s.Size, 1), maxFetchBytes) }

// fetchAll sends what became of each segment. The receiver releases its weight.
func fetchAll(ctx context.Context, store objectstore.Store, sealer *seal.Sealer, segments []SegmentInfo, weight *semaphore.Weighted, results chan<- fetched) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxFetches)
	for _, s := range segments {
		if weight.Acquire(ctx, fetchWeight(s)) != nil {
			break // cancelled: see below
		}
		g.Go(func() error {
			packs, err := readListed(ctx, store, sealer, s)
			if err != nil && !vanished(err) && !errors.Is(err, ErrDamaged) {
				return err
			}
			select {
			case results <- fetched{s, packs, err}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	cancelled := ctx.Err() // before Wait, which cancels too
	if err := g.Wait(); err != nil {
		return err
	}
	return cancelled
}

// readListed refuses a segment that is too large before it is read.
func readListed(ctx context.Context, store objectstore.Store, sealer *seal.Sealer, s SegmentInfo) ([]packfile.Pack, error) {
	if s.Size > maxSegment+seal.Overhead {
		return nil, &Error{Op: "read segment", Object: s.Name.Key(), Err: fmt.Errorf("%w: %d bytes long", ErrDamaged, s.Size)}
	}
	return ReadSegment(ctx, store, sealer, s.Name)
}
