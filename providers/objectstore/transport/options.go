package transport

import (
	"strings"
	"time"
)

// Options say how a store is used. In the zero value every field has the
// default named at it; a number that is not positive means the same.
type Options struct {
	// MaxAttempts is how often one request is made at most, the first time
	// included. Default 10.
	MaxAttempts int
	// MaxElapsed is how long after its first failure a request may be made
	// again. Bytes of a body that arrive in between, and keys of a listing,
	// start the time anew. Default 5 minutes.
	MaxElapsed time.Duration
	// MaxWait caps each of the two parts of a wait before an attempt: the
	// random one, which grows from attempt to attempt, and the one that the
	// store asked for. Default 30 seconds.
	MaxWait time.Duration
	// StallTimeout is how long an attempt may go without a sign of life (no
	// byte of a body either way, no answer) before it is given up as
	// objectstore.ErrUnavailable. It must be longer than the store needs to
	// make a large object durable. Default 2 minutes.
	StallTimeout time.Duration

	// MaxConcurrent is the greatest number of requests at a time in each of
	// the two lanes, bulk and control. Default 32.
	MaxConcurrent int
	// UploadLimit and DownloadLimit are in bytes per second, for all requests
	// of the store together. Default none.
	UploadLimit, DownloadLimit int64

	// Bulk are the prefixes of keys whose puts and gets are bulk transfers,
	// whatever their size. Default none.
	Bulk []string
	// BulkSize is the size in bytes from which the put of a body, or the get
	// of a range of that length, is a bulk transfer under any key. Default
	// 1 MiB.
	BulkSize int64
	// Waiting is told of each request that failed and is to be made again. Calls
	// come from several goroutines, perhaps at a time, and must not block. Default:
	// nobody is told.
	Waiting func(Retry)
	// Immutable are the prefixes of keys whose objects never change. Only
	// their gets go on where they broke. Default none.
	Immutable []string
}

// Retry is a request that failed and is to be made again.
type Retry struct {
	Op, Key string        // as in objectstore.Error
	Attempt int           // that failed, from 1
	Wait    time.Duration // before the next one
	Err     error         // of the attempt
}

func (o Options) withDefaults() Options {
	positive(&o.MaxAttempts, 10)
	positive(&o.MaxElapsed, 5*time.Minute)
	positive(&o.MaxWait, 30*time.Second)
	positive(&o.StallTimeout, 2*time.Minute)
	positive(&o.MaxConcurrent, 32)
	positive(&o.BulkSize, 1<<20)
	return o
}

func positive[T int | int64 | time.Duration](option *T, byDefault T) {
	if *option <= 0 {
		*option = byDefault
	}
}

func hasPrefix(key string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
