package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// CheckOptions say how deep a check looks. The zero value checks the structure:
// that every object is there and has its size, and that every tree of every
// snapshot can be read and names only blobs that are there.
type CheckOptions struct {
	// ReadData is the share of the packs to read and verify to the last byte,
	// 0 to 1. Which packs a share below 1 holds is drawn anew each time.
	ReadData float64
	// Snapshots limits the check of trees to these; empty: all.
	Snapshots []ID
}

// CheckReport is what a check saw.
type CheckReport struct {
	Snapshots, Packs, Segments uint64 // objects looked at
	Trees, Blobs               uint64 // tree blobs read; data blobs looked up
	ReadPacks, ReadBytes       uint64 // packs read whole, and their size
	Problems                   []Problem
	Duration                   time.Duration
}

// Damaged reports whether a problem is more than waste.
func (c *CheckReport) Damaged() bool {
	for _, p := range c.Problems {
		if !p.Harmless {
			return true
		}
	}
	return false
}

// Problem is something wrong with one object.
type Problem struct {
	Object   string // key of the object, or "blob <id>" if no object is known
	What     What
	Err      error
	Harmless bool // it costs space or time, and loses nothing
	// Affected are the paths that cannot be restored because of it, "" for a
	// whole snapshot; at most
	// maxAffected, more are in MoreAffected.
	Affected     []AffectedPath
	MoreAffected uint64
}

// What classifies problems.
type What string

// The classes of problems.
const (
	Missing   What = "missing"
	Damaged   What = "damaged"
	Foreign   What = "foreign"   // an object with a name that no repository has
	Unindexed What = "unindexed" // a pack that no segment names: left by an interrupted session
)

// AffectedPath is a path of a snapshot.
type AffectedPath struct {
	Snapshot ID
	Path     string
}

const maxAffected = 1000

// Check verifies the repository. ErrDamaged with a report if it found anything
// that is not harmless. Packs that are gone or damaged are marked in the
// repository: the next snapshot of a workspace stores again what they held of it,
// and heals older snapshots with the same content. A mark is taken away by a check
// that finds the pack whole. Memory grows with the number of packs (about 200 bytes
// each) and of distinct tree blobs (about 50 bytes each).
func (r *Repository) Check(ctx context.Context, opts CheckOptions) (*CheckReport, error) {
	start := time.Now()
	report, err := r.check(ctx, opts)
	if err != nil {
		return nil, failed("check", "", err)
	}
	report.Duration = time.Since(start)
	if report.Damaged() {
		err = fmt.Errorf("repository is %w: %d problems", ErrDamaged, len(report.Problems))
	}
	return report, failed("check", "", err)
}

func (r *Repository) check(ctx context.Context, opts CheckOptions) (report *CheckReport, err error) {
	// The index is read from the repository, not from local state: that may be
	// right where the repository is wrong.
	db, err := r.openPrivateIndex()
	if err != nil {
		return nil, err
	}
	locator := &locator{db: db}
	defer func() { err = errors.Join(err, locator.close(), db.Close()) }()
	c := newChecker(r, opts, db, locator)
	err = c.run(ctx)
	return c.finish(), err
}

// lost reports whether err says that an object is gone or damaged, and which.
// Any other error is a failure to look, which ends the check.
func lost(err error) (What, bool) {
	switch {
	case errors.Is(err, objectstore.ErrNotExist), errors.Is(err, fetch.ErrNotIndexed):
		return Missing, true
	case errors.Is(err, ErrDamaged), errors.Is(err, packfile.ErrNotPack):
		return Damaged, true
	}
	return "", false
}

// brokenBlobs returns the blob that err says could not be read, if it does.
func brokenBlobs(err error) []ID {
	if at := (*fetch.Error)(nil); errors.As(err, &at) {
		return []ID{at.ID}
	}
	return nil
}

const packPrefix = ingest.PackPrefix

func packKey(name packfile.Name) string { return ingest.PackKey(name) }
