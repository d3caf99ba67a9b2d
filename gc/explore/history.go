package explore

import (
	"fmt"
	"slices"
	"strings"
)

// history is what an actor has seen: the calls that it made and how they were
// answered, from its first. Since that determines what it does next, the program
// need run only once for each history, whatever the others do meanwhile; the search
// combines histories as data.
type history struct {
	number  int32 // in histories.all
	actor   int   // in the scenario
	before  *history
	last    exchange  // how it differs from before
	waiting []request // what it asks for next; none: it has ended
	outcome Outcome
	err     error
	after   map[exchange]*history
	hidden  []key // snapshots' keys that it may have overwritten by now, if it forgets
}

// exchange answers one of the requests that wait.
type exchange struct {
	call   int
	answer reply
}

func (h *history) ended() bool { return len(h.waiting) == 0 }

// histories are those of all actors, and the machines that are at some of them.
type histories struct {
	stage  *stage
	all    []*history
	roots  []*history // of the actors
	parked parking
	runs   int // programs started
	steps  int // calls answered to a program
}

// begin enters an actor that has made no call yet.
func (t *histories) begin(actor int) (*history, error) {
	m := t.run(actor)
	return t.enter(&history{actor: actor}, m)
}

func (t *histories) run(actor int) *machine {
	t.runs++
	return t.stage.start(t.stage.Actors[actor])
}

// follow is the history h with one more call answered.
func (t *histories) follow(h *history, call int, answer reply) (*history, error) {
	e := exchange{call, answer}
	if next, ok := h.after[e]; ok {
		return next, nil
	}
	m, err := t.machine(h)
	if err != nil {
		return nil, err
	}
	m.step(call, answer)
	t.steps++
	next := t.otherOrder(h, e)
	if next != nil && t.leadsTo(next, m) {
		t.parked.put(next, m)
	} else if next, err = t.enter(&history{actor: h.actor, before: h, last: e}, m); err != nil {
		return nil, err
	}
	h.after[e] = next
	return next, nil
}

// otherOrder returns the history that has the last exchange of h and e in the other
// order, if the two requests were waiting at the same time and that order is known.
func (t *histories) otherOrder(h *history, e exchange) *history {
	if t.stage.Exact || h.before == nil {
		return nil
	}
	earlier := slices.Index(h.before.waiting, h.waiting[e.call])
	if earlier < 0 {
		return nil
	}
	other := h.before.after[exchange{earlier, e.answer}]
	if other == nil {
		return nil
	}
	return other.after[exchange{slices.Index(other.waiting, h.before.waiting[h.last.call]), h.last.answer}]
}

// leadsTo reports whether the program asks for the same as at h.
func (t *histories) leadsTo(h *history, m *machine) bool {
	waiting, err := m.waiting()
	return err == nil && len(waiting) > 0 && slices.Equal(waiting, h.waiting)
}

// enter completes a history by what the machine that is there asks for. The machine
// is parked, or stopped after an error.
func (t *histories) enter(h *history, m *machine) (*history, error) {
	var err error
	if h.waiting, err = m.waiting(); err != nil {
		m.stop()
		return nil, fmt.Errorf("%w\n%s", err, t.stage.objects.tell(h))
	}
	h.number, h.after = int32(len(t.all)), map[exchange]*history{}
	t.all = append(t.all, h)
	h.hidden = t.hides(h)
	if h.ended() {
		h.outcome, h.err = m.outcome, m.err
		return h, nil
	}
	t.parked.put(h, m)
	return h, nil
}

// hides adds what the actor is about to overwrite below snapshots/.
func (t *histories) hides(h *history) []key {
	var hidden []key
	if h.before != nil {
		hidden = h.before.hidden
	}
	if !t.stage.Actors[h.actor].Forgets {
		return nil
	}
	for _, r := range h.waiting {
		if r.op == opPut && strings.HasPrefix(t.stage.objects.keys[r.key], "snapshots/") {
			hidden = append(hidden[:len(hidden):len(hidden)], r.key)
		}
	}
	return hidden
}

// machine returns a machine at h: one that is parked there, or a new one that is
// led there.
func (t *histories) machine(h *history) (*machine, error) {
	if m := t.parked.take(h); m != nil {
		return m, nil
	}
	var path []*history
	for at := h; at.before != nil; at = at.before {
		path = append(path, at)
	}
	m := t.run(h.actor)
	for i := len(path) - 1; i >= 0; i-- {
		if err := t.same(path[i].before, m); err != nil {
			m.stop()
			return nil, err
		}
		m.step(path[i].last.call, path[i].last.answer)
		t.steps++
	}
	if err := t.same(h, m); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

// same checks that a program that is run again does the same again.
func (t *histories) same(h *history, m *machine) error {
	waiting, err := m.waiting()
	if err != nil {
		return err
	}
	if slices.Equal(waiting, h.waiting) {
		return nil
	}
	o := t.stage.objects
	return fmt.Errorf("%s: is no function of what it sees: after\n%sit asked for\n%sand, when run again, for\n%s",
		m.actor.Name, o.tell(h), o.list(h.waiting), o.list(waiting))
}

// parking keeps machines that may go on from where they are, so that a search that
// follows one history need not run its beginning again and again.
type parking struct {
	places   map[*history]*machine
	arrivals []*history // in their order; some have left
}

// maxParked machines are kept. Each holds an open index: some 20 goroutines and 2 MB.
const maxParked = 128

func (p *parking) put(h *history, m *machine) {
	if p.places == nil {
		p.places = map[*history]*machine{}
	}
	if p.places[h] != nil {
		m.stop()
		return
	}
	p.places[h] = m
	p.arrivals = append(p.arrivals, h)
	for len(p.places) > maxParked {
		if m := p.take(p.arrivals[0]); m != nil {
			m.stop()
		}
		p.arrivals = p.arrivals[1:]
	}
}

func (p *parking) take(h *history) *machine {
	m := p.places[h]
	delete(p.places, h)
	return m
}

// clear stops all.
func (p *parking) clear() {
	for h := range p.places {
		p.take(h).stop()
	}
}
