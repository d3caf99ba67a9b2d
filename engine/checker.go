package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// checker is one look at a whole repository: a Check, or the plan of a repair.
type checker struct {
	r      *Repository
	opts   CheckOptions
	db     *index.DB
	fetch  *fetch.Fetcher
	keeper *verifiedKeeper

	mu       sync.Mutex // guards report and problems while packs are read
	report   CheckReport
	problems []*Problem

	// allRecords says that the records of snapshots are read also if their trees are
	// not looked at.
	allRecords bool

	pending    []commit.Pending
	snapshots  []checkedSnapshot
	broken     []brokenSnapshot
	tombstones map[string]commit.Ref // by their keys
	published  map[ID]bool
	forgotten  map[ID]bool // whose records are kept

	listed   map[packfile.Name]int64 // packs in the store, and their sizes
	dead     index.PackSet           // what collections have condemned
	marked   index.PackSet           // what earlier checks found damaged
	whole    index.PackSet           // packs that were read and are what they should be
	suspect  index.PackSet           // packs of the wrong size
	segments []*Problem              // of segments that cannot be used
	// bad are the packs that cannot be relied on, and why: the problem gets
	// the affected paths. Of a pack in damage only that is bad.
	bad    map[packfile.Name]*Problem
	damage map[packfile.Name]*injuries
	seen   map[packfile.Name]*injuries // the same, also of packs that no segment names
	// needed are the problems of packs from which a live blob can still be
	// read, and from no good one.
	needed map[*Problem]bool
	// dismissed are problems that turned out to be none.
	dismissed map[*Problem]bool
	// losses are the blobs without a good copy.
	losses map[blob.ID]*Problem
	// clean are the directories, by their nodes, below which nothing is lost.
	clean  map[blob.ID]bool
	reader *index.Reader
}

func newChecker(r *Repository, opts CheckOptions, db *index.DB, l *locator) *checker {
	return &checker{
		r: r, opts: opts, db: db,
		fetch:     fetch.New(fetch.Config{Store: r.store, Sealer: r.sealer, Namer: r.namer, Locator: l}),
		keeper:    newVerifiedKeeper(r),
		published: map[ID]bool{}, forgotten: map[ID]bool{}, tombstones: map[string]commit.Ref{},
		listed: map[packfile.Name]int64{}, bad: map[packfile.Name]*Problem{}, whole: index.PackSet{}, suspect: index.PackSet{},
		damage: map[packfile.Name]*injuries{}, seen: map[packfile.Name]*injuries{},
		needed: map[*Problem]bool{}, dismissed: map[*Problem]bool{}, losses: map[blob.ID]*Problem{}, clean: map[blob.ID]bool{},
	}
}

// step is a part of a check, with a name for errors.
type step struct {
	phase string
	do    func(context.Context) error
}

// run goes from the outside in: snapshots, index, packs, trees; then it asks whom
// the losses affect. The snapshots come first: what they need was indexed before
// they were published, so a snapshot that appears meanwhile is not taken for one
// that lacks something.
func (c *checker) run(ctx context.Context) error {
	return c.walk(ctx, []step{
		{"keys", c.checkKeys}, {"records", c.checkRecords}, {"snapshots", c.checkSnapshots}, {"protocol", c.checkProtocol},
		{"orphans", c.findOrphans}, {"index", c.checkIndex}, {"packs", c.checkPacks}, {"data", c.readPacks}, {"trees", c.checkTrees},
		{"affected", c.findAffected}, {"duplicates", c.findDuplicates}, {"marks", c.markPacks},
	})
}

func (c *checker) walk(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.phase, err)
		}
	}
	return nil
}

// partial reports whether only some snapshots are looked at: then it is not known
// what nobody needs.
func (c *checker) partial() bool { return len(c.opts.Snapshots) > 0 }

func (c *checker) finish() *CheckReport {
	c.judge()
	slices.SortStableFunc(c.problems, func(a, b *Problem) int {
		if a.Harmless != b.Harmless {
			return map[bool]int{false: -1, true: 1}[a.Harmless]
		}
		return 0
	})
	for _, p := range c.problems {
		if !c.dismissed[p] {
			c.report.Problems = append(c.report.Problems, *p)
		}
	}
	c.report.Verified = c.keeper.coverage(c.listed)
	return &c.report
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
	_, err = c.problemOf(object, err)
	return err
}

// problemOf is foundIf for who has more to say of the problem; it is nil if there is
// none.
func (c *checker) problemOf(object string, err error) (*Problem, error) {
	if err == nil {
		return nil, nil
	}
	if errors.Is(err, commit.ErrForeign) {
		p := c.found(object, Foreign, err)
		p.Harmless = true
		return p, nil
	}
	what, ok := lost(err)
	if !ok {
		return nil, err
	}
	return c.found(object, what, err), nil
}

// foundHarmless is foundIf for objects without which nothing is lost.
func (c *checker) foundHarmless(object string, err error) error {
	p, err := c.problemOf(object, err)
	if p != nil {
		p.Harmless = true
	}
	return err
}
