package commit

import (
	"bytes"
	"context"
	"errors"
	"maps"

	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// Generations is what collectors have declared.
type Generations struct {
	// Settled knows the generations before the first open one. Kept and given to
	// the next ReadGenerations, it saves reading their lists again.
	Settled View
	// Open are the generations without a final list that can be read, ascending.
	Open []Generation
	// Highest is the last generation there is; 0 if there was none.
	Highest uint64
	// Final holds the packs of all final lists: they are dead for good.
	Final index.PackSet
	// Damaged holds the packs that are marked as damaged.
	Damaged index.PackSet
}

// Generation is a run of a collector that has condemned packs.
type Generation struct {
	Number    uint64
	Condemned index.PackSet
	State     GenerationState
}

// GenerationState is what can be done about a generation that is not settled.
type GenerationState int

// The states of a generation that is not settled.
const (
	// Open: a look at the repository settles it.
	Open GenerationState = iota
	// Unreadable: its condemned list is damaged. It has to be settled with an empty
	// final list before anything else is: which packs do not count as copies is not
	// known until then.
	Unreadable
	// Kept: its final list is damaged. Some collectors have read it and may delete
	// what it names, now or in a year; others cannot know what that is. So what it
	// condemned is no copy of anything, and nobody else deletes it.
	Kept
)

// Dead returns the packs in the dead lists of all generations.
func (g Generations) Dead() index.PackSet {
	dead := maps.Clone(g.Final)
	for _, open := range g.Open {
		maps.Copy(dead, open.Condemned)
	}
	return dead
}

// ReadGenerations reads what collectors have declared, in one listing, and the
// lists of those that settled does not know. If settled was read from another
// store, it counts for nothing.
func ReadGenerations(ctx context.Context, repo Repo, settled View) (Generations, error) {
	listed, err := listCollector(ctx, repo.Store, settled.Highest)
	if err != nil {
		return Generations{}, err
	}
	fresh := listed.generations
	if settled.Highest > 0 {
		if len(fresh) == 0 || fresh[0].number != settled.Highest {
			return ReadGenerations(ctx, repo, View{})
		}
		mark, err := fresh[0].mark(ctx, repo)
		if err != nil {
			return Generations{}, err
		}
		if !sameGeneration(settled.Mark, mark) {
			return ReadGenerations(ctx, repo, View{})
		}
		fresh = fresh[1:]
	}
	g := Generations{Highest: settled.Highest, Final: index.PackSet{}, Damaged: listed.damaged}
	g.Settled = View{Highest: settled.Highest, Mark: settled.Mark}
	maps.Copy(g.Final, settled.Dead)
	for i, list := range readDeadLists(ctx, repo, fresh) {
		if err := g.add(ctx, repo, fresh[i], list); err != nil {
			return Generations{}, err
		}
	}
	if len(g.Open) == 0 {
		g.Settled.Dead = maps.Clone(g.Final)
	}
	return g, nil
}

// Lists is how many lists collectors have put, and the key of the last. Nobody deletes
// any, so two that are equal tell that no collection went on in between.
type Lists struct {
	Count int
	Last  string
}

// CountLists counts what collectors have put, whether it can be read or not.
func CountLists(ctx context.Context, repo Repo) (Lists, error) {
	var lists Lists
	for info, err := range repo.Store.List(ctx, gcPrefix, "") {
		if err != nil {
			return Lists{}, err
		}
		if _, _, err := parseGenerationKey(info.Key); err == nil {
			lists = Lists{lists.Count + 1, info.Key}
		}
	}
	return lists, nil
}

// add enters a generation that comes after all others.
func (g *Generations) add(ctx context.Context, repo Repo, next generation, list deadList) (err error) {
	state := Open
	switch {
	case errors.Is(list.err, ErrCondemnedUnknown):
		state = Unreadable
	case list.err != nil:
		return list.err
	case list.kept:
		state = Kept
	}
	set := index.PackSet{}
	for _, name := range list.names {
		set[name] = struct{}{}
	}
	g.Highest = next.number
	if !next.final || list.kept {
		if len(g.Open) == 0 {
			g.Settled.Dead = maps.Clone(g.Final)
		}
		g.Open = append(g.Open, Generation{next.number, set, state})
		return nil
	}
	maps.Copy(g.Final, set)
	if len(g.Open) == 0 {
		g.Settled.Highest = next.number
		g.Settled.Mark, err = next.mark(ctx, repo)
	}
	return err
}

// Condemn opens the generation after highest, or after those that others opened
// meanwhile, with a list of packs (step G2), and returns its number.
func Condemn(ctx context.Context, repo Repo, highest uint64, packs []packfile.Name) (uint64, error) {
	content := EncodeNames(packs)
	for n := highest + 1; n <= maxGeneration; n++ {
		key := generationKey(n, "condemned")
		sealed := sealFor(repo, key, seal.Condemned, content)
		_, err := repo.Store.Put(ctx, key, bytes.NewReader(sealed), objectstore.PutOptions{IfAbsent: true})
		if errors.Is(err, objectstore.ErrExist) { // by another collector, or by a put of ours whose answer was lost
			err = readBack(ctx, repo, key, sealed, err)
		}
		if !errors.Is(err, ErrLost) {
			return n, err
		}
	}
	return 0, failed(gcPrefix, errors.New("generations are used up"))
}

// Finalise settles a generation (step G4) and returns its final list: the given
// one, or that of the collector that was first.
func Finalise(ctx context.Context, repo Repo, n uint64, packs []packfile.Name) ([]packfile.Name, error) {
	key := generationKey(n, "final")
	sealed := sealFor(repo, key, seal.Final, EncodeNames(packs))
	_, err := repo.Store.Put(ctx, key, bytes.NewReader(sealed), objectstore.PutOptions{IfAbsent: true})
	if errors.Is(err, objectstore.ErrExist) {
		return readFinal(ctx, repo, n)
	}
	return packs, err
}
