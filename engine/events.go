package engine

import (
	"sync"
	"time"
)

// Progress is how far a long operation is. Totals are zero while they are not
// known.
type Progress struct {
	Op      string        // "snapshot", "restore", "check", ...
	Phase   string        // what is being done: "read", "publish", "index", ...
	Elapsed time.Duration // since the operation, or a phase with a rate of its own, started
	Files   uint64        // seen or written so far
	Bytes   uint64        // read or written so far
	// TotalFiles and TotalBytes are what is expected in the end.
	TotalFiles uint64
	TotalBytes uint64
	Stored     uint64 // bytes sent to the store so far
	Current    string // the path that is being worked on
}

// Warning is something that the operation survived and its user should know.
type Warning struct {
	Op     string
	Object string
	Err    error
}

// Events receives what happens during operations. Either func may be nil.
// Calls come from several goroutines, but of one repository never two at a time, and
// must not block.
type Events struct {
	// Progress is called about ten times a second.
	Progress func(Progress)
	Warning  func(Warning)
}

// inTurn returns events whose calls wait for each other.
func (e Events) inTurn() Events {
	turn := new(sync.Mutex)
	return Events{Progress: inTurn(turn, e.Progress), Warning: inTurn(turn, e.Warning)}
}

func inTurn[T any](turn *sync.Mutex, tell func(T)) func(T) {
	if tell == nil {
		return nil
	}
	return func(what T) {
		turn.Lock()
		defer turn.Unlock()
		tell(what)
	}
}

func (e Events) warn(op, object string, err error) {
	if e.Warning != nil && err != nil {
		e.Warning(Warning{Op: op, Object: object, Err: err})
	}
}
