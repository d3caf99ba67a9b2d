// Package localdb lets a local Pebble database fail like a crash.
//
// Pebble ends the process when it cannot write its log or manifest, and tries a
// failed flush again for ever while writers wait: no way for a cache on a disk
// that is full. An [FS] stops at the first write that fails, and a [Failure]
// remembers it; the database is closed then, and what is on the disk is what a
// crash at that moment would have left.
package localdb

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// ErrFailed says that a database met an error that it cannot go on after. It
// has to be closed; opened again, it repairs itself.
var ErrFailed = errors.New("local database failed")

// Failure keeps the first error that Pebble cannot go on after. It is the
// Logger of the database: what Pebble reports as fatal, and would end the
// process for, ends the database only. Everything else it has to say is
// returned as errors too, and dropped here.
type Failure struct {
	happened chan struct{} // closed by the first error

	mu    sync.Mutex // guards the fields below
	cause error
	signs signs
}

// signs say more about a failure.
type signs uint8

const (
	panicked signs = 1 << iota // Pebble did
	damaged                    // a file has other content than was written
)

// NewFailure returns the Failure of a database that has not failed.
func NewFailure() *Failure { return &Failure{happened: make(chan struct{})} }

// Infof drops what Pebble has to say.
func (f *Failure) Infof(string, ...any) {}

// Errorf drops what Pebble has to say: errors are returned too.
func (f *Failure) Errorf(string, ...any) {}

// Fatalf fails the database.
func (f *Failure) Fatalf(format string, args ...any) {
	f.set(fmt.Errorf("%w: "+format, append([]any{ErrFailed}, args...)...), 0)
}

// Listener is to be the EventListener of the database.
func (f *Failure) Listener() *pebble.EventListener {
	return &pebble.EventListener{BackgroundError: f.background, DataCorruption: f.corruption}
}

// background hears of errors in flushes and compactions. Pebble tries again at
// once and for ever, while commits wait; the pause, which only a database that
// has failed makes, keeps that from taking a whole core until it is closed.
func (f *Failure) background(err error) {
	f.set(fmt.Errorf("%w: in the background: %w", ErrFailed, err), 0)
	time.Sleep(10 * time.Millisecond)
}

// corruption hears of files whose checksums are wrong.
func (f *Failure) corruption(info pebble.DataCorruptionInfo) {
	f.set(fmt.Errorf("%w: %s is damaged: %w", ErrFailed, info.Path, info.Details), damaged)
}

func (f *Failure) set(err error, s signs) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause == nil {
		f.cause = err
		close(f.happened)
	}
	f.signs |= s
}

// Err returns the first error, or nil. It wraps ErrFailed.
func (f *Failure) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

// Happened is closed when the database fails.
func (f *Failure) Happened() <-chan struct{} { return f.happened }

// Panicked reports whether Pebble panicked: its locks may be held for ever, so
// it must not be called again, not even to close it.
func (f *Failure) Panicked() bool { return f.has(panicked) }

// Damaged reports whether a file had other content than was written.
func (f *Failure) Damaged() bool { return f.has(damaged) }

func (f *Failure) has(s signs) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.signs&s != 0
}

// Catch runs fn unless the database has failed.
func (f *Failure) Catch(fn func() error) error {
	if err := f.Err(); err != nil {
		return err
	}
	return f.Guard(fn)
}

// Guard runs fn and returns its error, or that of the database if it failed
// meanwhile. A panic of Pebble, its way to report some write errors, counts as
// failure.
func (f *Failure) Guard(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f.set(fmt.Errorf("%w: %v", ErrFailed, r), panicked)
		}
		if failed := f.Err(); failed != nil {
			err = failed
		}
	}()
	return fn()
}

var _ pebble.Logger = (*Failure)(nil)
