package gc

import (
	"fmt"
	"maps"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/packfile/blob"
)

// old reports whether something that was put at a time is older than the grace
// period. Clocks may be wrong: see Options.Grace for what depends on it.
func (o Options) old(put time.Time) bool { return o.Grace == 0 || o.Now().Sub(put) >= o.Grace }

// undoable returns the forgotten snapshots that can still be had back.
func (o *observation) undoable(opts Options) []commit.Ref {
	var refs []commit.Ref
	for _, ref := range o.forgotten {
		if opts.UndoWindow > 0 && opts.Now().Sub(ref.ModTime) < opts.UndoWindow {
			refs = append(refs, ref)
		}
	}
	return refs
}

// chooseLeftovers picks what ended attempts, forgotten snapshots and earlier
// collections left.
func (p *Plan) chooseLeftovers(o *observation) {
	for _, a := range o.expired {
		p.Expire = append(p.Expire, a.Pending)
	}
	for _, a := range o.pending {
		if p.opts.old(a.ModTime) {
			p.Expire = append(p.Expire, a.Pending)
		}
	}
	for _, ref := range o.tombstones {
		if p.opts.old(ref.ModTime) && !p.sight.damaged[ref.Key()] { // a repair buries it anew
			p.Tombstones = append(p.Tombstones, ref)
		}
	}
	published := map[blob.ID]bool{}
	kept := maps.Clone(p.sight.damaged) // as for those that are published
	for _, ref := range o.published {
		published[ref.ID] = true
		kept[ref.Key()] = true // a record that is kept may be the only one that can be read
	}
	for _, ref := range o.undoable(p.opts) {
		kept[ref.Key()] = true
		if !published[ref.ID] {
			p.Undoable = append(p.Undoable, ref)
			published[ref.ID] = true // another attempt was forgotten too
		}
	}
	for _, ref := range o.forgotten {
		if !kept[ref.Key()] {
			p.Records = append(p.Records, ref)
		}
	}
	p.Labels = o.unusedLabels(p.opts)
	for _, open := range o.generations.Open {
		if open.State == commit.Kept {
			p.repo.warn("gc", fmt.Errorf("the final list of generation %d cannot be read: what it condemned stays where it is", open.Number))
			continue
		}
		p.Settle = append(p.Settle, open.Number)
	}
	for name, listed := range o.packs {
		if o.generations.Final.Has(name) {
			p.Sweep = append(p.Sweep, Pack{Name: name, Size: listed.size, Reason: Dead})
		}
	}
}

// unusedLabels returns the old labels of snapshots that are neither published, nor
// about to be, nor can be had back.
func (o *observation) unusedLabels(opts Options) (keys []string) {
	used := map[blob.ID]bool{}
	for _, ref := range o.published {
		used[ref.ID] = true
	}
	for _, ref := range o.undoable(opts) {
		used[ref.ID] = true
	}
	for _, ref := range o.tombstones { // somebody may be taking it back: later
		used[ref.ID] = true
	}
	for _, a := range o.pending {
		used[a.id] = true
	}
	for _, label := range o.labels {
		if !used[label.ID] && opts.old(label.ModTime) {
			keys = append(keys, label.Key)
		}
	}
	return keys
}
