package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// RepairPacksPlan is what RepairPacks would do. It is data: making it changes
// nothing.
type RepairPacksPlan struct {
	Packs []PackRepair // in the order of their names
}

// PackRepair is what becomes of one pack that is gone or damaged, or marked as
// such.
type PackRepair struct {
	Object string
	What   What  // Missing or Damaged; empty if the pack is Whole
	Err    error // what is wrong with it
	Mark   bool  // it is to be marked
	// Whole says that the pack is marked and yet what it should be: the mark is
	// taken away.
	Whole bool
	// Unknown says that neither its footer nor the index tells what it held.
	Unknown bool

	Held         uint64 // blobs of which another pack has a copy
	Salvage      uint64 // blobs that are stored again: they can be read, and only damaged packs have them
	SalvageBytes uint64 // of their plaintext
	Lost         []LostBlob
	MoreLost     uint64 // beyond those in Lost

	name packfile.Name
}

// LostBlob is a blob that no pack has any more. Whether a snapshot needs it, a
// check tells.
type LostBlob struct {
	Kind blob.Kind
	ID   ID
}

// How many lost blobs a plan names, in a pack and in all; the others are counted.
const (
	maxLost    = 1000
	maxAllLost = 100_000
)

// Empty reports whether there is nothing to do.
func (p *RepairPacksPlan) Empty() bool {
	return !slices.ContainsFunc(p.Packs, func(pack PackRepair) bool { return pack.Mark || pack.Whole || pack.Salvage > 0 })
}

// Lost is the number of blobs that no repair of packs can bring back, and of packs
// of which it is not known what they held.
func (p *RepairPacksPlan) Lost() (blobs, unknown uint64) {
	for _, pack := range p.Packs {
		blobs += uint64(len(pack.Lost)) + pack.MoreLost
		if pack.Unknown {
			unknown++
		}
	}
	return blobs, unknown
}

// PlanRepairPacks reads the packs that are marked as damaged, or that have not the
// size that the index says, and finds out what can be saved of them. Damage that
// only reading finds is found by a Check before, which marks it.
func (r *Repository) PlanRepairPacks(ctx context.Context) (*RepairPacksPlan, error) {
	plan, err := calmly(ctx, r, func() (*RepairPacksPlan, error) { return r.planRepairPacks(ctx) })
	return plan, failed("plan repair of", "packs", err)
}

func (r *Repository) planRepairPacks(ctx context.Context) (*RepairPacksPlan, error) {
	plan := &RepairPacksPlan{}
	err := r.withChecker(CheckOptions{}, func(c *checker) error {
		err := c.walk(ctx, []step{{"index", c.checkIndex}, {"packs", c.checkPacks}, {"data", c.readPacks}})
		if err == nil {
			plan.Packs, err = c.planPacks(ctx)
		}
		return err
	})
	return plan, err
}

// packPlanner makes a RepairPacksPlan.
type packPlanner struct {
	*checker
	repairs map[packfile.Name]*PackRepair
	lost    int // blobs that are named in all of them
}

func (c *checker) planPacks(ctx context.Context) ([]PackRepair, error) {
	planner := &packPlanner{checker: c, repairs: map[packfile.Name]*PackRepair{}}
	for _, name := range ascending(c.bad) {
		p := c.bad[name]
		if p.What != Unindexed && !c.dead.Has(name) {
			planner.repairs[name] = &PackRepair{Object: p.Object, What: p.What, Err: p.Err, Mark: !c.marked.Has(name), Unknown: true, name: name}
		}
	}
	if err := planner.look(ctx); err != nil {
		return nil, err
	}
	for name := range c.marked {
		if c.whole.Has(name) {
			planner.repairs[name] = &PackRepair{Object: packKey(name), Whole: true, name: name}
		}
	}
	var plan []PackRepair
	for _, name := range ascending(planner.repairs) {
		plan = append(plan, *planner.repairs[name])
	}
	return plan, nil
}

// look tells for each blob of the damaged packs whether it can be saved.
func (p *packPlanner) look(ctx context.Context) (err error) {
	reader := p.db.NewReader(nil)
	defer func() { err = errors.Join(err, reader.Close()) }()
	names := index.PackSet{}
	for name := range p.repairs {
		names[name] = struct{}{}
	}
	return p.r.describePacks(ctx, names, p.listed, func(pack packfile.Pack) error {
		repair := p.repairs[pack.Name]
		repair.Unknown = false
		var copies []index.Location
		for _, frame := range pack.Frames {
			for _, b := range frame.Blobs {
				var err error
				if copies, err = reader.Copies(copies[:0], b.ID); err != nil {
					return err
				}
				p.count(repair, frame.Kind, b, copies)
			}
		}
		return nil
	})
}

