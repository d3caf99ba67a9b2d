package main

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// ledger is what the soak has been told of each snapshot: the oracle. Nothing in it
// comes from a repository but what a command acknowledged, or a listing showed.
type ledger struct {
	// late says that a request may take effect after the process that made it was
	// killed: a server goes on with it.
	late bool

	mu       sync.Mutex // guards the following
	attempts map[string]tree
	entries  map[string]*entry
	ids      []string // of entries, in the order in which they became known
}

// standing is what must be true of a snapshot.
type standing int

const (
	disputed  standing = iota // a forget or an undo began and has not told how it ended
	promised                  // acknowledged, or seen: it has to stay
	forgotten                 // it must not be there
	lapsed                    // it was not there when last seen, and nothing is said of it
)

// entry is one snapshot.
type entry struct {
	label    string // of the attempt that made it
	files    tree   // nil when it was forgotten long ago
	standing standing
	changes  int  // how many commands began that change the standing
	running  int  // of those
	clouded  bool // one of them was killed and may still take effect: nothing is ever certain again
}

func newLedger(late bool) *ledger {
	return &ledger{late: late, attempts: map[string]tree{}, entries: map[string]*entry{}}
}

// attempt notes what a process is about to save, before it starts. It is the label
// by which a snapshot is known that nobody acknowledged.
func (l *ledger) attempt(label string, files tree) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts[label] = maps.Clone(files)
}

// acknowledge enters a snapshot that a process of an attempt says it made, or that a
// listing showed with the label of the attempt. It returns false if no such attempt
// was made.
func (l *ledger) acknowledge(id, label string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enter(id, label)
}

func (l *ledger) enter(id, label string) bool {
	files, ok := l.attempts[label]
	if _, known := l.entries[id]; ok && !known {
		l.entries[id] = &entry{label: label, files: files, standing: promised}
		l.ids = append(l.ids, id)
	}
	return ok
}

// handle is a snapshot that was picked, as it stood then.
type handle struct {
	id      string
	files   tree
	changes int
	running int
}

// pick draws a snapshot among the last limit that have a standing; 0 is all.
func (l *ledger) pick(random *rand.Rand, limit int, standings ...standing) (handle, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, id := range slices.Backward(l.ids) {
		if slices.Contains(standings, l.entries[id].standing) {
			all = append(all, id)
		}
		if limit > 0 && len(all) == limit {
			break
		}
	}
	if len(all) == 0 {
		return handle{}, false
	}
	id := all[random.IntN(len(all))]
	return l.handle(id), true
}

func (l *ledger) handle(id string) handle {
	e := l.entries[id]
	return handle{id, e.files, e.changes, e.running}
}

// get returns a snapshot that is known.
func (l *ledger) get(id string) handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handle(id)
}

// stands reports whether the snapshot is promised and was all the time since it was
// picked: then whatever a command could not do with it is a loss.
func (l *ledger) stands(h handle) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[h.id]
	return e.standing == promised && e.changes == h.changes
}

func (l *ledger) count(s standing) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.standing == s {
			n++
		}
	}
	return n
}

// dispute says that a command is about to start that may change whether the
// snapshots are there.
func (l *ledger) dispute(ids ...string) []handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	handles := make([]handle, len(ids))
	for i, id := range ids {
		e := l.entries[id]
		e.standing = disputed
		e.changes++
		e.running++
		handles[i] = l.handle(id)
	}
	return handles
}

// resolve says that the command ended: acknowledged with what it left, failed, or
// killed. If another one was at work on a snapshot meanwhile, nobody knows which of
// them was last.
func (l *ledger) resolve(handles []handle, o outcome, left standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range handles {
		e := l.entries[h.id]
		e.running--
		e.clouded = e.clouded || o.code < 0 && l.late
		alone := h.running == 1 && e.changes == h.changes
		if o.code == exitDone && alone && !e.clouded {
			e.standing = left
		}
	}
}

// listed is a snapshot in a listing.
type listed struct {
	Snapshot string            `json:"snapshot"`
	Labels   map[string]string `json:"labels"`
}

// contradiction is what a listing shows that must not be.
type contradiction struct {
	lost     []string // promised and not there
	back     []string // forgotten and there
	stranger []string // there, and no attempt made it
}

