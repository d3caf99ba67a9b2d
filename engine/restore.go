package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snapctl/snapctl/engine/restore"
)

// RestoreOptions say where and how to restore. The zero value, but for Target,
// is a complete restore that leaves extra files alone. See package restore for
// the details of each field.
type RestoreOptions struct {
	// Target becomes the root of the snapshot. If it does not exist, it appears
	// when the restore is complete; otherwise only differences are written.
	Target string
	Paths  []string // below the root; empty: everything
	Delete bool     // remove what the snapshot lacks
	Rescan bool     // compare files by content, not by size and mtime

	Owner      OwnerPolicy
	Special    SpecialPolicy
	Privileged bool // restore setuid and setgid bits and capabilities
	Sync       bool // flush the filesystem in the end
	Workers    int  // 0: as many as processors, at most 8

	MaxEntries uint64 // refuse snapshots of more entries; 0: 2^28
	MaxBytes   uint64 // refuse snapshots of more bytes; 0: what is free
}

// OwnerPolicy says who owns what is restored.
type OwnerPolicy = restore.Owner

// SpecialPolicy says what happens to FIFOs, sockets and device nodes.
type SpecialPolicy = restore.Special

// The policies of a restore.
const (
	OwnerAuto   = restore.OwnerAuto
	OwnerStored = restore.OwnerStored
	OwnerCaller = restore.OwnerCaller

	SpecialSkipDevices = restore.SpecialSkipDevices
	SpecialAll         = restore.SpecialAll
	SpecialNone        = restore.SpecialNone
)

// RestoreResult is the receipt of a restore.
type RestoreResult struct {
	Snapshot ID
	Root     ID
	Taken    time.Time     // when the snapshot was taken
	Age      time.Duration // between then and now
	restore.Result
	Duration time.Duration
}

// RestoreChange is one step of a restore that was planned but not done.
type RestoreChange = restore.Change

// Restore writes a snapshot into a directory. ErrPartial with a result if some
// paths could not be restored; everything else is then in place. After any
// other error the target is incomplete, a new target is not there at all, and
// calling Restore again goes on where it ended.
func (r *Repository) Restore(ctx context.Context, id ID, opts RestoreOptions) (*RestoreResult, error) {
	result, err := r.restore(ctx, id, opts)
	return result, failed("restore", id.String(), err)
}

func (r *Repository) restore(ctx context.Context, id ID, opts RestoreOptions) (*RestoreResult, error) {
	start := time.Now()
	src, snapshot, result, err := r.restoreSource(ctx, id)
	if err != nil {
		return nil, err
	}
	result.Result, err = restore.Run(ctx, src, snapshot, r.restoreOptions(opts, start, snapshot))
	result.Duration = time.Since(start)
	if err := r.vanished(ctx, id, err); err != nil {
		return nil, err
	}
	switch {
	case errors.Is(err, restore.ErrPartial):
		return result, fmt.Errorf("%w: %w", ErrPartial, err)
	case errors.Is(err, restore.ErrBusy):
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	case err != nil:
		return nil, err
	}
	return result, nil
}

// vanished tells a loss from the end of the snapshot: it was forgotten, and a
// collection took from under its reader what only it needed. Nil if it is still there.
func (r *Repository) vanished(ctx context.Context, id ID, err error) error {
	if !errors.Is(err, restore.ErrPartial) && !errors.Is(err, ErrDamaged) {
		return nil
	}
	if _, findErr := r.find(ctx, id); errors.Is(findErr, ErrNotFound) {
		return fmt.Errorf("%w: it was forgotten, and collected while it was read: %w", ErrNotFound, err)
	}
	return nil
}

// PlanRestore calls visit for each step that Restore would take, without taking
// any.
func (r *Repository) PlanRestore(ctx context.Context, id ID, opts RestoreOptions, visit func(RestoreChange) error) error {
	return failed("plan restore of", id.String(), r.planRestore(ctx, id, opts, visit))
}

func (r *Repository) planRestore(ctx context.Context, id ID, opts RestoreOptions, visit func(RestoreChange) error) error {
	src, snapshot, _, err := r.restoreSource(ctx, id)
	if err != nil {
		return err
	}
	for change, err := range restore.Plan(ctx, src, snapshot, r.restoreOptions(opts, time.Now(), snapshot)) {
		if err != nil {
			return err
		}
		if err := visit(change); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) restoreSource(ctx context.Context, id ID) (restore.Source, restore.Snapshot, *RestoreResult, error) {
	record, err := r.find(ctx, id)
	if err != nil {
		return nil, restore.Snapshot{}, nil, err
	}
	src, err := r.fetcher(ctx)
	if err != nil {
		return nil, restore.Snapshot{}, nil, err
	}
	m := record.Manifest
	taken := m.Time.Time()
	return src, restore.Snapshot{Root: m.Root, Links: m.Links, Bytes: m.Counts.Bytes},
		&RestoreResult{Snapshot: id, Root: m.Root, Taken: taken, Age: r.opts.Now().Sub(taken)}, nil
}

func (r *Repository) restoreOptions(opts RestoreOptions, start time.Time, snapshot restore.Snapshot) restore.Options {
	return restore.Options{
		Target: opts.Target, Paths: opts.Paths, Delete: opts.Delete, Rescan: opts.Rescan,
		Owner: opts.Owner, Special: opts.Special, Privileged: opts.Privileged, Sync: opts.Sync, Workers: opts.Workers,
		Limits:   restore.Limits{MaxEntries: opts.MaxEntries, MaxBytes: opts.MaxBytes},
		Progress: r.restoreProgress(start, snapshot),
	}
}

func (r *Repository) restoreProgress(start time.Time, snapshot restore.Snapshot) func(restore.Progress) {
	report := r.opts.Events.Progress
	if report == nil {
		return nil
	}
	return func(p restore.Progress) {
		report(Progress{
			Op: "restore", Phase: "write", Elapsed: time.Since(start), Files: p.Files, Bytes: p.Bytes,
			TotalBytes: snapshot.Bytes, Current: p.Current,
		})
	}
}
