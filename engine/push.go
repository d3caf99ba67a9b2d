package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/transfer"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
)

// PushResult is what a push or a pull did, snapshot by snapshot, oldest first.
type PushResult struct {
	Snapshots   []PushedSnapshot
	Blobs       uint64 // copied
	Bytes       uint64 // of their plaintext
	StoredBytes uint64 // of objects written to the target
	Duration    time.Duration
}

// PushedSnapshot is what became of one snapshot.
type PushedSnapshot struct {
	ID          ID
	Present     bool // the target had it
	Blobs       uint64
	Bytes       uint64
	StoredBytes uint64
	Err         error // it could not be pushed, since something of it is lost
}

// Push copies snapshots of this repository into another one of the same family
// (see InitOptions.Like). Only what the target lacks travels. Each snapshot is
// published by the protocol as soon as its content is there, ancestors first,
// with the labels that it has now. One that the target has is left alone, unless it is
// damaged there as far as is known: then what it lost is copied.
//
// ErrPartial with a result if something of a snapshot cannot be read any more:
// the others are pushed. After any other error the result says what was pushed
// before, which stays, and what else arrived is found by the next push.
// ErrNotFamily if the ids of the two repositories do not agree.
func (r *Repository) Push(ctx context.Context, to *Repository, ids ...ID) (*PushResult, error) {
	p := push{from: r, to: to, near: r, op: "push", events: r.opts.Events}
	result, err := p.run(ctx, ids)
	return result, failed("push to", to.ID(), err)
}

// Pull is Push from another repository into this one.
func (r *Repository) Pull(ctx context.Context, from *Repository, ids ...ID) (*PushResult, error) {
	p := push{from: from, to: r, near: r, op: "pull", events: r.opts.Events}
	result, err := p.run(ctx, ids)
	return result, failed("pull from", from.ID(), err)
}

// PlanPush tells what Push would copy, for each snapshot as if it were alone.
func (r *Repository) PlanPush(ctx context.Context, to *Repository, ids ...ID) (*PushResult, error) {
	p := push{from: r, to: to, near: r}
	result, err := p.plan(ctx, ids)
	return result, failed("plan push to", to.ID(), err)
}

// push is one push or pull.
type push struct {
	from, to *Repository
	near     *Repository // of the two, the one whose tree nodes are read if both have them
	op       string      // "push" or "pull", for people
	events   Events      // of who asked
	result   PushResult
}

func (p *push) run(ctx context.Context, ids []ID) (*PushResult, error) {
	start := time.Now()
	origins, err := p.origins(ctx, ids)
	if err != nil {
		return nil, err
	}
	lost := 0
	for _, origin := range origins {
		pushed, err := p.one(ctx, origin)
		if err != nil && !isLost(err) {
			return &p.result, fmt.Errorf("snapshot %v: %w", origin.id, err)
		}
		if pushed.Err = err; err != nil {
			lost++
		}
		p.result.add(pushed)
	}
	p.result.Duration = time.Since(start)
	if lost > 0 {
		err = fmt.Errorf("%w: %d of %d snapshots cannot be read whole", ErrPartial, lost, len(origins))
	}
	return &p.result, err
}

// lostBlob tells an error about one snapshot's content from one of the stores.
func lostBlob(err error) bool {
	var blobErr *fetch.Error
	return errors.As(err, &blobErr) && fetch.Lost(err)
}

// errUnreadable says that the object of a snapshot is no good.
var errUnreadable = errors.New("the snapshot cannot be read")

// isLost tells what concerns one snapshot only.
func isLost(err error) bool { return lostBlob(err) || errors.Is(err, errUnreadable) }

func (r *PushResult) add(s PushedSnapshot) {
	r.Snapshots = append(r.Snapshots, s)
	r.Blobs += s.Blobs
	r.Bytes += s.Bytes
	r.StoredBytes += s.StoredBytes
}

// origin is a snapshot that is to be pushed.
type origin struct {
	id      ID
	record  commit.Record
	labels  map[string]string // in force
	present bool              // in the target
	err     error             // why the snapshot cannot be read, if so
}

