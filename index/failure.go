package index

import (
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// failure keeps the first error that Pebble cannot go on after. It is the
// Logger of the database: what Pebble reports as fatal, and would end the
// process for, ends the database only. Everything else it has to say is
// returned as errors too, and dropped here.
type failure struct {
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

func newFailure() *failure { return &failure{happened: make(chan struct{})} }

func (f *failure) Infof(string, ...any)  {}
func (f *failure) Errorf(string, ...any) {}

func (f *failure) Fatalf(format string, args ...any) {
	f.set(fmt.Errorf("%w: "+format, append([]any{ErrFailed}, args...)...), 0)
}

// background hears of errors in flushes and compactions. Pebble tries again at
// once and for ever, while commits wait; the pause, which only a database that
// has failed makes, keeps that from taking a whole core until it is closed.
func (f *failure) background(err error) {
	f.set(fmt.Errorf("%w: in the background: %w", ErrFailed, err), 0)
	time.Sleep(10 * time.Millisecond)
}

// corruption hears of files whose checksums are wrong.
func (f *failure) corruption(info pebble.DataCorruptionInfo) {
	f.set(fmt.Errorf("%w: %s is damaged: %w", ErrFailed, info.Path, info.Details), damaged)
}

func (f *failure) set(err error, s signs) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause == nil {
		f.cause = err
		close(f.happened)
	}
	f.signs |= s
}

func (f *failure) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

func (f *failure) has(s signs) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.signs&s != 0
}

// catch runs fn unless the database has failed.
func (f *failure) catch(fn func() error) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.guard(fn)
}

// guard runs fn and returns its error, or that of the database if it failed
// meanwhile. A panic of Pebble, its way to report some write errors, counts as
// failure.
func (f *failure) guard(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f.set(fmt.Errorf("%w: %v", ErrFailed, r), panicked)
		}
		if failed := f.err(); failed != nil {
			err = failed
		}
	}()
	return fn()
}

var _ pebble.Logger = (*failure)(nil)