// all returns how each snapshot stands, to be compared with a listing that comes
// after.
func (l *ledger) all() map[string]entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]entry, len(l.entries))
	for id, e := range l.entries {
		all[id] = *e
	}
	return all
}

// compare judges a listing that was made after before was taken. What nobody
// acknowledged and the listing shows is promised from now on, and what was disputed is
// settled by it.
func (l *ledger) compare(before map[string]entry, listing []listed) contradiction {
	l.mu.Lock()
	defer l.mu.Unlock()
	var v contradiction
	there := map[string]bool{}
	for _, s := range listing {
		there[s.Snapshot] = true
		if !l.enter(s.Snapshot, s.Labels[attemptLabel]) {
			v.stranger = append(v.stranger, s.Snapshot)
		}
	}
	for id, was := range before {
		e := l.entries[id]
		if e.changes != was.changes || e.running+was.running > 0 {
			continue
		}
		switch {
		case e.clouded && there[id]:
			e.standing = disputed
		case e.clouded:
			e.standing = lapsed
		case e.standing == promised && !there[id]:
			v.lost = append(v.lost, id)
		case e.standing == forgotten && there[id]:
			v.back = append(v.back, id)
		case there[id]:
			e.standing = promised
		default:
			e.standing = forgotten
		}
	}
	l.prune()
	return v
}

// remembered is how many snapshots the files are remembered of at least.
const remembered = 500

// prune drops what older snapshots held that are not there any more.
func (l *ledger) prune() {
	for _, id := range l.ids[:max(len(l.ids)-remembered, 0)] {
		if e := l.entries[id]; e.running == 0 && (e.standing == forgotten || e.standing == lapsed) {
			e.files, l.attempts[e.label] = nil, nil
		}
	}
}

// TestSoakLedger holds the oracle of the soak to what can be known: it must see each loss,
// and must not see one where two commands were at work at the same time.
func TestSoakLedger(t *testing.T) {
	done, killed := outcome{code: exitDone}, outcome{code: -1}
	forget := func(l *ledger, o outcome) { l.resolve(l.dispute("x"), o, forgotten) }
	for name, test := range map[string]struct {
		do    func(*ledger)
		late  bool
		there bool
		wrong bool
	}{
		"kept":                      {do: func(*ledger) {}, there: true},
		"lost":                      {do: func(*ledger) {}, wrong: true},
		"forgotten":                 {do: func(l *ledger) { forget(l, done) }},
		"back":                      {do: func(l *ledger) { forget(l, done) }, there: true, wrong: true},
		"forget was killed":         {do: func(l *ledger) { forget(l, killed) }},
		"forget did not come to it": {do: func(l *ledger) { forget(l, killed) }, there: true},
		"undone":                    {do: func(l *ledger) { forget(l, done); l.resolve(l.dispute("x"), done, promised) }, there: true},
		"undone and lost":           {do: func(l *ledger) { forget(l, done); l.resolve(l.dispute("x"), done, promised) }, wrong: true},
		"undone meanwhile": {do: func(l *ledger) {
			first, second := l.dispute("x"), l.dispute("x")
			l.resolve(first, done, forgotten)
			l.resolve(second, done, promised)
		}},
		"undone after a late forget": {late: true, do: func(l *ledger) { forget(l, killed); l.resolve(l.dispute("x"), done, promised) }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(test.late)
			l.attempt("a", tree{"f": 1})
			if !l.acknowledge("x", "a") {
				t.Fatal("the attempt is not known")
			}
			test.do(l)
			var listing []listed
			if test.there {
				listing = append(listing, listed{"x", map[string]string{attemptLabel: "a"}})
			}
			v := l.compare(l.all(), listing)
			if wrong := len(v.lost)+len(v.back) > 0; wrong != test.wrong || len(v.stranger) > 0 {
				t.Errorf("%+v, want something wrong: %v", v, test.wrong)
			}
		})
	}
	l := newLedger(false)
	if v := l.compare(l.all(), []listed{{"y", nil}}); len(v.stranger) != 1 {
		t.Errorf("a snapshot of nobody: %+v", v)
	}
}
