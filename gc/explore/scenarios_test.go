package explore

import (
	"errors"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
)

// scenario is one that is explored by name.
type scenario struct {
	name string
	// set makes it: each time the same.
	set func(*ground) *Scenario
	// shows are parts of outcomes that a search of the whole must have met: else the
	// scenario is not about what it is meant to be.
	shows []string
	// small ones are searched to the end also by "make test", others until they have
	// so many states.
	small  bool
	states int // 0: quickStates
}

var scenarios = []scenario{
	{
		// A writer finds all that it needs in a pack that only a forgotten snapshot used.
		name: "reuse", small: true,
		shows: []string{"published, 0 new packs", "published, 1 new packs", "collector: 1 deleted", "1 spared"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			g.forgotten(w.saved())
			return g.scenario(w.saver(), g.computer("collector").collector(thorough, 1))
		},
	},
	{
		// It finds a part of what it needs.
		name:  "save",
		shows: []string{"published, 1 new packs", "published, 2 new packs", "2 deleted", "2 spared"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			g.forgotten(w.saved())
			w.write("b", "content of b")
			return g.scenario(w.saver(), g.computer("collector").collector(thorough, 1))
		},
	},
	{
		name:  "two writers",
		shows: []string{"writer: published, 0", "writer: published, 1", "other: published, 0", "other: published, 1", "1 spared"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			g.forgotten(w.saved())
			other := g.computer("other").write("a", "content of a")
			return g.scenario(w.saver(), other.saver(), g.computer("collector").collector(thorough, 1))
		},
	},
	{
		name:  "two collectors",
		shows: []string{"published, 0 new packs", "published, 1 new packs", "1 adopted", "1 spared"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			g.forgotten(w.saved())
			return g.scenario(w.saver(), g.computer("first").collector(thorough, 1), g.computer("second").collector(thorough, 1))
		},
	},
	{
		// A snapshot is forked while it is forgotten and collected.
		name: "fork", small: true,
		shows: []string{"forked", "forgot 1", "1 deleted", "1 spared", "writer: failed"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			id := w.saved()
			s := g.scenario(w.forker(id), g.forgetter(id.String()), g.computer("collector").collector(thorough, 1))
			// The origin is gone, or what it consists of.
			s.May = func(err error) bool {
				return retryable(err) || errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrDamaged)
			}
			return s
		},
	},
	{
		// Whatever is published is forgotten, and perhaps what is about to be.
		name:  "forget",
		shows: []string{"forgot 1", "forgot 2", "1 expired", "2 tombstones removed"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			w.saved()
			s := g.scenario(w.saver(), g.forgetter(""), g.computer("collector").collector(hasty, 1))
			s.Kinds = []how{lost, retried} // see TestLateRequestsNeedTheGracePeriod
			return s
		},
	},
	{
		// The same, and the writer does not hear at first that it has published.
		name:  "retry",
		shows: []string{"forgot 1", "1 tombstones removed", "1 expired", "published, 2 new packs"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			s := g.scenario(w.saver(), g.forgetter(""), g.computer("collector").collector(hasty, 1))
			s.Faults, s.Kinds, s.Spare = 1, []how{retried}, outside("snapshots/")
			return s
		},
	},
	{
		// A forgotten snapshot is taken back while it is collected.
		name: "undo", small: true,
		shows: []string{"undone", "writer: failed", "1 deleted", "1 spared"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			id := w.saved()
			g.forgottenLately(id)
			s := g.scenario(w.undoer(id), g.computer("collector").collector(thorough, 1))
			s.May = func(err error) bool {
				return retryable(err) || errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrCollected)
			}
			return s
		},
	},
	{
		// A collector takes for left behind what a writer is about to index.
		name:  "hasty",
		shows: []string{"published, 0 new packs", "published, 1 new packs", "published, 2 new packs", "1 expired", "1 spared"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			return g.scenario(w.saver(), g.computer("collector").collector(hasty, 1))
		},
	},
	{
		// A paused writer is taken for dead, and what it reuses is collected.
		name:  "expiry",
		shows: []string{"published, 0 new packs", "published, 1 new packs", "1 expired", "2 expired", "1 spared"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			g.forgotten(w.saved())
			return g.scenario(w.saver(), g.computer("collector").collector(hasty, 2))
		},
	},
	{
		// The same, and what removes its attempt arrives twice.
		name:  "stray",
		shows: []string{"published, 0 new packs", "published, 1 new packs", "1 expired", "1 spared"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			g.forgotten(w.saved())
			s := g.scenario(w.saver(), g.computer("collector").collector(hasty, 2))
			s.Faults, s.Kinds, s.Spare = 1, []how{repeated}, outside("pending/")
			return s
		},
	},
	{
		// Two packs hold the same, and each is condemned by a collector that died. Those
		// that look now know the packs in different orders.
		name: "spares", small: true,
		shows: []string{"2 adopted, 2 spared", "1 adopted, 1 deleted"},
		set: func(g *ground) *Scenario {
			one, two := g.computer("one"), g.computer("two")
			g.computer("writer").write("a", "content of a").saved()
			one.synced()
			g.apart(func() {
				g.computer("other").write("a", "content of a").saved()
				two.synced()
			})
			for _, pack := range g.packs() {
				g.condemned(pack)
			}
			return g.scenario(one.collector(thorough, 1), two.collector(thorough, 1))
		},
	},
	{
		// Two packs hold the same. Which of them a collector would rather keep depends on
		// whether it counts what the other snapshot of one of them holds.
		name: "duplicates", states: 6_000,
		shows: []string{"1 deleted, 1 copied", "1 adopted", "forgot 1"},
		set: func(g *ground) *Scenario {
			id := g.computer("writer").write("a", "content of a", "b", "content of b").saved()
			g.apart(func() { g.computer("other").write("a", "content of a").saved() })
			return g.scenario(g.forgetter(id.String()), g.computer("first").collector(thorough, 1), g.computer("second").collector(thorough, 1))
		},
	},
	{
		// A writer reuses a pack of which a collector copies what is needed.
		name:  "repack",
		shows: []string{"published, 0 new packs", "published, 1 new packs", "1 deleted, 1 copied", "1 spared"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a", "b", "content of b")
			id := w.saved()
			g.computer("other").write("a", "content of a").saved()
			g.forgotten(id)
			return g.scenario(w.saver(), g.computer("collector").collector(thorough, 1))
		},
	},
	{
		// Index segments are merged while a collector lists them key by key.
		name:  "compaction",
		shows: []string{"1 deleted, 1 copied", "merged 2 into 1"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			id := w.saved()
			w.write("b", "content of b")
			w.saved()
			g.forgotten(id)
			s := g.scenario(g.compactor(), g.computer("collector").collector(hasty, 1))
			s.Page = 1
			return s
		},
	},
	{
		// A push finds what it needs in a pack that only a forgotten snapshot used.
		name: "push", small: true,
		shows: []string{"pushed 0 blobs", "pushed 3 blobs", "1 deleted", "1 spared"},
		set: func(g *ground) *Scenario {
			w := g.computer("writer").write("a", "content of a")
			g.forgotten(w.saved())
			return g.scenario(w.pusher(), g.computer("collector").collector(thorough, 1))
		},
	},
}

