package retention

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/snapctl/snapctl/packfile/blob"
)

// Snapshot is what a plan has to know of one.
type Snapshot struct {
	ID     blob.ID
	Parent blob.ID   // zero if there is none; one that is not among those planned for counts as none
	Time   time.Time // by the clock of its writer
	Source string
	Labels map[string]string // in force
}

// placed is a snapshot in its place on the line of time.
type placed struct {
	Snapshot
	at        time.Time // effective
	ancestors int       // known ones
}

// compare orders parents before their children, whatever their clocks said.
func (p *placed) compare(other *placed) int {
	return cmp.Or(p.at.Compare(other.at), cmp.Compare(p.ancestors, other.ancestors), p.ID.Compare(other.ID))
}

// inOrder places the snapshots, oldest first. An id that comes twice, or is its
// own ancestor, is an error: ids are hashes of what holds the parent's id, so
// neither can come from a repository.
func inOrder(snapshots []Snapshot) ([]*placed, error) {
	l := line{byID: make(map[blob.ID]*placed, len(snapshots)), done: make(map[blob.ID]bool, len(snapshots))}
	all := make([]*placed, len(snapshots))
	for i, s := range snapshots {
		if l.byID[s.ID] != nil {
			return nil, fmt.Errorf("snapshot %v is there twice", s.ID)
		}
		all[i] = &placed{Snapshot: s}
		l.byID[s.ID] = all[i]
	}
	for _, p := range all {
		if err := l.place(p); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, (*placed).compare)
	return all, nil
}

// line is the line of time while snapshots are placed on it.
type line struct {
	byID map[blob.ID]*placed
	done map[blob.ID]bool // false: its ancestors are being placed
}

// parent returns nil if there is none.
func (l *line) parent(p *placed) *placed {
	if p.Parent.IsZero() {
		return nil
	}
	return l.byID[p.Parent]
}

// place places a snapshot after its ancestors: up to the first one that has its
// place, and down again.
func (l *line) place(p *placed) error {
	var chain []*placed
	for p != nil && !l.done[p.ID] {
		if _, climbing := l.done[p.ID]; climbing {
			return fmt.Errorf("snapshot %v is its own ancestor", p.ID)
		}
		l.done[p.ID] = false
		chain = append(chain, p)
		p = l.parent(p)
	}
	for _, p := range slices.Backward(chain) {
		p.at = p.Time
		if parent := l.parent(p); parent != nil {
			p.ancestors = parent.ancestors + 1
			if parent.at.After(p.at) {
				p.at = parent.at
			}
		}
		l.done[p.ID] = true
	}
	return nil
}

// Order returns the snapshots oldest first, with their effective times (see the
// package's documentation).
func Order(snapshots []Snapshot) ([]Decision, error) {
	all, err := inOrder(snapshots)
	decisions := make([]Decision, len(all))
	for i, p := range all {
		decisions[i] = Decision{Snapshot: p.Snapshot, Effective: p.at}
	}
	return decisions, err
}
