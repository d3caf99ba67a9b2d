package explore

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// objects numbers the keys and contents that a run of the explorer meets, so that
// states are small and compare fast. It belongs to one goroutine at a time.
type objects struct {
	keys      []string
	keyOf     map[string]key
	contents  [][]byte
	etags     []string // of the contents, and a function of them, as in S3
	contentOf map[[sha256.Size]byte]content
}

type (
	key     uint32
	content uint32 // 0 is none
)

func newObjects() *objects {
	return &objects{keyOf: map[string]key{}, contents: [][]byte{nil}, etags: []string{""}, contentOf: map[[sha256.Size]byte]content{}}
}

func (o *objects) key(name string) key {
	k, ok := o.keyOf[name]
	if !ok {
		k = key(len(o.keys))
		o.keys = append(o.keys, strings.Clone(name))
		o.keyOf[o.keys[k]] = k
	}
	return k
}

func (o *objects) content(bytes []byte) content {
	sum := sha256.Sum256(bytes)
	c, ok := o.contentOf[sum]
	if !ok {
		c = content(len(o.contents))
		o.contents, o.etags = append(o.contents, slices.Clone(bytes)), append(o.etags, hex.EncodeToString(sum[:16]))
		o.contentOf[sum] = c
	}
	return c
}

// cell is one object of a store.
type cell struct {
	key     key
	content content
}

// cells are the objects of a store in the order of their names. They are never
// changed: a write makes new ones.
type cells []cell

func (o *objects) find(c cells, name string) (int, bool) {
	return slices.BinarySearchFunc(c, name, func(c cell, name string) int { return cmp.Compare(o.keys[c.key], name) })
}

// get returns what lies under a name; 0 if nothing does.
func (o *objects) get(c cells, name string) content {
	if i, ok := o.find(c, name); ok {
		return c[i].content
	}
	return 0
}

func (o *objects) with(c cells, name string, put content) cells {
	i, ok := o.find(c, name)
	if ok {
		c = slices.Clone(c)
		c[i].content = put
		return c
	}
	return slices.Concat(c[:i], cells{{o.key(name), put}}, c[i:])
}

func (o *objects) without(c cells, name string) cells {
	i, ok := o.find(c, name)
	if !ok {
		return c
	}
	return slices.Concat(c[:i], c[i+1:])
}

// below returns the cells whose names start with prefix and come after a name.
func (o *objects) below(c cells, prefix, after string) cells {
	from, found := o.find(c, max(prefix, after))
	if found && after >= prefix {
		from++
	}
	to := from
	for to < len(c) && strings.HasPrefix(o.keys[c[to].key], prefix) {
		to++
	}
	return c[from:to]
}