// outside tells the keys that do not start with a prefix.
func outside(prefix string) func(string) bool {
	return func(key string) bool { return !strings.HasPrefix(key, prefix) }
}

// publishedTwice is what becomes of a request to publish that arrives a second time, behind
// a collection that removed the tombstone of the snapshot or, if it is not hasty, did
// not.
func publishedTwice(g *ground, opts engine.CollectOptions) *Scenario {
	w := g.computer("writer").write("a", "content of a")
	s := g.scenario(w.saver(), g.forgetter(""), g.computer("collector").collector(opts, 1))
	s.Faults, s.Kinds, s.Spare = 1, []how{repeated}, outside("snapshots/")
	return s
}

// crowd is all at once. It is too large to be searched.
func crowd(g *ground) *Scenario {
	w := g.computer("writer").write("a", "content of a", "b", "content of b")
	g.forgotten(w.saved())
	other := g.computer("other").write("a", "content of a")
	id := other.saved()
	w.write("c", "content of c")
	s := g.scenario(w.saver(), other.saver(), g.computer("forker").forker(id), g.forgetter(id.String()),
		g.computer("pusher").write("a", "content of a", "d", "content of d").pusher(),
		g.compactor(), g.computer("first").collector(thorough, 2), g.computer("second").collector(thorough, 1))
	s.May = func(err error) bool {
		return retryable(err) || errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrDamaged)
	}
	return s
}

func find(t *testing.T, name string) scenario {
	t.Helper()
	for _, s := range scenarios {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", name)
	return scenario{}
}
