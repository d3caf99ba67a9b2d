// Package gc frees what no snapshot needs any more, while writers go on: no lock,
// and no trust in clocks.
//
// The steps of a collector; docs/collection.md has the argument for them:
//
//	G1  observe the repository, mark what is live, choose packs that hold none of
//	    it; or little of it, which is copied to new packs, in a segment, first
//	G2  put gc/<n>/condemned with their names: generation n is open
//	G3  observe and mark again; a live blob that has no other copy spares the
//	    condemned packs that hold it
//	G4  put-if-absent gc/<n>/final with the rest: generation n is settled
//	G5  delete the packs of final lists, and drop them from the index
//
// Every run begins with G3 and G4 for whatever generations it finds open: the
// argument does not ask who settles a generation, so that one whose collector died
// needs nobody to unlock it. A [Survey] is G1 and changes nothing; a [Plan] is data;
// [Plan.Execute] does the rest.
package gc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Errors that callers tell apart.
var (
	// ErrLost says that a snapshot needs a blob that no known pack holds. Nothing
	// is collected then, since what is known may be wrong or incomplete.
	ErrLost = errors.New("a snapshot needs a blob that no known pack holds")
	// ErrChanging says that packs or attempts came and went during every attempt
	// to observe the repository. It is retryable.
	ErrChanging = errors.New("the repository changed again and again while it was observed")
)

// Repository is what a collection works on.
type Repository struct {
	commit.Repo
	Index *index.DB // is brought up to date
	Trees Trees
	// Session starts to store blobs in new packs. Copies in the packs of avoid are
	// not reused.
	Session func(ctx context.Context, avoid index.PackSet) *ingest.Session
	TempDir string // for sets of ids that exceed memory
	// MarkFile keeps what was marked for the next collection; empty: nothing is
	// kept.
	MarkFile string
	// Settled is what Result.Settled of the last collection said, or the zero View.
	Settled commit.View
	Warn    func(object string, err error) // what a collection survives; may be nil
	Report  func(Progress)                 // may be nil; calls do not overlap

	mu sync.Mutex // guards what goroutines of a collection gather
}

// Trees reads tree blobs. A fetch.Fetcher does.
type Trees interface {
	// Blobs reads blobs and verifies them, and calls deliver once for each element
	// of ids, from several goroutines.
	Blobs(ctx context.Context, kind blob.Kind, ids []blob.ID, deliver func(i int, plaintext []byte, err error) error) error
}

// Progress is how far a collection is.
type Progress struct {
	Phase string // "mark", "copy", "delete"
	Done  uint64 // blobs marked; bytes copied; packs deleted
	Total uint64 // of the same; 0 while it is not known
}

// Options adjust a collection. The zero value is good for most repositories.
type Options struct {
	// MaxUnused is the share of the bytes in packs, 0 to 1, that may stay unused
	// so that less has to be copied. Whole dead packs are always deleted. A
	// negative value means 0; the zero value is 5 percent.
	MaxUnused float64
	// MaxCopy bounds the bytes of the packs that are copied; 0 is no bound.
	MaxCopy int64
	// UndoWindow is how long a forgotten snapshot can be had back. Negative means
	// not at all; the zero value is a day.
	UndoWindow time.Duration
	// Grace is how old a pack that no segment names, a pending object or the
	// tombstone of a forgotten snapshot has to be, before it is taken for left
	// behind: longer than any snapshot takes, since one whose packs are deleted starts
	// over. Safety does not rest on it but for tombstones: no request takes
	// effect so long after it was made. Negative means not at all; the zero value
	// is a day.
	Grace time.Duration
	// Deadline ends the copying; what was copied counts. The zero Time is none.
	Deadline time.Time
	// Now is the time; nil is time.Now.
	Now func() time.Time
	// PackSize is the size that packs of the repository should have in bytes; 0 is
	// 16 MiB. Those of less than a quarter are merged when there are many.
	PackSize int64
}

func (o Options) withDefaults() Options {
	o.MaxUnused = max(orDefault(o.MaxUnused, 0.05), 0)
	o.UndoWindow = max(orDefault(o.UndoWindow, day), 0)
	o.Grace = max(orDefault(o.Grace, day), 0)
	o.PackSize = orDefault(o.PackSize, 16<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

const day = 24 * time.Hour

func orDefault[T comparable](value, byDefault T) T {
	var zero T
	if value == zero {
		return byDefault
	}
	return value
}

func (r *Repository) warn(object string, err error) {
	if err != nil && r.Warn != nil {
		r.Warn(object, err)
	}
}

func (r *Repository) report(phase string, done, total uint64) {
	if r.Report != nil {
		r.Report(Progress{Phase: phase, Done: done, Total: total})
	}
}

// lost says which blob is missing and what to do.
func lost(id blob.ID) error {
	return fmt.Errorf("blob %v: %w: `snapctl check` names what is damaged, `snapctl repair index` finds packs that the index lacks, and `snapctl repair snapshots` gives up what is gone", id, ErrLost)
}
