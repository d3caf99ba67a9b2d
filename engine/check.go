package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/engine/verified"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// CheckOptions say how deep a check looks. The zero value checks the structure:
// that every object is there and has its size, and that every tree of every
// snapshot can be read and names only blobs that are there.
type CheckOptions struct {
	// ReadData is the share of the bytes in packs to read and verify, 0 to 1. Packs
	// that were never verified come first, then those for which it is longest ago, so
	// that a check of a twentieth every day comes round in twenty days.
	ReadData float64
	// ReadBytes is the same as a number of bytes; the larger of the two counts.
	ReadBytes int64
	// Snapshots limits the check of trees to these; empty: all.
	Snapshots []ID
}

// CheckReport is what a check saw. Fields are only ever added.
type CheckReport struct {
	Snapshots, Packs, Segments uint64 // objects looked at
	Trees, Blobs               uint64 // tree blobs read; data blobs looked up
	ReadPacks, ReadBytes       uint64 // packs read whole, and their size
	Problems                   []Problem
	// Duplicates are the packs with blobs of which a pack of a smaller name holds a
	// copy as well; most bytes first. Not looked for in a check of some snapshots.
	Duplicates []Duplicate
	// Verified says how much of all packs was read whole how recently, by this and
	// by earlier checks.
	Verified Coverage
	Duration time.Duration
}

// Coverage says how much of a repository was verified how recently.
type Coverage = verified.Coverage

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
	// whole snapshot; at most maxAffected, more are in MoreAffected.
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
	Unindexed What = "unindexed" // a pack that no segment names, and that may be needed
	Orphaned  What = "orphaned"  // an object that nothing needs any more: a collection removes it
)

// AffectedPath is a path of a snapshot.
type AffectedPath struct {
	Snapshot ID
	Path     string
}

const maxAffected = 1000

// Duplicate is a pack with blobs that are stored elsewhere too.
type Duplicate struct {
	Object string
	Blobs  uint64
	Bytes  uint64 // of their plaintext
}

// Check verifies the repository. ErrDamaged with a report if it found anything
// that is not harmless. Packs that are gone or damaged are marked in the
// repository: the next snapshot of a workspace stores again what they held of it,
// and heals older snapshots with the same content. A mark is taken away by a check
// that finds the pack whole.
//
// Which packs were found whole is recorded in the repository, also by a check that
// is interrupted. Two checks at a time may lose some of each other's record, which
// costs reading again.
//
// Memory grows with the number of packs (about 250 bytes each), of snapshots (200
// bytes) and of distinct tree blobs (50 bytes).
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

// maxChecks bounds how often a check starts over because of collections.
const maxChecks = 3

// check starts over when it found damage while a collection went on: what it missed
// may have been moved, or belong to a snapshot that is gone. Packs that were read and
// found damaged are marked by then, and read again.
func (r *Repository) check(ctx context.Context, opts CheckOptions) (report *CheckReport, err error) {
	for range maxChecks {
		before, _ := commit.CountLists(ctx, r.protocol()) // a store that does not list fails the check itself
		if report, err = r.checkOnce(ctx, opts); err != nil || !report.Damaged() {
			return report, err
		}
		if after, _ := commit.CountLists(ctx, r.protocol()); after == before {
			return report, nil
		}
	}
	return report, nil
}

func (r *Repository) checkOnce(ctx context.Context, opts CheckOptions) (report *CheckReport, err error) {
	err = r.withChecker(opts, func(c *checker) error {
		c.keeper.interval = keepInterval
		err := c.run(ctx)
		c.keeper.keep(ctx) // also of a check that was interrupted
		report = c.finish()
		return err
	})
	return report, err
}

// withChecker lends a checker to do. Its index is read from the repository, not
// from local state: that may be right where the repository is wrong.
func (r *Repository) withChecker(opts CheckOptions, do func(*checker) error) (err error) {
	db, err := r.openPrivateIndex()
	if err != nil {
		return err
	}
	locator := &locator{db: db}
	defer func() { err = errors.Join(err, locator.close(), db.Close()) }()
	return do(newChecker(r, opts, db, locator))
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
