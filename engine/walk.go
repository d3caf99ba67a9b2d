package engine

import (
	"context"
	"sync"
	"time"

	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/engine/workspace"
)

// walk reads the source into the session and reports progress meanwhile.
func (r *Repository) walk(ctx context.Context, src *source, session *ingest.Session) (workspace.Result, error) {
	progress := new(workspace.Progress)
	stop := r.report(src, progress, func() uint64 { return session.Stats().StoredBytes })
	defer stop()
	newWriter := func() workspace.Writer { return session.Writer() }
	tree, err := workspace.Walk(ctx, r.walkOptions(src, newWriter, progress))
	r.opts.Events.warn("write stat cache of", src.path, tree.CacheErr)
	return tree, err
}

// rehearseWalk reads the source into a rehearsal. The cache is read but what it
// says of unpublished content must be confirmed, and what it learns does no harm:
// records are confirmed before they are used.
func (r *Repository) rehearseWalk(ctx context.Context, src *source, into *rehearsal) (workspace.Result, error) {
	progress := new(workspace.Progress)
	stop := r.report(src, progress, func() uint64 { return 0 })
	defer stop()
	return workspace.Walk(ctx, r.walkOptions(src, into.writer, progress))
}

// reportEvery is how often progress is reported.
const reportEvery = 100 * time.Millisecond

// report tells the user of the repository how far a walk is, until stop is
// called.
func (r *Repository) report(src *source, p *workspace.Progress, stored func() uint64) (stop func()) {
	tell := r.opts.Events.Progress
	if tell == nil {
		return func() {}
	}
	var expected uint64
	if m := src.parent.record.Manifest; m != nil {
		expected = m.Counts.Bytes
	}
	start := time.Now()
	return every(reportEvery, func() {
		tell(Progress{
			Op: "snapshot", Phase: "read", Elapsed: time.Since(start), Files: p.Files.Load(), Bytes: p.Bytes.Load(),
			TotalBytes: expected, Stored: stored(),
		})
	})
}

// every calls f now and then until stop is called, which waits for the last
// call.
func every(interval time.Duration, f func()) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f()
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
