package gc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/gc/idset"
	"github.com/snapctl/snapctl/packfile/blob"
)

// mark is the set of blobs that snapshots, attempts and forgotten snapshots can
// reach. It only grows: what is reached from a snapshot that is forgotten while the
// collection runs counts as live to its end, which keeps too much and never too
// little, and makes the marking of step G3 cost what is new since G1.
//
// Memory: 20 bytes for each tree blob, and what an idset.Builder holds.
type mark struct {
	repo      *Repository
	published class
	others    class
	records   map[string]bool // keys of objects whose trees are marked
	holes     atomic.Bool     // something of others could not be had
	borrowed  bool            // published holds trees of kept records: see standIn
	damaged   map[string]bool // keys of snapshots at which the last look found damage
	marked    atomic.Uint64   // tree blobs
}

// class is the blobs reached from roots of one kind.
type class struct {
	trees map[short]struct{}
	sets  []*idset.Set // one for each extension
	// beside is another class, nil for none. What can be reached from its trees is in
	// it, with nothing missing, and is not looked at again.
	beside *class
}

// short is half of an id. Ids are keyed hashes: nobody without the key can make two
// of them agree in 128 bits, and among 2^32 blobs two agree with probability 2^-65.
type short [16]byte

func newMark(repo *Repository) *mark {
	m := &mark{
		repo: repo, records: map[string]bool{},
		published: class{trees: map[short]struct{}{}}, others: class{trees: map[short]struct{}{}},
	}
	m.others.beside = &m.published
	return m
}

func (m *mark) close() error {
	var errs []error
	for _, set := range append(m.published.sets, m.others.sets...) {
		errs = append(errs, set.Close())
	}
	m.published.sets, m.others.sets = nil, nil
	return errors.Join(errs...)
}

// visit reports whether a tree blob was not visited before.
func (c *class) visit(id blob.ID) bool {
	key := short(id[:len(short{})])
	for known := c; known != nil; known = known.beside {
		if _, ok := known.trees[key]; ok {
			return false
		}
	}
	c.trees[key] = struct{}{}
	return true
}

// has reports whether the blob is live.
func (m *mark) has(id blob.ID) (bool, error) {
	for _, sets := range [][]*idset.Set{m.published.sets, m.others.sets} {
		for _, set := range sets {
			if ok, err := set.Has(id); ok || err != nil {
				return ok, err
			}
		}
	}
	return false, nil
}

// extend marks what an observation shows and earlier ones did not. Nothing that a
// published snapshot reaches may be missing. What an attempt reaches may lie in
// packs that are dead for good: then the attempt has to store it again, or ends.
// And what a forgotten snapshot has lost cannot be had back.
//
// After an error the mark is incomplete and must not be used.
func (m *mark) extend(ctx context.Context, o *observation, undoable []commit.Ref) error {
	if m.holes.Swap(false) { // what was missing may have been stored again: look at it anew
		m.others.trees = map[short]struct{}{}
		maps.DeleteFunc(m.records, func(key string, _ bool) bool {
			return !strings.HasPrefix(key, publishedRecord) && !strings.HasPrefix(key, buriedRecord)
		})
	}
	published, err := m.loadPublished(ctx, o.published)
	if err != nil {
		return err
	}
	if err := m.loadBuried(ctx, o.buried, &published); err != nil {
		return err
	}
	kept, err := m.standIn(ctx, o.published, published)
	if err != nil {
		return err
	}
	for _, ref := range published.gone {
		delete(m.records, publishedRecord+ref.Key())
	}
	if err := m.walk(ctx, &m.published, append(published.trees, kept...), m.mustExist); err != nil {
		return err
	}
	var others []blob.ID
	for _, a := range o.pending {
		if m.fresh(a.Key()) {
			others = append(others, a.record.Manifest.Root, a.record.Manifest.Links)
		}
	}
	forgotten, err := m.loadForgotten(ctx, append(undoable, published.gone...), o.published)
	if err != nil {
		return err
	}
	if err := m.walk(ctx, &m.others, append(others, forgotten...), m.mayBeGone); err != nil {
		return err
	}
	if o.unread && m.holes.Load() {
		return errUnread
	}
	return nil
}

