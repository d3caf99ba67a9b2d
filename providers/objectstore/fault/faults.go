package fault

import (
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Fault is what goes wrong in one call. The zero Fault is none. A fault that
// means nothing to a kind of call lets it pass unharmed.
type Fault struct {
	decorate func(objectstore.Store) objectstore.Store
	decision <-chan Fault
}

func (f Fault) isNone() bool { return f.decorate == nil && f.decision == nil }

// Fail makes the call fail with err, without doing anything.
func Fail(err error) Fault {
	return decorator(func(objectstore.Store) objectstore.Store { return failing{err} })
}

// LoseAck lets the call do its work and then fail with err, as when the answer
// is lost on its way. A listing yields all its objects first.
func LoseAck(err error) Fault {
	return decorator(func(next objectstore.Store) objectstore.Store { return losing{next, err} })
}

// Await holds the call back until decision delivers the fault to apply to it,
// or is closed, which means none, or the context ends.
func Await(decision <-chan Fault) Fault { return Fault{decision: decision} }

// CutShort lets a reader fail with err after n bytes, and a listing after n
// objects. Shorter ones end as usual.
func CutShort(n int64, err error) Fault {
	return decorator(func(next objectstore.Store) objectstore.Store { return cutting{next, n, err} })
}

// Stall lets a reader stop after n bytes, and a listing after n objects, until
// their context ends, which is then their error. Shorter ones end as usual.
func Stall(n int64) Fault {
	return decorator(func(next objectstore.Store) objectstore.Store { return stalling{next, n} })
}

// Stale lets past answer a Get, Stat or List: a cache that has not heard of
// the latest puts. A copy of a store in memory (mem.Store.Clone) will do.
func Stale(past objectstore.Store) Fault {
	return decorator(func(next objectstore.Store) objectstore.Store { return stale{next, past} })
}

// Drop acknowledges a Put or a Delete without doing it.
func Drop() Fault {
	return decorator(func(next objectstore.Store) objectstore.Store { return dropping{next} })
}

// Truncate stores only the first n bytes of a Put and acknowledges all.
func Truncate(n int64) Fault {
	return decorator(func(next objectstore.Store) objectstore.Store { return truncating{next, n} })
}

// FlipBit inverts one bit of what a Get returns: bit number n, counted from 0
// at the lowest bit of the first byte returned. Past the end it does nothing.
func FlipBit(n int64) Fault {
	return decorator(func(next objectstore.Store) objectstore.Store { return flipping{next, n} })
}

// Repeat does a Put or a Delete twice and gives the second answer, as when a
// client library retries by itself after a lost answer.
func Repeat() Fault {
	return decorator(func(next objectstore.Store) objectstore.Store { return repeating{next} })
}

func decorator(f func(objectstore.Store) objectstore.Store) Fault { return Fault{decorate: f} }