// origins loads the snapshots, ancestors first.
func (p *push) origins(ctx context.Context, ids []ID) ([]origin, error) {
	if !p.from.sameFamily(p.to) {
		return nil, ErrNotFamily
	}
	ids = slices.Compact(slices.SortedFunc(slices.Values(ids), ID.Compare))
	present, err := p.to.present(ctx, ids)
	if err != nil {
		return nil, err
	}
	var origins []origin
	for _, id := range ids {
		o, err := p.load(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", id, err)
		}
		o.present = present[id]
		origins = append(origins, o)
	}
	slices.SortStableFunc(origins, func(a, b origin) int { return a.time().Compare(b.time()) })
	return origins, nil
}

// load reads a snapshot of the source. One that is damaged must not keep the
// others from leaving.
func (p *push) load(ctx context.Context, id ID) (origin, error) {
	record, err := p.from.find(ctx, id)
	if err == nil {
		var info Info
		if info, err = p.from.describe(ctx, id, record.Manifest); err == nil {
			return origin{id: id, record: record, labels: info.Labels}, nil
		}
	}
	if errors.Is(err, ErrDamaged) {
		return origin{id: id, err: fmt.Errorf("%w: %w", errUnreadable, err)}, nil
	}
	return origin{}, err
}

// time orders snapshots; those that cannot be read come first.
func (o origin) time() time.Time {
	if o.err != nil {
		return time.Time{}
	}
	return o.record.Manifest.Time.Time()
}

// sameFamily reports whether ids and cuts of the two repositories agree.
func (r *Repository) sameFamily(other *Repository) bool {
	return r.config.Family == other.config.Family && r.config.Chunking == other.config.Chunking && r.material.ID == other.material.ID
}

// one pushes one snapshot.
func (p *push) one(ctx context.Context, o origin) (PushedSnapshot, error) {
	switch {
	case o.err != nil:
		return PushedSnapshot{ID: o.id}, o.err
	case o.present:
		return PushedSnapshot{ID: o.id, Present: true}, p.labelPresent(ctx, o)
	}
	pushed, err := p.attempt(ctx, o, p.to.knownGround)
	for n := 1; n < attempts && (startsOver(err) || lostBlob(err)); n++ {
		// What seems lost may have moved, if the source was compacted meanwhile.
		if _, syncErr := p.from.index(ctx); syncErr != nil {
			return pushed, syncErr
		}
		p.events.warn(p.op, o.id.String(), err)
		pushed, err = p.attempt(ctx, o, p.to.freshGround)
	}
	return pushed, err
}

// attempt is the publish protocol (see package commit) around the copying.
func (p *push) attempt(ctx context.Context, o origin, survey func(context.Context) (ground, error)) (PushedSnapshot, error) {
	pushed := PushedSnapshot{ID: o.id}
	ground, err := survey(ctx) // W1
	if err != nil {
		return pushed, err
	}
	if err := p.to.dropLost(ctx, ground.db); err != nil {
		return pushed, err
	}
	copied, err := p.copy(ctx, ground.db, o.record, ground.view.Avoid()) // W2, W3
	if err != nil {
		return pushed, err
	}
	record := commit.Record{Manifest: o.record.Manifest, Packs: copied.packs}
	rescuer := &pushRescuer{push: p}
	published, err := commit.Publish(ctx, p.to.protocol(), commit.NewSession(), record, ground.view, rescuer) // W4 to W7
	if err != nil {
		return pushed, retryable(err)
	}
	copied.add(rescuer.stored)
	p.to.tidy(ctx, p.events, published, ground.db)
	pushed.Blobs, pushed.Bytes = copied.stats.NewBlobs, copied.stats.NewBytes
	pushed.StoredBytes = copied.stats.StoredBytes + copied.index + uint64(published.Size)
	return pushed, p.label(ctx, o)
}

