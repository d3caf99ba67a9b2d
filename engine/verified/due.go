package verified

import (
	"cmp"
	"slices"
	"time"

	"github.com/snapctl/snapctl/packfile"
)

// clockGrace is how far ahead of this machine's clock another one may have been. A
// time beyond that is taken for a mistake: otherwise a clock that was wrong by years
// would keep its packs from being verified for as long.
const clockGrace = 48 * time.Hour

// knownAt is when a pack was verified, as far as that can be true.
func (r Record) knownAt(name packfile.Name, now time.Time) (time.Time, bool) {
	at, ok := r.Time(name)
	return at, ok && at.Before(now.Add(clockGrace))
}

// Due orders packs, given with their sizes in bytes, as they should be verified:
// first those that never were, then those for which it is longest ago.
func (r Record) Due(packs map[packfile.Name]int64, now time.Time) []packfile.Name {
	type due struct {
		name packfile.Name
		at   int64 // -1: never
	}
	list := make([]due, 0, len(packs))
	for name := range packs {
		d := due{name, -1}
		if at, ok := r.knownAt(name, now); ok {
			d.at = at.Unix()
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b due) int { return cmp.Or(cmp.Compare(a.at, b.at), a.name.Compare(b.name)) })
	names := make([]packfile.Name, len(list))
	for i, d := range list {
		names[i] = d.name
	}
	return names
}

// Coverage says how much of a repository was verified how recently.
type Coverage struct {
	Packs, Bytes uint64 // of the repository
	Within       [len(Windows)]Amount
	Never        Amount
	// Oldest is when the pack was verified for which that is longest ago; zero if no
	// pack ever was.
	Oldest time.Time
}

// Amount is a part of a repository.
type Amount struct{ Packs, Bytes uint64 }

// Windows are the times up to now that a Coverage counts, each including the ones
// before it.
var Windows = [...]time.Duration{24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour}

// Coverage tells how much of the packs, given with their sizes in bytes, was
// verified.
func (r Record) Coverage(packs map[packfile.Name]int64, now time.Time) Coverage {
	c := Coverage{}
	for name, size := range packs {
		one := Amount{1, uint64(size)}
		c.Packs++
		c.Bytes += one.Bytes
		at, ok := r.knownAt(name, now)
		if !ok {
			c.Never.add(one)
			continue
		}
		if c.Oldest.IsZero() || at.Before(c.Oldest) {
			c.Oldest = at
		}
		for i, window := range Windows {
			if now.Sub(at) <= window {
				c.Within[i].add(one)
			}
		}
	}
	return c
}

func (a *Amount) add(other Amount) {
	a.Packs += other.Packs
	a.Bytes += other.Bytes
}
