package explore

import (
	"encoding/binary"
	"slices"
)

// state is a moment of a scenario: where each actor is, what the store holds, which
// requests are still on their way to it, and how many faults may still happen. Who
// put an object, and when, is in its content: see random.
type state struct {
	actors []int32 // histories
	store  cells
	late   []int32 // mutations, ascending
	faults int

	turn int8 // who made the last step; -1: nobody, or it is of no interest
	left int8 // interruptions that may still happen; not part of what makes states the same
}

// encode appends what makes two states the same.
func (s *state) encode(b []byte) []byte {
	b = append(b, byte(s.faults), byte(len(s.late)), byte(s.turn))
	for _, n := range s.actors {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for _, n := range s.late {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for _, c := range s.store {
		b = binary.LittleEndian.AppendUint32(b, uint32(c.key))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.content))
	}
	return b
}

// move is a step from one state to the next: the store takes up a request of an
// actor, in some way, or one that was on its way.
type move struct {
	actor int8 // -1: none
	call  uint8
	how   how
	late  uint8 // which of state.late, if actor is -1
}

// how is what becomes of a request and of its answer.
type how uint8

const (
	answered how = iota
	// lost: it takes effect, and the actor hears that the store is not available.
	lost
	// retried: it takes effect, the answer is lost on the way, and a layer below the
	// actor makes the request again, some time later.
	retried
	// delayed: the actor hears that the store is not available; it takes effect later,
	// or never.
	delayed
	// repeated: it takes effect and is answered, and takes effect once more later, or
	// not.
	repeated
	// delivered: a request that was delayed or repeated takes effect.
	delivered
)

var hows = [...]string{
	answered: "", lost: "takes effect, answer lost", retried: "takes effect, answer lost, will be made again",
	delayed: "answer lost, takes effect later or never", repeated: "answered, may take effect again", delivered: "arrives late",
}

// moves lists what can happen next.
func (s *stage) moves(at *state) []move {
	var all []move
	for i, number := range at.actors {
		if !s.mayStep(at, i) {
			continue
		}
		for c, r := range s.histories.all[number].waiting {
			m := move{actor: int8(i), call: uint8(c)}
			all = append(all, m)
			if at.faults == 0 || s.Spare != nil && s.Spare(s.objects.keys[r.key]) {
				continue
			}
			for _, m.how = range s.faults(r) {
				all = append(all, m)
			}
		}
	}
	for i := range at.late {
		if i == 0 || at.late[i] != at.late[i-1] {
			all = append(all, move{actor: -1, how: delivered, late: uint8(i)})
		}
	}
	return all
}

// faults are those that a request may meet.
func (s *stage) faults(r request) []how {
	switch {
	case r.writes():
		return s.Kinds
	case s.Reads:
		return []how{lost}
	}
	return nil
}

// mayStep reports whether it can be the turn of an actor.
func (s *stage) mayStep(at *state, actor int) bool {
	return at.left > 0 || !s.interrupts(at, actor)
}

// interrupts reports whether a step of an actor would interrupt another.
func (s *stage) interrupts(at *state, actor int) bool {
	if s.interruptions == unbounded || at.turn < 0 || int(at.turn) == actor {
		return false
	}
	return !s.histories.all[at.actors[at.turn]].ended()
}

// make makes a move.
func (s *stage) make(at *state, m move) (*state, error) {
	next := *at
	if m.how == delivered {
		next.late = slices.Delete(slices.Clone(at.late), int(m.late), int(m.late)+1)
		next.store, _ = s.objects.apply(at.store, s.mutations.all[at.late[m.late]])
		return &next, nil
	}
	h := s.histories.all[at.actors[m.actor]]
	r := h.waiting[m.call]
	if m.how != answered {
		next.faults--
	}
	if s.interruptions != unbounded {
		if s.interrupts(at, int(m.actor)) {
			next.left--
		}
		next.turn = m.actor
	}
	var answer reply
	if m.how != delayed {
		next.store, answer = s.objects.apply(at.store, r)
	}
	switch m.how {
	case retried:
		return &next, nil
	case lost, delayed:
		answer = reply{failure: unavailable}
	}
	if m.how == delayed || m.how == repeated {
		next.late = append(slices.Clone(at.late), s.mutations.number(r))
		slices.Sort(next.late)
	}
	followed, err := s.histories.follow(h, int(m.call), answer)
	if err != nil {
		return nil, err
	}
	next.actors = slices.Clone(at.actors)
	next.actors[m.actor] = followed.number
	return &next, nil
}

// mutations numbers the requests that are on their way.
type mutations struct {
	all []request
	of  map[request]int32
}

func (m *mutations) number(r request) int32 {
	n, ok := m.of[r]
	if !ok {
		if m.of == nil {
			m.of = map[request]int32{}
		}
		n = int32(len(m.all))
		m.all = append(m.all, r)
		m.of[r] = n
	}
	return n
}