// copy stores what the target lacks, outside the packs of avoid, and indexes it.
func (p *push) copy(ctx context.Context, db *index.DB, record commit.Record, avoid index.PackSet) (written, error) {
	from, err := p.from.fetcher(ctx)
	if err != nil {
		return written{}, err
	}
	session := p.to.session(ctx, db, avoid)
	defer func() { p.events.warn("close the session of", p.op, session.Close()) }()
	progress := new(transfer.Progress)
	stop := p.report(progress, func() uint64 { return session.Stats().StoredBytes })
	err = transfer.Copy(ctx, transfer.Config{
		From: from, Known: p.near.fetch, FromSealer: p.from.sealer, Namer: p.from.namer, To: session, ToSealer: p.to.sealer, Progress: progress,
	}, record.Manifest.Root, record.Manifest.Links)
	stop()
	if err != nil {
		return written{}, err
	}
	return p.to.finish(ctx, db, session)
}

// report tells how far the copying is, until stop is called.
func (p *push) report(progress *transfer.Progress, stored func() uint64) (stop func()) {
	tell := p.events.Progress
	if tell == nil {
		return func() {}
	}
	start := time.Now()
	return every(reportEvery, func() {
		tell(Progress{Op: p.op, Phase: "copy", Elapsed: time.Since(start), Bytes: progress.Bytes.Load(), TotalBytes: progress.Total.Load(), Stored: stored()})
	})
}

// labelPresent is label for a snapshot that was there, unless its labels were changed in
// the target, by an earlier push or by people there.
func (p *push) labelPresent(ctx context.Context, o origin) error {
	changed, err := commit.Relabelled(ctx, p.to.protocol(), o.id)
	if err != nil || changed {
		return err
	}
	return p.label(ctx, o)
}

// label gives a snapshot the labels that the origin has by now. Labels that are there
// already count for nothing: if the snapshot was forgotten once, a collector may be about
// to delete them.
func (p *push) label(ctx context.Context, o origin) error {
	initial := o.record.Manifest.LabelMap()
	if maps.Equal(initial, o.labels) {
		return nil
	}
	var remove []string
	for key := range initial {
		if _, kept := o.labels[key]; !kept {
			remove = append(remove, key)
		}
	}
	_, err := p.to.label(ctx, o.id, o.labels, remove)
	return err
}

// pushRescuer copies again what a collection in the target took (step W5).
type pushRescuer struct {
	push   *push
	stored written
}

// Rescue implements commit.Rescuer.
func (s *pushRescuer) Rescue(ctx context.Context, record commit.Record, avoid index.PackSet) ([]packfile.Name, error) {
	db, err := s.push.to.index(ctx)
	if err != nil {
		return nil, err
	}
	copied, err := s.push.copy(ctx, db, record, avoid)
	if err != nil {
		return nil, err
	}
	s.stored.add(copied)
	return copied.packs, nil
}

func (p *push) plan(ctx context.Context, ids []ID) (*PushResult, error) {
	origins, err := p.origins(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, o := range origins {
		planned, err := p.planOne(ctx, o)
		if err != nil && !isLost(err) {
			return nil, fmt.Errorf("snapshot %v: %w", o.id, err)
		}
		planned.Err = err
		p.result.add(planned)
	}
	return &p.result, nil
}

func (p *push) planOne(ctx context.Context, o origin) (planned PushedSnapshot, err error) {
	planned = PushedSnapshot{ID: o.id, Present: o.present}
	if o.present || o.err != nil {
		return planned, o.err
	}
	ground, err := p.to.knownGround(ctx)
	if err != nil {
		return planned, err
	}
	from, err := p.from.fetcher(ctx)
	if err != nil {
		return planned, err
	}
	reader := ground.db.NewReader(ground.view.Avoid())
	defer func() { err = cmp.Or(err, reader.Close()) }()
	has := func(id ID) (bool, error) {
		_, known, err := reader.Has(id)
		return known, err
	}
	plan, err := transfer.Survey(ctx, from, has, o.record.Manifest.Root, o.record.Manifest.Links)
	planned.Blobs, planned.Bytes = plan.Blobs, plan.Bytes
	return planned, err
}
