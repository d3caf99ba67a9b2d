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
	// bad are the packs that cannot be relied on, and why: the problem gets
	// the affected paths. In a pack of damage only those frames are bad.
	bad    map[packfile.Name]*Problem
	damage map[packfile.Name]map[uint32]bool // offsets of damaged frames
	// losses are the blobs without a good copy.
	losses map[blob.ID]*Problem
	reader *index.Reader
}

type checkedSnapshot struct {
	id     ID
	record commit.Record
}

func newChecker(r *Repository, opts CheckOptions, db *index.DB, l *locator) *checker {
	return &checker{
		r: r, opts: opts, db: db,
		fetch:  fetch.New(fetch.Config{Store: r.store, Sealer: r.sealer, Namer: r.namer, Locator: l}),
		listed: map[packfile.Name]int64{}, bad: map[packfile.Name]*Problem{},
		damage: map[packfile.Name]map[uint32]bool{}, losses: map[blob.ID]*Problem{},
	}
}

func (c *checker) finish() *CheckReport {
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

// run goes from the outside in: objects, packs, snapshots, trees; then it asks
// whom the losses affect.
func (c *checker) run(ctx context.Context) error {
	for _, step := range []struct {
		phase string
		do    func(context.Context) error
	}{
		{"keys", c.checkKeys}, {"index", c.checkIndex}, {"packs", c.checkPacks}, {"data", c.readPacks},
		{"protocol", c.checkProtocol}, {"snapshots", c.checkSnapshots}, {"trees", c.checkTrees}, {"affected", c.findAffected},
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
	if err := c.foundIf(config.Object, err); err != nil {
		return err
	}
	_, err = keyring.List(ctx, c.r.store, c.r.config.Repository)
	return c.foundAll("keys", err)
}

// foundAll records each of several joined errors.
func (c *checker) foundAll(object string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return c.foundIf(object, err)
	}
	for _, err := range joined.Unwrap() {
		if err := c.foundIf(object, err); err != nil {
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
			c.found(packKey(name), Unindexed, errors.New("no index segment names it: an interrupted session left it, or `snapctl repair index` is needed")).Harmless = true
		}
	}
	return nil
}

func (c *checker) checkPack(pack index.PackInfo) {
	size, ok := c.listed[pack.Name]
	switch {
	case !ok:
		c.bad[pack.Name] = c.found(packKey(pack.Name), Missing, objectstore.ErrNotExist)
	case size != pack.Size:
		c.bad[pack.Name] = c.found(packKey(pack.Name), Damaged, fmt.Errorf("%w: %d bytes long, the index says %d", ErrDamaged, size, pack.Size))
	}
}

// readPacks reads and verifies the chosen share of the packs. Memory: one pack
// and its content a worker.
func (c *checker) readPacks(ctx context.Context) error {
	if c.opts.ReadData <= 0 {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(c.listed), packfile.Name.Compare)
	if c.opts.ReadData < 1 {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:int(float64(len(names))*c.opts.ReadData+0.999)]
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(runtime.GOMAXPROCS(0), 4))
	for _, name := range names {
		if c.bad[name] != nil {
			continue
		}
		group.Go(func() error { return c.readPack(ctx, name) })
	}
	return group.Wait()
}

func (c *checker) readPack(ctx context.Context, name packfile.Name) error {
	object, err := objectstore.ReadRange(ctx, c.r.store, packKey(name), 0, c.listed[name])
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
	if err != nil { // without a footer the index still knows the frames, but nothing vouches for them
		c.damaged(name, errors.Join(wrong, err), nil)
		return nil
	}
	frames, err := c.readFrames(pack, object)
	if err := errors.Join(wrong, err); err != nil {
		c.damaged(name, err, frames)
	}
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
	p := c.found(packKey(name), Damaged, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad[name] = p
	if frames != nil {
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
		c.snapshots = append(c.snapshots, checkedSnapshot{id: ref.ID, record: record})
		if _, err := commit.Labels(ctx, c.r.protocol(), ref.ID, record.Manifest); err != nil {
			if err := c.foundIf("labels/"+ref.ID.String(), err); err != nil {
				return err
			}
		}
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
	var culprit *Problem
	for _, at := range copies {
		problem := c.bad[at.Pack]
		frames, partly := c.damage[at.Pack]
		if problem == nil || partly && !frames[at.FrameOffset] {
			return nil
		}
		culprit = problem
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