// count counts a blob for the pack that it is saved from, or was lost with: of several
// damaged packs the one of the smallest name.
func (p *packPlanner) count(repair *PackRepair, kind blob.Kind, b packfile.Blob, copies []index.Location) {
	held, saver, loser := p.standing(b.ID, copies)
	switch {
	case saver == repair.name:
		repair.Salvage++
		repair.SalvageBytes += uint64(b.Length)
	case held || saver != packfile.Name{}:
		repair.Held++
	case loser != repair.name:
	case len(repair.Lost) < maxLost && p.lost < maxAllLost:
		p.lost++
		repair.Lost = append(repair.Lost, LostBlob{kind, b.ID})
	default:
		repair.MoreLost++
	}
}

// standing tells whether a blob with these copies has one in a pack that is not
// damaged, and otherwise from which damaged pack it can be saved, or else with which
// it was lost. What a pack holds that no segment names is not lost, but nothing to rely
// on either: a collection may take it.
func (p *packPlanner) standing(id blob.ID, copies []index.Location) (held bool, saver, loser packfile.Name) {
	waits := false
	for _, at := range copies {
		problem := p.bad[at.Pack]
		if problem == nil {
			return true, packfile.Name{}, packfile.Name{}
		}
		switch hurt := p.seen[at.Pack]; {
		case problem.What == Unindexed:
			waits = true
		case hurt != nil && !hurt.lost(id, at.FrameOffset):
			saver = smallest(saver, at.Pack)
		default:
			loser = smallest(loser, at.Pack)
		}
	}
	return waits, saver, loser
}

// smallest returns the smaller of two names, of which the first may be none.
func smallest(a, b packfile.Name) packfile.Name {
	if a == (packfile.Name{}) || b.Compare(a) < 0 {
		return b
	}
	return a
}

// RepairPacksResult is what RepairPacks did.
type RepairPacksResult struct {
	Marked, Unmarked uint64 // packs
	Blobs, Bytes     uint64 // stored again, and their plaintext
	NewPacks         uint64
	StoredBytes      uint64 // of objects that were written
}

// RepairPacks does what the plan says: what can still be read of damaged packs, and
// is whole in no other pack, is stored again. Every blob is compared with its id
// before. The damaged packs stay, marked, until a collection takes them: others may
// be reading them. ErrDamaged with a result if the plan names losses. Wherever it is
// interrupted, nothing is lost and the next repair goes on.
func (r *Repository) RepairPacks(ctx context.Context, plan *RepairPacksPlan) (*RepairPacksResult, error) {
	result, err := r.repairPacks(ctx, plan)
	if blobs, unknown := plan.Lost(); err == nil && blobs+unknown > 0 {
		err = fmt.Errorf("%w: what cannot be had any more: %d blobs, and what %d packs held", ErrDamaged, blobs, unknown)
	}
	return result, failed("repair", "packs", err)
}

func (r *Repository) repairPacks(ctx context.Context, plan *RepairPacksPlan) (*RepairPacksResult, error) {
	result := &RepairPacksResult{}
	if err := r.mark(ctx, plan, result); err != nil {
		return result, err
	}
	damaged := index.PackSet{}
	for _, pack := range plan.Packs {
		if pack.Salvage > 0 {
			damaged[pack.name] = struct{}{}
		}
	}
	if len(damaged) == 0 {
		return result, nil
	}
	for range attempts {
		settled, err := r.salvage(ctx, damaged, result)
		if err != nil || settled {
			return result, err
		}
	}
	return result, fmt.Errorf("%w: packs were collected or marked again and again meanwhile", ErrRetry)
}

// mark comes first: from then on no writer relies on the damaged packs, and every
// collection that begins later counts other copies only.
func (r *Repository) mark(ctx context.Context, plan *RepairPacksPlan, result *RepairPacksResult) error {
	var damaged []packfile.Name
	for _, pack := range plan.Packs {
		if pack.Mark {
			damaged = append(damaged, pack.name)
		}
	}
	if err := r.markDamaged(ctx, damaged); err != nil {
		return err
	}
	result.Marked = uint64(len(damaged))
	for _, pack := range plan.Packs {
		if !pack.Whole {
			continue
		}
		if err := commit.UnmarkDamaged(ctx, r.protocol(), pack.name); err != nil {
			return err
		}
		result.Unmarked++
	}
	return nil
}
