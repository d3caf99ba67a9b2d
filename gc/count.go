package gc

import (
	"context"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// account is what is known of the use of one pack.
type account struct {
	name    packfile.Name
	size    int64 // bytes, as listed
	modTime time.Time
	frames  int64 // bytes of its frames
	indexed bool  // by a segment: what it holds is known
	copies  bool  // what it holds counts as copies: see observation.isCopy
	live    int64 // bytes of the frames that live blobs take, about
	owned   int64 // of those, bytes of blobs that have no better copy
	sole    bool  // it holds a live blob that has no copy
}

// census is the use of all packs that are there, and that no collection has
// declared dead.
type census struct {
	accounts map[packfile.Name]*account
	// several is the number of live blobs with more than one copy, contested the
	// first maxSeveral of them.
	several   int
	contested []liveBlob
	held      int64   // bytes of frames that no published snapshot needs
	lost      blob.ID // one that a published snapshot needs and that is known to be nowhere
}

// maxSeveral bounds the memory for blobs with several copies to some 15 MB. With
// more of them the index is read a second time.
const maxSeveral = 32 << 10

// takeCensus asks the index where the live blobs are: first how much of each pack is
// alive, then which of several copies of a blob is the best.
// Memory: about 200 bytes a pack.
func takeCensus(ctx context.Context, r *Repository, o *observation, m *mark) (*census, error) {
	c := &census{accounts: map[packfile.Name]*account{}}
	dead := o.generations.Dead()
	for name, listed := range o.packs {
		if !dead.Has(name) {
			c.accounts[name] = &account{name: name, size: listed.size, modTime: listed.modTime}
		}
	}
	for pack, err := range r.Index.Packs(ctx) {
		if err != nil {
			return nil, err
		}
		if a := c.accounts[pack.Name]; a != nil {
			a.indexed = !o.unsegmented.Has(pack.Name)
			a.copies = o.isCopy(pack.Name, pack.Size)
			for _, frame := range pack.Frames {
				a.frames += int64(frame.Length)
			}
		}
	}
	for b, err := range m.locate(ctx) {
		if err != nil {
			return nil, err
		}
		c.addLive(o, b)
	}
	return c, c.chooseAmong(ctx, m)
}

// chooseAmong decides about the blobs that have more than one copy, once it is
// known how much of each pack is alive.
func (c *census) chooseAmong(ctx context.Context, m *mark) error {
	if c.several <= maxSeveral {
		for _, b := range c.contested {
			c.own(b, c.best(b.copies))
		}
		return nil
	}
	for b, err := range m.locate(ctx) {
		if err != nil {
			return err
		}
		if c.counted(b.copies) > 1 {
			c.own(b, c.best(b.copies))
		}
	}
	return nil
}

// own says that a blob's best copy is the given one.
func (c *census) own(b liveBlob, at *index.Copy) {
	c.accounts[at.Pack].owned += share(*at)
	if !b.published {
		c.held += share(*at)
	}
}

// counted is the number of copies that count.
func (c *census) counted(copies []index.Copy) (n int) {
	for _, at := range copies {
		if a := c.accounts[at.Pack]; a != nil && a.copies {
			n++
		}
	}
	return n
}

// share is how many bytes of its frame a blob takes, about. It is rounded up, so that
// a pack of which everything is needed has no unused byte.
func share(at index.Copy) int64 {
	content := int64(max(at.FrameContent, 1))
	return (int64(at.FrameLength)*int64(at.Length) + content - 1) / content
}

func (c *census) addLive(o *observation, b liveBlob) {
	for _, at := range b.copies {
		if a := c.accounts[at.Pack]; a != nil {
			a.live += share(at)
		}
	}
	switch c.counted(b.copies) {
	case 0:
	case 1:
		c.own(b, c.best(b.copies))
		return
	default:
		if c.several++; c.several <= maxSeveral {
			b.copies = slices.Clone(b.copies)
			c.contested = append(c.contested, b)
		}
		return
	}
	known := false
	for _, at := range b.copies {
		if a := c.accounts[at.Pack]; a != nil {
			a.sole = true
		}
		known = known || o.holds(at.Pack)
	}
	if !known && b.published {
		c.lost = b.id
	}
}

// best returns the copy that stays if only one does: in the pack of which the
// largest part is alive, so that packs that are little used become dead. All
// collectors choose alike, and a blob that was copied is found in its new pack.
func (c *census) best(copies []index.Copy) *index.Copy {
	var best *index.Copy
	for i := range copies {
		if a := c.accounts[copies[i].Pack]; a == nil || !a.copies {
			continue
		}
		if best == nil || c.better(copies[i].Pack, best.Pack) {
			best = &copies[i]
		}
	}
	return best
}

func (c *census) better(name, than packfile.Name) bool {
	a, b := c.accounts[name], c.accounts[than]
	switch alive, other := a.live*b.frames, b.live*a.frames; {
	case alive != other:
		return alive > other
	case a.size != b.size:
		return a.size > b.size
	}
	return name.Compare(than) < 0
}

// liveBlob is a live blob and every copy that the index knows.
type liveBlob struct {
	id        blob.ID
	published bool // reached from a published snapshot
	copies    []index.Copy
}

// locate yields every live blob with its copies, in the order of ids: a merge join
// of the mark with the index, both of which are sorted. The copies are valid until
// the next blob.
func (m *mark) locate(ctx context.Context) iter.Seq2[liveBlob, error] {
	return func(yield func(liveBlob, error) bool) {
		live := m.ascend()
		for at, err := range m.repo.Index.Blobs(ctx) {
			if err != nil {
				yield(liveBlob{}, err)
				return
			}
			for live.err == nil && live.blob.id.Compare(at.ID) < 0 {
				if !yield(live.blob, nil) {
					return
				}
				live.step()
			}
			if live.err != nil {
				break
			}
			if live.blob.id == at.ID {
				live.blob.copies = append(live.blob.copies, at)
			}
		}
		for ; live.err == nil; live.step() {
			if !yield(live.blob, nil) {
				return
			}
		}
		if live.err != io.EOF {
			yield(liveBlob{}, live.err)
		}
	}
}

// live is the place in a walk over the live blobs, in order, each once.
type live struct {
	heads []*head
	blob  liveBlob // that it is at; who looks for its copies adds them
	err   error    // io.EOF behind the last
}

// ascend is at the first live blob.
func (m *mark) ascend() *live {
	l := &live{}
	for _, set := range m.published.sets {
		l.heads = append(l.heads, &head{next: set.Ascend(), published: true})
	}
	for _, set := range m.others.sets {
		l.heads = append(l.heads, &head{next: set.Ascend()})
	}
	l.heads = slices.DeleteFunc(l.heads, func(h *head) bool { return !l.advance(h) })
	l.choose()
	return l
}

// step moves behind the blob.
func (l *live) step() {
	l.heads = slices.DeleteFunc(l.heads, func(h *head) bool { return h.id == l.blob.id && !l.advance(h) })
	l.choose()
}

// choose takes the least of all heads.
func (l *live) choose() {
	switch {
	case l.err != nil:
		return
	case len(l.heads) == 0:
		l.err = io.EOF
		return
	}
	l.blob = liveBlob{id: l.heads[0].id, published: l.heads[0].published, copies: l.blob.copies[:0]}
	for _, h := range l.heads[1:] {
		switch order := h.id.Compare(l.blob.id); {
		case order < 0:
			l.blob.id, l.blob.published = h.id, h.published
		case order == 0:
			l.blob.published = l.blob.published || h.published
		}
	}
}

// advance moves to the next id of a set, and reports whether there is one.
func (l *live) advance(h *head) bool {
	id, err := h.next()
	if err != nil && err != io.EOF && l.err == nil {
		l.err = err
	}
	h.id = id
	return err == nil
}

// head is the place in one set.
type head struct {
	next      func() (blob.ID, error) // io.EOF behind the last
	published bool
	id        blob.ID
}
