package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/config"
	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/keyring"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// checker is one Check.
type checker struct {
	r     *Repository
	opts  CheckOptions
	db    *index.DB
	fetch *fetch.Fetcher

	mu       sync.Mutex // guards report and problems while packs are read
	report   CheckReport
	problems []*Problem

	listed    map[packfile.Name]int64 // packs in the store, and their sizes
	snapshots []checkedSnapshot
	dead      index.PackSet // what collections have condemned
	marked    index.PackSet // what earlier checks found damaged
	whole     index.PackSet // packs that were read and are what they should be
	suspect   index.PackSet // packs of the wrong size
	// bad are the packs that cannot be relied on, and why: the problem gets
	// the affected paths. In a pack of damage only those frames are bad.
	bad    map[packfile.Name]*Problem
	damage map[packfile.Name]map[uint32]bool // offsets of damaged frames
	// needed are the problems of packs from which a live blob can still be
	// read, and from no good one.
	needed map[*Problem]bool
	// losses are the blobs without a good copy.
	losses map[blob.ID]*Problem
	reader *index.Reader
}

type checkedSnapshot struct {
	ref    commit.Ref
	id     ID
	record commit.Record
}

func newChecker(r *Repository, opts CheckOptions, db *index.DB, l *locator) *checker {
	return &checker{
		r: r, opts: opts, db: db,
		fetch:  fetch.New(fetch.Config{Store: r.store, Sealer: r.sealer, Namer: r.namer, Locator: l}),
		listed: map[packfile.Name]int64{}, bad: map[packfile.Name]*Problem{}, whole: index.PackSet{}, suspect: index.PackSet{},
		damage: map[packfile.Name]map[uint32]bool{}, needed: map[*Problem]bool{}, losses: map[blob.ID]*Problem{},
	}
}

func (c *checker) finish() *CheckReport {
	c.judgePacks()
	slices.SortStableFunc(c.problems, func(a, b *Problem) int {
		if a.Harmless != b.Harmless {
			return map[bool]int{false: -1, true: 1}[a.Harmless]
		}
		return 0
	})
	for _, p := range c.problems {
		c.report.Problems = append(c.report.Problems, *p)
	}
	return &c.report
}

// run goes from the outside in: snapshots, index, packs, trees; then it asks whom
// the losses affect. The snapshots come first: what they need was indexed before
// they were published, so a snapshot that appears meanwhile is not taken for one
// that lacks something.
func (c *checker) run(ctx context.Context) error {
	for _, step := range []struct {
		phase string
		do    func(context.Context) error
	}{
		{"keys", c.checkKeys}, {"snapshots", c.checkSnapshots}, {"protocol", c.checkProtocol}, {"index", c.checkIndex},
		{"packs", c.checkPacks}, {"data", c.readPacks}, {"trees", c.checkTrees}, {"affected", c.findAffected}, {"marks", c.markPacks},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.phase, err)
		}
	}
	return nil
}

// found records a problem.
func (c *checker) found(object string, what What, err error) *Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record(object, what, err)
}

// record is found for who holds mu.
func (c *checker) record(object string, what What, err error) *Problem {
	p := &Problem{Object: object, What: what, Err: err}
	c.problems = append(c.problems, p)
	return p
}

// foundIf records err if it says that the object is gone or damaged. Any other
// error is handed back.
func (c *checker) foundIf(object string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, commit.ErrForeign) {
		c.found(object, Foreign, err).Harmless = true
		return nil
	}
	what, ok := lost(err)
	if !ok {
		return err
	}
	c.found(object, what, err)
	return nil
}

func (c *checker) checkKeys(ctx context.Context) error {
	object, err := objectstore.ReadAll(ctx, c.r.store, config.Object, config.MaxSize)
	if err == nil {
		_, err = config.Open(object, c.r.sealer)
	}
	if errors.Is(err, config.ErrNotConfig) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := c.foundIf(config.Object, err); err != nil {
		return err
	}
	for key, err := range keyring.Verify(ctx, c.r.store) {
		if err := c.foundIf(key, err); err != nil {
			return err
		}
	}
	return nil
}

// checkIndex loads every segment anew. A damaged one loses nothing by itself:
// what it named is found in the footers of the packs.
func (c *checker) checkIndex(ctx context.Context) error {
	stats, err := c.db.Sync(ctx, c.r.store, c.r.sealer)
	if err != nil {
		return err
	}
	for _, err := range stats.Damaged {
		object := "index"
		if segment := (*index.Error)(nil); errors.As(err, &segment) {
			object = segment.Object
		}
		if err := c.foundIf(object, err); err != nil {
			return err
		}
	}
	segments, err := c.db.Segments(ctx)
	c.report.Segments = uint64(len(segments))
	return err
}

