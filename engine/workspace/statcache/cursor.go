package statcache

import (
	"bytes"

	"github.com/snapctl/snapctl/packfile/blob"
)

// Cursor goes through the recorded entries of a directory along with a walk, in
// ascending order of names. It is valid until the session seeks again.
type Cursor struct {
	session *Session
	prefix  []byte // of the keys of the directory
	d       decoder
	name    []byte   // of the entry that comes next; nil at the end of a run
	ended   bool     // there is no further run
	exact   bool     // every entry of the one run was found
	first   string   // name that it was put at; empty for the first entry
	passed  []string // first names of further runs that were opened
	gone    []string // directories that were not asked for
}

// Seek returns a cursor at the entry called first, or at the first entry if
// first is empty.
func (s *Session) Seek(path []byte, first string) *Cursor {
	c := &s.cursor
	*c = Cursor{session: s, prefix: appendKey(c.prefix[:0], path, ""), first: first, passed: c.passed[:0], gone: c.gone[:0]}
	if !s.readable() {
		c.ended = true
		return c
	}
	s.key = appendKey(s.key[:0], path, first)
	if _, ok := s.get(s.key); ok {
		c.exact = true
	} else if first != "" && !c.before() {
		s.iter.SeekGE(s.key)
	}
	c.open("")
	return c
}

// before goes to the run that begins before the session's key.
func (c *Cursor) before() bool {
	it := c.session.iter
	ok := it.SeekLT(c.session.key) && bytes.HasPrefix(it.Key(), c.prefix)
	if ok && c.atNode() {
		ok = it.Prev() && bytes.HasPrefix(it.Key(), c.prefix)
	}
	return ok
}

// atNode tells that the iterator stands at the key of the directory's node.
func (c *Cursor) atNode() bool {
	key := c.session.iter.Key()
	return len(key) == len(c.prefix)+1 && key[len(key)-1] == 0
}

// open starts the run at the iterator, if there is one of this directory that
// begins before limit; an empty limit is the end.
func (c *Cursor) open(limit string) {
	c.name, c.d, c.ended = nil, decoder{}, false
	it := c.session.iter
	for it.Valid() && bytes.HasPrefix(it.Key(), c.prefix) {
		if c.atNode() {
			it.Next()
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil || len(value) < blob.IDSize {
			break
		}
		first := string(it.Key()[len(c.prefix):])
		if limit != "" && first >= limit {
			break
		}
		if first > c.first {
			c.passed = append(c.passed, first)
		}
		c.d = decoder{rest: value[blob.IDSize:]}
		c.advance()
		return
	}
	c.ended = true
}

// advance reads the name of the next entry.
func (c *Cursor) advance() {
	c.name = nil
	if len(c.d.rest) > 0 {
		c.name = c.d.bytes(c.d.uvarint())
	}
	if c.d.bad {
		c.name, c.exact = nil, false
	}
}

// Find reads the entry called name into e, whose name it does not change, and
// reports whether there is one. Names are asked for in ascending order.
func (c *Cursor) Find(name string, e *Entry) bool {
	for {
		for c.name == nil {
			if !c.nextRun("") {
				return false
			}
		}
		if string(c.name) > name {
			return false
		}
		found := string(c.name) == name
		e.Name = name
		var skipped string
		if !found {
			c.exact = false
			skipped = string(c.name)
		}
		c.d.entry(e)
		if !found {
			c.missed(skipped, e)
		}
		bad := c.d.bad
		c.advance()
		if found {
			return !bad
		}
	}
}

func (c *Cursor) nextRun(limit string) bool {
	if c.ended {
		return false
	}
	if c.session.iter.Next() {
		c.open(limit)
	} else {
		c.ended = true
	}
	if c.ended {
		return false
	}
	c.exact = false
	return true
}

// Drain goes to the end of the directory, or, if limit is not empty, of the
// entries before limit.
func (c *Cursor) Drain(limit string) {
	var e Entry
	for {
		for c.name == nil {
			if !c.nextRun(limit) {
				return
			}
		}
		if limit != "" && string(c.name) >= limit {
			return
		}
		c.exact = false
		name := string(c.name)
		c.d.entry(&e)
		c.missed(name, &e)
		c.advance()
	}
}

// missed notes an entry that was not asked for. What comes before the cursor's
// first name belongs to an earlier batch of the walk.
func (c *Cursor) missed(name string, e *Entry) {
	if name >= c.first && !e.Node.IsZero() {
		c.gone = append(c.gone, name)
	}
}

// Exact reports whether the entries found since Seek are those of exactly one
// run that begins where the cursor did.
func (c *Cursor) Exact() bool { return c.exact && c.name == nil && len(c.passed) == 0 }

// Passed returns the first names of further runs that were opened and begin
// before limit; an empty limit is the end. Put makes them obsolete.
func (c *Cursor) Passed(limit string) []string {
	var names []string
	for _, name := range c.passed {
		if limit == "" || name < limit {
			names = append(names, name)
		}
	}
	return names
}

// Gone returns the recorded directories that were not asked for.
func (c *Cursor) Gone() []string { return c.gone }
