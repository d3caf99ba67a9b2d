package manifest

import (
	"github.com/snapctl/snapctl/packfile/blob"
)

// PutNode stores an encoded node and returns its id. It must not keep node.
type PutNode func(node []byte) (blob.ID, error)

// splitter cuts a list of items into nodes where the content says so, and the
// list of those nodes again, until one node is left. Cuts depend only on the
// items near them, as in content-defined chunking: an item added, changed or
// removed among n rewrites its node, seldom a neighbour, and the index nodes
// above, O(log n) in all.
//
// A node is closed behind an item if it holds at least min items and the hash
// of the item is divisible by a power of two, or if it holds max items or
// maxCut bytes. The hash is FNV-1a (Fowler, Noll, Vo) of the item's cut key,
// mixed by the finalizer of MurmurHash3 (Appleby), since FNV alone is weak in
// its low bits. Index nodes hash the child's id. Part of the format; do not
// change: another cut gives equal trees other ids.
type splitter struct {
	put    PutNode
	kind   nodeType
	bounds cutBounds
	levels []*level
}

type cutBounds struct {
	min, max int
	mask     uint64
}

var (
	dirBounds     = cutBounds{min: 256, max: 8192, mask: 1<<10 - 1}
	contentBounds = cutBounds{min: 64, max: 2048, mask: 1<<8 - 1}
	linkBounds    = cutBounds{min: 256, max: 8192, mask: 1<<10 - 1}
	indexBounds   = cutBounds{min: 64, max: 2048, mask: 1<<8 - 1}
)

// maxCut closes a node of items with long names or many xattrs. One more item
// (an entry with 3.1 MiB of xattrs, a link group of MaxLinkGroup) stays below
// maxDirNode and MaxNode.
const maxCut = 1 << 20

// level is the open node of one level.
type level struct {
	body   []byte
	count  int
	weight uint64
	last   []byte
}

func newSplitter(kind nodeType, bounds cutBounds, put PutNode) *splitter {
	return &splitter{put: put, kind: kind, bounds: bounds, levels: []*level{{}}}
}

// add appends an item to the open node of level 0. encode appends its bytes.
func (s *splitter) add(encode func([]byte) []byte, weight uint64, last, cutKey []byte) error {
	return s.addAt(0, encode, weight, last, cutKey)
}

func (s *splitter) addAt(n int, encode func([]byte) []byte, weight uint64, last, cutKey []byte) error {
	l := s.levels[n]
	l.body = encode(l.body)
	l.count++
	l.weight += weight
	l.last = append(l.last[:0], last...)
	bounds := s.bounds
	if n > 0 {
		bounds = indexBounds
	}
	if bounds.cut(l.count, len(l.body), cutKey) {
		return s.close(n)
	}
	return nil
}

func (c cutBounds) cut(count, size int, key []byte) bool {
	if count >= c.max || size >= maxCut {
		return true
	}
	return count >= c.min && cutHash(key)&c.mask == 0
}

func cutHash(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// close stores the open node of level n and adds it to the level above.
func (s *splitter) close(n int) error {
	c, err := s.store(n)
	if err != nil {
		return err
	}
	if n+1 == len(s.levels) {
		s.levels = append(s.levels, &level{})
	}
	return s.addAt(n+1, func(b []byte) []byte { return appendChild(b, c) }, c.weight, c.last, c.id[:])
}

func (s *splitter) store(n int) (child, error) {
	l := s.levels[n]
	node := appendHeader(make([]byte, 0, len(l.body)+16), s.kind, n, l.count)
	id, err := s.put(append(node, l.body...))
	c := child{last: append([]byte(nil), l.last...), weight: l.weight, id: id}
	l.body, l.count, l.weight = l.body[:0], 0, 0
	return c, err
}

// finish closes all open nodes from the bottom and returns the id of the top
// one. A list without items is one empty node.
func (s *splitter) finish() (blob.ID, error) {
	for n := 0; ; n++ {
		l := s.levels[n]
		top := n+1 == len(s.levels)
		if top && n > 0 && l.count == 1 { // an index of one child is that child
			return onlyChild(l.body)
		}
		if top {
			c, err := s.store(n)
			return c.id, err
		}
		if l.count > 0 {
			if err := s.close(n); err != nil {
				return blob.ID{}, err
			}
		}
	}
}

// onlyChild reads the id of the one child encoded in body: its last bytes.
func onlyChild(body []byte) (blob.ID, error) {
	var id blob.ID
	copy(id[:], body[len(body)-blob.IDSize:])
	return id, nil
}