// checkPacks compares the packs of the index with those in the store.
func (c *checker) checkPacks(ctx context.Context) error {
	if err := c.readMarks(ctx); err != nil {
		return err
	}
	for info, err := range c.r.store.List(ctx, packPrefix, "") {
		if err != nil {
			return err
		}
		name, err := packfile.ParseName(info.Key[len(packPrefix):])
		if err != nil {
			c.found(info.Key, Damaged, fmt.Errorf("%w: not the key of a pack", err)).Harmless = true
			continue
		}
		c.listed[name] = info.Size
	}
	indexed := index.PackSet{}
	for pack, err := range c.db.Packs(ctx) {
		if err != nil {
			return err
		}
		indexed[pack.Name] = struct{}{}
		c.checkPack(pack)
	}
	c.report.Packs = uint64(len(indexed))
	for _, name := range slices.SortedFunc(maps.Keys(c.listed), packfile.Name.Compare) {
		if !indexed.Has(name) {
			if err := c.addUnindexed(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// addUnindexed adds a pack that no segment names to the private index of this
// check, so that what only it holds is known to be there, and whom it concerns.
func (c *checker) addUnindexed(ctx context.Context, name packfile.Name) error {
	p := c.found(packKey(name), Unindexed, errors.New("no index segment names it: an interrupted session left it, or `snapctl repair index` is needed"))
	c.bad[name] = p
	pack, err := packfile.ReadFooter(c.r.sealer, name, c.listed[name], func(offset, length int64) ([]byte, error) {
		return objectstore.ReadRange(ctx, c.r.store, packKey(name), offset, length)
	})
	switch what, ok := lost(err); {
	case err == nil:
		return c.db.AddPacks(ctx, pack)
	case !ok:
		return err
	default:
		p.What, p.Err = what, errors.Join(p.Err, err)
		return nil
	}
}

func (c *checker) checkPack(pack index.PackInfo) {
	size, ok := c.listed[pack.Name]
	switch {
	case !ok:
		c.bad[pack.Name] = c.found(packKey(pack.Name), Missing, objectstore.ErrNotExist)
	case size != pack.Size:
		c.suspect[pack.Name] = struct{}{}
		c.bad[pack.Name] = c.found(packKey(pack.Name), Damaged, fmt.Errorf("%w: %d bytes long, the index says %d", ErrDamaged, size, pack.Size))
	}
}

// readPacks reads and verifies the chosen share of the packs, and always those
// that are damaged as far as is known: only their bytes tell what they have lost.
// Memory: one pack and its content a worker.
func (c *checker) readPacks(ctx context.Context) error {
	names := slices.SortedFunc(maps.Keys(c.listed), packfile.Name.Compare)
	if share := max(c.opts.ReadData, 0); share < 1 {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		doubtful := moveToFront(names, func(name packfile.Name) bool { return c.marked.Has(name) || c.suspect.Has(name) })
		names = names[:max(int(float64(len(names))*share+0.999), doubtful)]
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(runtime.GOMAXPROCS(0), 4))
	for _, name := range names {
		group.Go(func() error { return c.readPack(ctx, name) })
	}
	return group.Wait()
}

func (c *checker) readPack(ctx context.Context, name packfile.Name) error {
	size := c.listed[name]
	if size > packfile.MaxSize {
		c.damaged(name, fmt.Errorf("%w: %d bytes long", ErrDamaged, size), nil)
		return nil
	}
	object, err := objectstore.ReadAll(ctx, c.r.store, packKey(name), size)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil // deleted by a collection since the listing
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.report.ReadPacks++
	c.report.ReadBytes += uint64(len(object))
	c.mu.Unlock()
	wrong := packfile.Verify(name, object)
	pack, err := packfile.ReadFooter(c.r.sealer, name, int64(len(object)), func(offset, length int64) ([]byte, error) {
		return slices.Clone(object[offset : offset+length]), nil
	})
	if err != nil {
		return c.readWithoutFooter(ctx, name, object, errors.Join(wrong, err))
	}
	frames, err := c.readFrames(pack, object)
	if err := errors.Join(wrong, err); err != nil {
		c.damaged(name, err, frames)
		return ctx.Err()
	}
	c.mu.Lock()
	c.whole[name] = struct{}{}
	c.mu.Unlock()
	return ctx.Err()
}

// readWithoutFooter finds the damaged frames of a pack whose footer cannot be used.
// The index knows where they are, and the seal of each vouches for its content.
func (c *checker) readWithoutFooter(ctx context.Context, name packfile.Name, object []byte, why error) error {
	pack, known, err := c.db.Pack(ctx, name)
	if err != nil {
		return err
	}
	if !known { // then nothing of it can be found
		c.damaged(name, why, nil)
		return nil
	}
	damaged := map[uint32]bool{}
	var content []byte
	for _, f := range pack.Frames {
		end := int64(f.Offset) + int64(f.Length)
		if end > int64(len(object)) {
			damaged[f.Offset] = true
			continue
		}
		frame := packfile.Frame{Kind: f.Kind, Offset: f.Offset, Length: f.Length, Blobs: []packfile.Blob{{Length: f.Content}}}
		if content, err = frame.Open(content[:0], c.r.sealer, object[f.Offset:end]); err != nil {
			damaged[f.Offset] = true
		}
	}
	c.damaged(name, why, damaged)
	return ctx.Err()
}

// readFrames returns the offsets of the damaged frames.
func (c *checker) readFrames(pack packfile.Pack, object []byte) (map[uint32]bool, error) {
	damaged := map[uint32]bool{}
	var first error
	var content []byte
	for _, frame := range pack.Frames {
		var err error
		content, err = frame.Open(content[:0], c.r.sealer, object[frame.Offset:frame.Offset+frame.Length])
		if err == nil {
			err = frame.Verify(c.r.namer, content)
		}
		if err != nil {
			damaged[frame.Offset] = true
			first = errors.Join(first, fmt.Errorf("frame at %d: %w", frame.Offset, err))
		}
	}
	return damaged, first
}

// damaged records a damaged pack. With frames, only those are bad: a flipped bit
// elsewhere in the pack loses no blob.
func (c *checker) damaged(name packfile.Name, err error, frames map[uint32]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.bad[name]
	if p == nil {
		p = c.record(packKey(name), Damaged, err)
		c.bad[name] = p
	} else {
		p.Err = errors.Join(p.Err, err)
	}
	unindexed := p.What == Unindexed // then all that it holds waits for a repair
	p.What = Damaged
	if frames != nil && !unindexed {
		c.damage[name] = frames
	}
}

// checkSnapshots reads every manifest.
func (c *checker) checkSnapshots(ctx context.Context) error {
	for ref, err := range commit.List(ctx, c.r.protocol(), "") {
		if err != nil {
			return c.foundIf("snapshots", err)
		}
		if len(c.opts.Snapshots) > 0 && !slices.Contains(c.opts.Snapshots, ref.ID) {
			continue
		}
		record, err := commit.Load(ctx, c.r.protocol(), ref)
		if errors.Is(err, commit.ErrNotFound) {
			continue // forgotten since the listing
		}
		if err != nil {
			if err := c.foundIf(ref.Key(), err); err != nil {
				return err
			}
			continue
		}
		c.report.Snapshots++
		c.snapshots = append(c.snapshots, checkedSnapshot{ref: ref, id: ref.ID, record: record})
	}
	return nil
}

// checkProtocol opens the other small objects.
func (c *checker) checkProtocol(ctx context.Context) error {
	for key, err := range commit.Verify(ctx, c.r.protocol()) {
		if err := c.foundIf(key, err); err != nil {
			return err
		}
	}
	return nil
}

// checkTrees reads every tree blob of every snapshot once, and looks every data
// blob up.
func (c *checker) checkTrees(ctx context.Context) error {
	c.reader = c.db.NewReader(nil)
	walk := reach{get: c.fetch.Node, seen: map[blob.ID]struct{}{}, visit: c.lookUp, broken: c.brokenTree}
	var err error
	for _, s := range c.snapshots {
		if err = walk.from(ctx, s.record.Manifest.Root, s.record.Manifest.Links); err != nil {
			break
		}
	}
	c.report.Trees = uint64(len(walk.seen))
	return errors.Join(err, c.reader.Close())
}

// lookUp records a loss if the blob has no good copy.
func (c *checker) lookUp(kind blob.Kind, id blob.ID) error {
	c.report.Blobs++
	if len(c.bad) == 0 {
		_, ok, err := c.reader.Has(id)
		if err != nil || ok {
			return err
		}
	}
	copies, err := c.reader.Copies(nil, id)
	if err != nil {
		return err
	}
	var culprit, fragile *Problem
	for _, at := range copies {
		problem := c.bad[at.Pack]
		frames, partly := c.damage[at.Pack]
		switch {
		case problem == nil:
			return nil
		case partly && !frames[at.FrameOffset]:
			fragile = problem
		default:
			culprit = problem
		}
	}
	if fragile != nil {
		c.needed[fragile] = true
		return nil
	}
	c.lose(id, culprit, kind, fetch.ErrNotIndexed)
	return nil
}

// brokenTree records the loss of a tree blob that could not be read, and what is
// below it with it.
func (c *checker) brokenTree(id blob.ID, err error) error {
	if _, ok := lost(err); !ok {
		return err
	}
	var culprit *Problem
	if at := (*fetch.Error)(nil); errors.As(err, &at) && at.Pack != (packfile.Name{}) {
		culprit = c.bad[at.Pack]
		if culprit == nil {
			what, _ := lost(err)
			culprit = c.found(packKey(at.Pack), what, err)
			c.bad[at.Pack] = culprit
			c.damage[at.Pack] = map[uint32]bool{}
		}
		if frames := c.damage[at.Pack]; frames != nil {
			frames[at.Offset] = true
		}
	}
	c.lose(id, culprit, blob.Tree, err)
	return nil
}

func (c *checker) lose(id blob.ID, culprit *Problem, kind blob.Kind, err error) {
	if c.losses[id] != nil {
		return
	}
	if culprit == nil {
		what, _ := lost(err)
		culprit = c.found(fmt.Sprintf("%v blob %v", kind, id), what, err)
	}
	c.losses[id] = culprit
}
