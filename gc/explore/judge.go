package explore

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/packfile/seal"
)

// judge decides whether a store keeps what it must:
//
//   - every blob that can be reached from a visible snapshot is in a pack that
//     exists, that a segment names, and that is in no final list, so that no deletion
//     of packs of final lists, however late and however often, takes it away;
//   - a snapshot that was acknowledged is visible, unless somebody forgot it.
//
// It decodes each content once: packs whole, with every blob hashed; so what it
// finds reachable can be restored.
type judge struct {
	objects  *objects
	keys     commit.Repo
	facts    map[content]*facts
	numbers  map[any]int         // of blobs (blob.ID) and packs (packfile.Name)
	children map[blob.ID]subtree // of every tree blob that was ever in a pack
}

type subtree struct{ trees, data []blob.ID }

// facts are what the content of one object says.
type facts struct {
	err   error
	name  packfile.Name // of a pack
	pack  int           // its number
	blobs set           // in the pack
	packs set           // that a segment or a list of packs names
	roots []blob.ID     // of a record
	needs set           // blobs that a record reaches; nil: not known yet
	tomb  byte          // 1: of a forgotten snapshot, 2: of an expired attempt
}

func newJudge(o *objects, keys commit.Repo) *judge {
	return &judge{objects: o, keys: keys, facts: map[content]*facts{}, numbers: map[any]int{}, children: map[blob.ID]subtree{}}
}

// set is a set of small numbers.
type set []uint64

func (s set) with(n int) set {
	for len(s) <= n/64 {
		s = append(s, 0)
	}
	s[n/64] |= 1 << (n % 64)
	return s
}

func (s set) has(n int) bool { return n/64 < len(s) && s[n/64]&(1<<(n%64)) != 0 }

func (s set) and(other set) set {
	for i, word := range other {
		if i == len(s) {
			s = append(s, 0)
		}
		s[i] |= word
	}
	return s
}

