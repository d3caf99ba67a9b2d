package restore

import (
	"errors"
	"fmt"
	"sync"
)

// Errors that callers tell apart.
var (
	// ErrPartial says that everything is restored but for what the result
	// names.
	ErrPartial = errors.New("restored, but incomplete")
	// ErrConflict says that a directory that is not empty stands where the
	// snapshot has something else, and that Delete was not asked for.
	ErrConflict = errors.New("a directory that is not empty is in the way")
	// ErrMount says that another filesystem is mounted below the target.
	ErrMount = errors.New("another filesystem is mounted here")
	// ErrLimit says that the snapshot asks for more than Limits allow.
	ErrLimit = errors.New("snapshot exceeds a limit")
	// ErrNoSpace says that the target's filesystem has too little room.
	ErrNoSpace = errors.New("not enough free space")
	// ErrBusy says that another restore into the target is running.
	ErrBusy = errors.New("another restore into this directory is running")
	// ErrChanged says that somebody else changed the target meanwhile.
	ErrChanged = errors.New("the target was changed while it was restored")
)

// Error says what failed, where, and why. Op is a verb, Path is below the
// target, or the target itself.
type Error struct {
	Op   string
	Path string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s %q: %v", e.Op, e.Path, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// PartialError is returned, with the result, when the rest is restored. It
// matches ErrPartial and the causes of the failures that it lists.
type PartialError struct {
	Failed []Failure // the first MaxNamed
	Count  uint64    // of all failures
}

func (e *PartialError) Error() string {
	first := ""
	if len(e.Failed) > 0 {
		first = fmt.Sprintf(": %q: %v", e.Failed[0].Path, e.Failed[0].Err)
	}
	return fmt.Sprintf("%v: %d failed%s", ErrPartial, e.Count, first)
}

// Unwrap returns ErrPartial and the causes.
func (e *PartialError) Unwrap() []error {
	causes := []error{ErrPartial}
	for _, f := range e.Failed {
		causes = append(causes, f.Err)
	}
	return causes
}

// MaxNamed bounds the lists of a Result; what is beyond it is only counted.
const MaxNamed = 1000

// Failure is a path that could not be restored, or not entirely.
type Failure struct {
	Path string // below the root, raw bytes; empty for the root
	Err  error
}

// Skip is a path, or something of it, that was left out by policy.
type Skip struct {
	Path   string
	Reason string
}

// Result is what a restore did. Fields are only ever added.
type Result struct {
	// In the snapshot, within Options.Paths.
	Files, Dirs, Symlinks, Others uint64
	Bytes                         uint64 // of those files, holes included

	Created      uint64 // entries that were not there, or were replaced by another kind
	Updated      uint64 // files and links whose content was replaced
	Fixed        uint64 // entries of which only mode, owner, xattrs or mtime were set
	Unchanged    uint64 // entries that were right already
	Deleted      uint64 // entries removed because the snapshot lacks them
	WrittenBytes uint64 // of content, holes excluded

	Skipped      []Skip // the first MaxNamed
	SkippedCount uint64
	Failed       []Failure // the first MaxNamed
	FailedCount  uint64
}

// report collects a Result from several goroutines.
type report struct {
	mu     sync.Mutex // guards the fields below
	result Result
	named  map[string]bool // paths in result.Failed
}

// add applies fn to the result.
func (r *report) add(fn func(*Result)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(&r.result)
}

// fail records that path could not be restored, once.
func (r *report) fail(path string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.named[path] {
		return
	}
	r.result.FailedCount++
	if len(r.result.Failed) < MaxNamed {
		if r.named == nil {
			r.named = make(map[string]bool)
		}
		r.named[path] = true
		r.result.Failed = append(r.result.Failed, Failure{Path: path, Err: err})
	}
}

// skip records that something was left out by policy.
func (r *report) skip(path, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.SkippedCount++
	if len(r.result.Skipped) < MaxNamed {
		r.result.Skipped = append(r.result.Skipped, Skip{Path: path, Reason: reason})
	}
}

// finish returns the result, and a *PartialError if something failed.
func (r *report) finish() (Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result.FailedCount == 0 {
		return r.result, nil
	}
	return r.result, &PartialError{Failed: r.result.Failed, Count: r.result.FailedCount}
}
