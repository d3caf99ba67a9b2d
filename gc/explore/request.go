package explore

import (
	"encoding/binary"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// op is a method of a store.
type op uint8

const (
	opPut op = iota + 1
	opGet
	opStat
	opList
	opDelete
)

var opNames = [...]string{opPut: "put", opGet: "get", opStat: "stat", opList: "list", opDelete: "delete"}

func (o op) String() string { return opNames[o] }

// request is a call of a store as a value: equal calls are equal.
type request struct {
	op      op
	key     key // or the prefix of a listing
	content content
	options objectstore.PutOptions
	part    objectstore.Range
	after   string
	page    int // keys that a listing shows at a time; 0: all
}

// writes reports whether the request may change the store.
func (r request) writes() bool { return r.op == opPut || r.op == opDelete }

// failure is the error of a reply.
type failure uint8

const (
	success failure = iota
	notExist
	exist
	precondition
	outOfRange
	unavailable // the explorer's own: the answer is lost
	stopped     // the explorer's own: the actor is no longer needed
)

var failures = [...]error{
	notExist: objectstore.ErrNotExist, exist: objectstore.ErrExist, precondition: objectstore.ErrPrecondition,
	outOfRange: objectstore.ErrRange, unavailable: objectstore.ErrUnavailable, stopped: errStopped,
}

// reply is the answer to a request as a value.
type reply struct {
	failure failure
	content content // of the object that was put, read or described
	listing string  // cells, see encodeCells
	more    bool    // the listing goes on
}

// encodeCells makes cells comparable.
func encodeCells(c cells) string {
	b := make([]byte, 0, 8*len(c))
	for _, c := range c {
		b = binary.LittleEndian.AppendUint32(b, uint32(c.key))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.content))
	}
	return string(b)
}

func decodeCells(s string) cells {
	c := make(cells, 0, len(s)/8)
	for b := []byte(s); len(b) > 0; b = b[8:] {
		c = append(c, cell{key(binary.LittleEndian.Uint32(b)), content(binary.LittleEndian.Uint32(b[4:]))})
	}
	return c
}

// apply is the store: what a request does to its objects, and what it answers. It
// agrees with package mem; see TestConformance
// and Walk.
func (o *objects) apply(c cells, r request) (cells, reply) {
	name := o.keys[r.key]
	if r.op == opList {
		found := o.below(c, name, r.after)
		more := r.page > 0 && len(found) > r.page
		if more {
			found = found[:r.page]
		}
		return c, reply{listing: encodeCells(found), more: more}
	}
	old := o.get(c, name)
	switch r.op {
	case opPut:
		switch {
		case r.options.IfAbsent && old != 0:
			return c, reply{failure: exist}
		case r.options.IfMatch != "" && (old == 0 || r.options.IfMatch != o.etags[old]):
			return c, reply{failure: precondition}
		}
		return o.with(c, name, r.content), reply{content: r.content}
	case opDelete:
		return o.without(c, name), reply{}
	}
	if old == 0 {
		return c, reply{failure: notExist}
	}
	if r.op == opGet {
		if _, err := r.part.Within(int64(len(o.contents[old]))); err != nil {
			return c, reply{failure: outOfRange}
		}
	}
	return c, reply{content: old}
}

// epoch is the time of a run when it begins; nothing takes time in it. Objects
// are an hour old.
var epoch = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

func (o *objects) info(c cell) objectstore.Info {
	return objectstore.Info{Key: o.keys[c.key], Size: int64(len(o.contents[c.content])), ETag: o.etags[c.content], ModTime: epoch.Add(-time.Hour)}
}
