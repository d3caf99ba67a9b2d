package cache

import (
	"context"
	"io"
	"slices"
	"sync"
)

const (
	// maxFlight is how many blocks one request asks for, at most: 64 MiB. A
	// longer read makes one request for each 64 MiB, which costs it some 30 ms
	// in 700, and nobody has to look for more blocks than that on the disk.
	maxFlight = 256

	// maxWait is how many blocks ahead of a flight a reader still waits for it:
	// 8 MiB, which take some 80 ms. Further ahead it asks for itself.
	maxWait = 32
)

// flight is one ranged Get of the inner store, for blocks of one object that
// are not on the disk. Nobody runs it. Whoever wants a block that it is about
// to bring takes the turn and pulls blocks out of the stream up to that one;
// those before it go to the disk, where slower readers find them. So the
// fastest reader sets the pace, a reader that stalls or leaves holds up nobody,
// and there is no goroutine to outlive them all.
//
// The request has a context of its own, which ends when its last reader leaves,
// and when that of a reader who is pulling does: it could not return in time
// otherwise. The others then ask again. A request that fails at its first block
// fails for everybody who waits for it. One that fails later may only have
// waited too long for a reader: whoever finds that out makes another.
type flight struct {
	key    string
	ctx    context.Context
	cancel context.CancelFunc
	turn   chan struct{} // holds a token while somebody pulls
	stream io.ReadCloser // belongs to who has the turn; nil before takeoff

	// Guarded by flights.mu. Only who has the turn changes next.
	next, end int64 // blocks still to come
	aboard    int   // readers that hold the flight
	over      bool
	failure   error // of the first block
}

// flights knows all requests that are under way.
type flights struct {
	mu    sync.Mutex // guards the map and some fields of every flight
	byKey map[string][]*flight
}

// board finds a flight that is about to bring block n. If there is none it
// opens one for blocks [n, end), less those that others are about to bring, and
// gives the reader its turn: fresh is true.
func (f *flights) board(ctx context.Context, key string, n, end int64) (found *flight, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end = min(end, n+maxFlight)
	for _, found := range f.byKey[key] {
		if found.brings(n) {
			found.aboard++
			return found, false
		}
		if found.next > n {
			end = min(end, found.next)
		}
	}
	return f.open(ctx, key, n, end), true
}

// boardOwn is board without regard to other readers, for when nothing is kept
// that one could leave for another. Own is the reader's flight, or nil.
func (f *flights) boardOwn(ctx context.Context, own *flight, key string, n, end int64) (found *flight, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if own != nil && own.brings(n) {
		own.aboard++
		return own, false
	}
	return f.open(ctx, key, n, min(end, n+maxFlight)), true
}

// open needs mu.
func (f *flights) open(ctx context.Context, key string, n, end int64) *flight {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	opened := &flight{key: key, ctx: ctx, cancel: cancel, turn: make(chan struct{}, 1), next: n, end: end, aboard: 1}
	opened.turn <- struct{}{}
	f.byKey[key] = append(f.byKey[key], opened)
	return opened
}

// brings needs flights.mu.
func (f *flight) brings(n int64) bool {
	return !f.over && f.next <= n && n < f.end && n < f.next+maxWait
}

// awaited says whether block n of a flight that a reader boarded for it is yet
// to come: nil, or errMissed, or why it cannot be had.
func (f *flights) awaited(from *flight, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case from.failure != nil:
		return from.failure
	case from.over || n < from.next || from.end <= n:
		return errMissed
	}
	return nil
}

// shorten makes end the first block that a flight does not bring.
func (f *flights) shorten(it *flight, end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	it.end = end
}

// brought notes that the next block of a flight is there.
func (f *flights) brought(by *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	by.next++
}

// leave gives a flight back. The last one to leave ends it.
func (f *flights) leave(left *flight) {
	f.mu.Lock()
	left.aboard--
	deserted := left.aboard == 0 && !left.over
	if deserted {
		f.close(left)
	}
	f.mu.Unlock()
	if deserted {
		left.release()
	}
}

// land ends a flight, for everybody aboard with a failure if that is not nil.
// Only who has the turn may call it; calling it again does nothing.
func (f *flights) land(ended *flight, failure error) {
	f.mu.Lock()
	landed := ended.over
	if !landed {
		ended.failure = failure
		f.close(ended)
	}
	f.mu.Unlock()
	if !landed {
		ended.release()
	}
}

// close lets nobody board a flight any more. It needs mu.
func (f *flights) close(ended *flight) {
	ended.over = true
	rest := slices.DeleteFunc(f.byKey[ended.key], func(other *flight) bool { return other == ended })
	if len(rest) == 0 {
		delete(f.byKey, ended.key)
		return
	}
	f.byKey[ended.key] = rest
}

// release is for the one who closed the flight.
func (f *flight) release() {
	f.cancel()
	if f.stream != nil {
		_ = f.stream.Close() // whatever was handed out has come whole
	}
}
