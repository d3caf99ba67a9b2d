package transport

import "sync/atomic"

// Counts are the requests made to the inner store so far, retries among them.
type Counts struct {
	Put, Get, Stat, Delete int64
	List                   int64 // listings begun; a store may need many requests for one
	Retries                int64 // how many of all these were not the first attempt
	BytesUp, BytesDown     int64 // bytes of bodies, also of attempts that failed
}

// Requests is the sum over all operations.
func (c Counts) Requests() int64 { return c.Put + c.Get + c.Stat + c.List + c.Delete }

type counters struct {
	put, get, stat, list, delete atomic.Int64
	retries                      atomic.Int64
	up, down                     atomic.Int64
}

// Counts returns the counts so far. While requests are being made they need not
// be of one moment.
func (s *Store) Counts() Counts {
	c := &s.counters
	return Counts{
		Put: c.put.Load(), Get: c.get.Load(), Stat: c.stat.Load(), List: c.list.Load(), Delete: c.delete.Load(),
		Retries: c.retries.Load(), BytesUp: c.up.Load(), BytesDown: c.down.Load(),
	}
}
