package gc

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/packfile"
)

// Plan says what a collection would do. It is data: making one changes nothing.
type Plan struct {
	// Delete are the packs without a live blob that is nowhere else, largest first.
	Delete []Pack
	// Copy are the packs of which what is alive is copied to new packs, after which
	// they are deleted too.
	Copy []Pack
	// Sweep are packs that earlier collections declared dead and that are still
	// there.
	Sweep []Pack
	// Settle are the generations that earlier collections left open.
	Settle []uint64
	// Expire are attempts to publish that seem to be dead.
	Expire []commit.Pending
	// Tombstones of forgotten snapshots and Records of them are not needed any more.
	Tombstones, Records []commit.Ref
	Labels              []string // keys of labels of snapshots that are gone
	// Undoable are forgotten snapshots that can still be had back, and whose
	// content stays for that.
	Undoable []commit.Ref

	Packs int   // in the repository
	Bytes int64 // of them
	Live  int64 // bytes of frames that live blobs take, each counted once
	Held  int64 // of those, what no published snapshot needs: for an undo, or an attempt
	Freed int64 // bytes that will be free in the end

	repo  *Repository
	opts  Options
	sight sight
	ended bool // the attempts of Expire were ended, or are published
	anew  bool // something seemed lost: what an earlier collection marked is not believed
}

// Pack is a pack in a plan, and why it is in it.
type Pack struct {
	Name   packfile.Name
	Size   int64 // bytes
	Live   int64 // bytes of frames that are needed, about
	Reason Reason
}

// Reason is why a pack goes.
type Reason string

// The reasons.
const (
	Unused     Reason = "unused"      // no snapshot needs anything of it
	Duplicate  Reason = "duplicate"   // what is needed of it is in other packs too
	Leftover   Reason = "left over"   // no segment names it: an attempt that ended left it
	Damaged    Reason = "damaged"     // it is marked as damaged, and has nothing that is not elsewhere
	LittleUsed Reason = "little used" // part of it is needed
	Small      Reason = "small"       // it is merged with others
	Dead       Reason = "dead"        // an earlier collection said so
)

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool {
	return len(p.Delete)+len(p.Copy)+len(p.Sweep)+len(p.Settle)+len(p.Expire)+len(p.Tombstones)+len(p.Records)+len(p.Labels) == 0
}

// Survey makes the plan of a collection (step G1). ErrLost if a snapshot is
// damaged. The plan holds open files: Close it.
func Survey(ctx context.Context, repo *Repository, opts Options) (*Plan, error) {
	p := &Plan{repo: repo, opts: opts.withDefaults()}
	if err := p.watch(ctx, p.choose); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Close frees what the plan holds.
func (p *Plan) Close() error {
	if p.sight.mark == nil { // a look failed, which closed it
		return nil
	}
	return p.sight.mark.close()
}

func (p *Plan) choose(ctx context.Context) error {
	o := p.sight.observation
	census, err := takeCensus(ctx, p.repo, o, p.sight.mark)
	if err != nil {
		return err
	}
	if !census.lost.IsZero() {
		return lost(census.lost)
	}
	p.Held = census.held
	p.chooseLeftovers(o)
	var rest []*account
	for _, a := range census.accounts {
		p.Live += a.owned
		if reason, ok := a.useless(p.sight, p.opts); ok {
			p.Delete = append(p.Delete, a.pack(reason))
		} else if a.copies {
			rest = append(rest, a)
		}
	}
	for _, listed := range o.packs {
		p.Packs++
		p.Bytes += listed.size
	}
	slices.SortFunc(rest, func(a, b *account) int { return a.name.Compare(b.name) })
	p.chooseCopies(rest)
	slices.SortFunc(p.Delete, bySize)
	for _, pack := range slices.Concat(p.Delete, p.Copy, p.Sweep) {
		p.Freed += pack.Size
	}
	for _, pack := range p.Copy {
		p.Freed -= pack.Live
	}
	return nil
}

func bySize(a, b Pack) int {
	return cmp.Or(cmp.Compare(b.Size, a.Size), a.Name.Compare(b.Name))
}

func (a *account) pack(reason Reason) Pack {
	return Pack{Name: a.name, Size: a.size, Live: a.owned, Reason: reason}
}

// useless tells a pack that can go as it is, and why.
// A pack that no segment names may hold what could not be had for an undo: its segment may
// be lost, and come back.
func (a *account) useless(o sight, opts Options) (Reason, bool) {
	switch {
	case !a.indexed:
		return Leftover, !o.unread && !o.holes.Load() && opts.old(a.modTime)
	case a.sole, a.owned > 0:
		return "", false
	case !a.copies:
		return Damaged, o.generations.Damaged.Has(a.name)
	case a.live > 0:
		return Duplicate, true
	}
	return Unused, true
}

// manySmall is how many small packs are worth merging.
const manySmall = 16

// chooseCopies picks packs to be copied: those of which least is needed, until what
// stays unused is little enough, and small ones if there are many.
func (p *Plan) chooseCopies(packs []*account) {
	unused := int64(0)
	for _, a := range packs {
		unused += a.unused()
	}
	allowed := int64(p.opts.MaxUnused * float64(p.Live+unused))
	budget := p.opts.MaxCopy
	if budget == 0 {
		budget = 1 << 62
	}
	slices.SortStableFunc(packs, func(a, b *account) int {
		return cmp.Compare(b.unused()*a.frames, a.unused()*b.frames) // the share that is unused, descending
	})
	taken := 0
	for _, a := range packs {
		if unused <= allowed || a.unused() == 0 || a.size > budget {
			break
		}
		p.Copy = append(p.Copy, a.pack(LittleUsed))
		unused -= a.unused()
		budget -= a.size
		taken++
	}
	p.chooseSmall(packs[taken:], budget)
}

// chooseSmall picks the small packs, if there are many.
func (p *Plan) chooseSmall(packs []*account, budget int64) {
	var small []*account
	for _, a := range packs {
		if a.size < p.opts.PackSize/4 && a.size <= budget {
			small = append(small, a)
			budget -= a.size
		}
	}
	if len(small) < manySmall {
		return
	}
	for _, a := range small {
		p.Copy = append(p.Copy, a.pack(Small))
	}
}

// unused is how many bytes of frames nothing needs, or not from here.
func (a *account) unused() int64 { return max(a.frames-a.owned, 0) }