// first returns a member of s that other lacks; -1 if there is none.
func (s set) first(other set) int {
	for i, word := range s {
		if i < len(other) {
			word &^= other[i]
		}
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

func (j *judge) number(thing any) int {
	n, ok := j.numbers[thing]
	if !ok {
		n = len(j.numbers)
		j.numbers[thing] = n
	}
	return n
}

// of decodes the object under a key.
func (j *judge) of(name string, c content) *facts {
	if f, ok := j.facts[c]; ok {
		return f
	}
	f := &facts{}
	data := append([]byte{}, j.objects.contents[c]...)
	folder, rest, _ := strings.Cut(name, "/")
	switch {
	case folder == "packs":
		f.err = j.readPack(f, rest, data)
	case folder == "index":
		f.err = j.readSegment(f, data)
	case folder == "snapshots" || folder == "forgotten":
		f.err = j.readRecord(f, name, data)
	case folder == "gc" && strings.HasSuffix(rest, "/condemned"):
		f.err = j.readNames(f, name, seal.Condemned, data)
	case folder == "gc" && strings.HasSuffix(rest, "/final"):
		f.err = j.readNames(f, name, seal.Final, data)
	}
	j.facts[c] = f
	return f
}

func (j *judge) readPack(f *facts, name string, object []byte) error {
	f.name = packfile.NameOf(object)
	if f.name.String() != name {
		return fmt.Errorf("the content of pack %s has another name", name)
	}
	f.pack = j.number(f.name)
	pack, err := packfile.ReadFooter(j.keys.Sealer, f.name, int64(len(object)), func(offset, length int64) ([]byte, error) {
		return append([]byte{}, object[offset:offset+length]...), nil
	})
	if err != nil {
		return err
	}
	for _, frame := range pack.Frames {
		text, err := frame.Open(nil, j.keys.Sealer, append([]byte{}, object[frame.Offset:frame.Offset+frame.Length]...))
		if err == nil {
			err = frame.Verify(j.keys.Namer, text)
		}
		if err != nil {
			return err
		}
		for _, b := range frame.Blobs {
			f.blobs = f.blobs.with(j.number(b.ID))
			if frame.Kind == blob.Tree {
				var children subtree
				if children.trees, children.data, err = manifest.References(text[:b.Length]); err != nil {
					return err
				}
				j.children[b.ID] = children
			}
			text = text[b.Length:]
		}
	}
	return nil
}

func (j *judge) readSegment(f *facts, object []byte) error {
	text, err := j.keys.Sealer.Open(nil, seal.Segment, object, seal.MaxContent)
	if err != nil {
		return err
	}
	packs, err := index.DecodeSegment(text)
	for _, pack := range packs {
		f.packs = f.packs.with(j.number(pack.Name))
	}
	return err
}

func (j *judge) readNames(f *facts, key string, unit seal.Unit, object []byte) error {
	text, err := j.keys.Sealer.At(key).Open(nil, unit, object, seal.MaxContent)
	if err != nil {
		return err
	}
	names, err := commit.DecodeNames(text)
	for _, name := range names {
		f.packs = f.packs.with(j.number(name))
	}
	return err
}

func (j *judge) readRecord(f *facts, key string, object []byte) error {
	text, err := j.keys.Sealer.At(key).Open(nil, seal.Tombstone, append([]byte{}, object...), seal.MaxContent)
	if err == nil {
		f.tomb = text[0]
		return nil
	}
	text, err = j.keys.Sealer.Open(nil, seal.Snapshot, object, seal.MaxContent)
	if err != nil {
		return err
	}
	record, err := commit.DecodeRecord(text)
	if err != nil {
		return err
	}
	for _, root := range []blob.ID{record.Manifest.Root, record.Manifest.Links} {
		if !root.IsZero() {
			f.roots = append(f.roots, root)
		}
	}
	return nil
}

// reach completes what a record needs.
func (j *judge) reach(f *facts) error {
	if f.needs != nil {
		return nil
	}
	var needs set
	stack := append([]blob.ID{}, f.roots...)
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n := j.number(id)
		if needs.has(n) {
			continue
		}
		needs = needs.with(n)
		children, ok := j.children[id]
		if !ok {
			return fmt.Errorf("tree blob %v was never stored", id)
		}
		for _, data := range children.data {
			needs = needs.with(j.number(data))
		}
		stack = append(stack, children.trees...)
	}
	f.needs = needs
	return nil
}

// keeps checks the first sentence.
func (j *judge) keeps(store cells) error {
	var there []*facts
	var named, dead, safe set
	var visible []cell
	for _, c := range store {
		name := j.objects.keys[c.key]
		switch folder, rest, _ := strings.Cut(name, "/"); folder {
		case "packs":
			there = append(there, j.of(name, c.content))
		case "index":
			named = named.and(j.of(name, c.content).packs)
		case "gc":
			if strings.HasSuffix(rest, "/final") {
				dead = dead.and(j.of(name, c.content).packs)
			}
		case "snapshots":
			visible = append(visible, c)
		default:
			continue
		}
		if err := j.of(name, c.content).err; err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, f := range there {
		if named.has(f.pack) && !dead.has(f.pack) {
			safe = safe.and(f.blobs)
		}
	}
	for _, c := range visible {
		f := j.of(j.objects.keys[c.key], c.content)
		if f.tomb != 0 {
			continue
		}
		err := j.reach(f)
		if n := f.needs.first(safe); err == nil && n >= 0 {
			err = fmt.Errorf("blob %v is in no pack that exists, is named by a segment, and is in no final list", j.blob(n))
		}
		if err != nil {
			return fmt.Errorf("visible snapshot %s has lost content: %w", short(j.objects.keys[c.key]), err)
		}
	}
	return nil
}

func (j *judge) blob(n int) any {
	for thing, number := range j.numbers {
		if number == n {
			return short(fmt.Sprint(thing))
		}
	}
	return n
}

// ErrUnexpected says that an actor failed as nobody may.
var ErrUnexpected = errors.New("an actor failed for no reason that it may have")

// verdict is what is wrong with a state.
func (s *stage) verdict(at *state) error {
	if err := s.judge.keeps(at.store); err != nil {
		return err
	}
	for i, number := range at.actors {
		h := s.histories.all[number]
		if !h.ended() {
			continue
		}
		if h.err != nil && !s.mayFail(at, h) {
			return fmt.Errorf("%w: %s: %w", ErrUnexpected, s.Actors[i].Name, h.err)
		}
		for _, id := range h.outcome.Acknowledged {
			if !s.visible(at, id) {
				return fmt.Errorf("snapshot %s was acknowledged to %s, was not forgotten, and is not visible", short(id), s.Actors[i].Name)
			}
		}
	}
	return nil
}

// visible reports whether a snapshot is there, or was, until somebody forgot it.
func (s *stage) visible(at *state, id string) bool {
	prefix := "snapshots/" + id + "/"
	for _, c := range s.objects.below(at.store, prefix, "") {
		if s.judge.of(s.objects.keys[c.key], c.content).tomb == 0 {
			return true
		}
	}
	for _, number := range at.actors {
		for _, k := range s.histories.all[number].hidden {
			if strings.HasPrefix(s.objects.keys[k], prefix) {
				return true
			}
		}
	}
	return false
}

// mayFail reports whether an error is one that an actor may end with: of its own
// accord, or since something went wrong with a request, anybody's.
func (s *stage) mayFail(at *state, h *history) bool {
	return s.May == nil || s.May(h.err) || at.faults < s.Faults
}