// errUnread: what cannot be had may be named by a segment that cannot be read, and
// refer to what is in others.
var errUnread = fmt.Errorf("index: %w: a segment cannot be read, so what attempts and forgotten snapshots need is not known: run `snapctl repair index`", commit.ErrDamaged)

// These start the keys of mark.records that stand for published snapshots, and for
// tombstones.
const (
	publishedRecord = "published "
	buriedRecord    = "buried "
)

// fresh reports whether the object has not been marked, and enters it.
func (m *mark) fresh(key string) bool {
	if m.records[key] {
		return false
	}
	m.records[key] = true
	return true
}

// standIn makes sure that each damaged record is not missed: the same snapshot was
// published by another attempt too, whose record is intact, or the record is kept for
// an undo. What cannot be read was, or was about to become, a tombstone then; or it was
// not, so the trees of the kept one are returned, to stay.
func (m *mark) standIn(ctx context.Context, all []commit.Ref, read loaded) (trees []blob.ID, err error) {
	m.damaged = map[string]bool{}
	if len(read.damaged) == 0 {
		return nil, nil
	}
	intact := map[blob.ID]bool{}
	for _, ref := range all {
		if read.damaged[ref] == nil && !slices.Contains(read.gone, ref) {
			intact[ref.ID] = true
		}
	}
	for ref, damage := range read.damaged {
		if !intact[ref.ID] {
			record, err := commit.LoadForgotten(ctx, m.repo.Repo, ref)
			if errors.Is(err, commit.ErrNotFound) || errors.Is(err, commit.ErrDamaged) {
				return nil, fmt.Errorf("%w: what the snapshot needs is not known, so nothing can be collected: see `snapctl repair snapshots`", damage)
			}
			if err != nil {
				return nil, err
			}
			trees = append(trees, record.Manifest.Root, record.Manifest.Links)
			m.borrowed = true
		}
		m.damaged[ref.Key()] = true
		m.repo.warn("snapshot", fmt.Errorf("%w: another record stands in for it until `snapctl repair snapshots` replaces it", damage))
		delete(m.records, publishedRecord+ref.Key()) // what stands in may be gone at the next look
		delete(m.records, buriedRecord+ref.Key())
	}
	return trees, nil
}

// loaded is what was read of published snapshots.
type loaded struct {
	trees   []blob.ID
	gone    []commit.Ref // forgotten since they were listed
	damaged map[commit.Ref]error
}

func (m *mark) loadPublished(ctx context.Context, refs []commit.Ref) (loaded, error) {
	read := loaded{damaged: map[commit.Ref]error{}}
	err := m.loadRecords(ctx, refs, publishedRecord, &read)
	return read, err
}

// loadBuried opens what listings show as tombstones by their length. A snapshot that was
// cut off, or over which another's tombstone was copied, is damage and does not pass for
// gone; one that was put back from a copy counts. What is a tombstone once is one for
// good, so each is opened once in a collection.
func (m *mark) loadBuried(ctx context.Context, refs []commit.Ref, read *loaded) error {
	found := loaded{damaged: read.damaged}
	err := m.loadRecords(ctx, refs, buriedRecord, &found)
	read.trees = append(read.trees, found.trees...) // those that are gone were not published when they were listed
	return err
}

// loadRecords adds what is at the keys of snapshots that were not looked at yet.
func (m *mark) loadRecords(ctx context.Context, refs []commit.Ref, kind string, read *loaded) error {
	key := func(ref commit.Ref) string { return kind + ref.Key() }
	return m.load(ctx, refs, key, func(ctx context.Context, ref commit.Ref) error {
		record, err := commit.Load(ctx, m.repo.Repo, ref)
		m.repo.mu.Lock()
		defer m.repo.mu.Unlock()
		switch {
		case errors.Is(err, commit.ErrNotFound):
			read.gone = append(read.gone, ref)
			return nil
		case errors.Is(err, commit.ErrDamaged):
			read.damaged[ref] = err
			return nil
		case err == nil:
			read.trees = append(read.trees, record.Manifest.Root, record.Manifest.Links)
		}
		return err
	})
}

// loadForgotten returns the trees of forgotten snapshots. ErrDamaged if the record of one
// cannot be read, unless it is published too or another record of it can be read: what an
// undo needs is not known then.
func (m *mark) loadForgotten(ctx context.Context, refs, published []commit.Ref) (trees []blob.ID, err error) {
	readable, damaged := map[blob.ID]bool{}, map[blob.ID]error{}
	for _, ref := range published {
		readable[ref.ID] = true
	}
	key := func(ref commit.Ref) string { return "forgotten " + ref.Key() }
	err = m.load(ctx, refs, key, func(ctx context.Context, ref commit.Ref) error {
		record, err := commit.LoadForgotten(ctx, m.repo.Repo, ref)
		m.repo.mu.Lock()
		defer m.repo.mu.Unlock()
		switch {
		case errors.Is(err, commit.ErrNotFound):
			return nil
		case errors.Is(err, commit.ErrDamaged):
			damaged[ref.ID] = err
			return nil
		case err == nil:
			readable[ref.ID] = true
			trees = append(trees, record.Manifest.Root, record.Manifest.Links)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for id, damage := range damaged {
		if !readable[id] {
			return nil, fmt.Errorf("%w: what an undo of snapshot %v needs is not known", damage, id)
		}
		m.repo.warn("forgotten snapshot", damage)
	}
	return trees, nil
}

// maxLoads of records run at a time.
const maxLoads = 16

func (m *mark) load(ctx context.Context, refs []commit.Ref, key func(commit.Ref) string, one func(context.Context, commit.Ref) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxLoads)
	for _, ref := range refs {
		if m.fresh(key(ref)) {
			group.Go(func() error { return one(ctx, ref) })
		}
	}
	return group.Wait()
}

// loss says what it means that a tree blob cannot be had.
type loss func(id blob.ID, err error) error

func (m *mark) mustExist(id blob.ID, err error) error {
	if fetch.Lost(err) {
		return fmt.Errorf("%w (%w)", lost(id), err)
	}
	return err
}

func (m *mark) mayBeGone(_ blob.ID, err error) error {
	if fetch.Lost(err) {
		m.holes.Store(true)
		return nil
	}
	return err
}

// walkBatch is how many tree blobs are asked for at a time: neighbours in one frame
// are then read once, and their references take a few MB.
const walkBatch = 4096

// walk visits everything that can be reached from roots, breadth first, and adds
// its ids to the class.
func (m *mark) walk(ctx context.Context, c *class, roots []blob.ID, missing loss) error {
	w := walker{mark: m, class: c, ids: idset.NewBuilder(m.repo.TempDir), missing: missing}
	if err := w.enter(roots); err != nil {
		return errors.Join(err, w.ids.Discard())
	}
	for len(w.next) > 0 {
		level := w.next
		w.next = nil
		for len(level) > 0 {
			n := min(walkBatch, len(level))
			if err := w.read(ctx, level[:n]); err != nil {
				return errors.Join(err, w.ids.Discard())
			}
			level = level[n:]
		}
	}
	set, err := w.ids.Build()
	if err == nil && set.Len() > 0 {
		c.sets = append(c.sets, set)
	}
	return err
}

// walker is one walk.
type walker struct {
	*mark
	class   *class
	missing loss

	mu   sync.Mutex // guards the following while nodes are read
	ids  *idset.Builder
	next []blob.ID // tree blobs to be read
}

// enter adds tree blobs that were not visited before.
func (w *walker) enter(trees []blob.ID) error {
	for _, id := range trees {
		if id.IsZero() || !w.class.visit(id) {
			continue
		}
		w.next = append(w.next, id)
		if err := w.ids.Add(id); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) read(ctx context.Context, ids []blob.ID) error {
	err := w.repo.Trees.Blobs(ctx, blob.Tree, ids, func(i int, node []byte, err error) error {
		var trees, data []blob.ID
		if err == nil {
			trees, data, err = manifest.References(node)
		}
		if err != nil {
			return w.missing(ids[i], err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.ids.Add(data...); err != nil {
			return err
		}
		return w.enter(trees)
	})
	w.repo.report("mark", w.marked.Add(uint64(len(ids))), 0)
	return err
}
