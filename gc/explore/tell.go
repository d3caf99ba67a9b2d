package explore

import (
	"fmt"
	"regexp"
	"strings"
)

// What follows writes histories and schedules for people: names of 32 and more
// hexadecimal digits are cut to their first six.

var long = regexp.MustCompile(`[0-9a-f]{32,}`)

func short(text string) string {
	return long.ReplaceAllStringFunc(text, func(name string) string { return name[:6] })
}

func (o *objects) describe(r request) string {
	text := fmt.Sprintf("%-6s %s", r.op, o.keys[r.key])
	switch {
	case r.op == opPut && r.options.IfAbsent:
		text += " if absent"
	case r.op == opPut && r.options.IfMatch != "":
		text += " if " + r.options.IfMatch
	case r.op == opGet && r.part.Length > 0:
		text += fmt.Sprintf(" %d bytes from %d", r.part.Length, r.part.Offset)
	case r.op == opList && r.after != "":
		text += " after " + r.after
	}
	return short(text)
}

func (o *objects) list(requests []request) string {
	var b strings.Builder
	for _, r := range requests {
		fmt.Fprintf(&b, "    %s\n", o.describe(r))
	}
	return b.String()
}

// result tells an answer.
func (o *objects) result(r request, a reply) string {
	if a.failure != success {
		return failures[a.failure].Error()
	}
	switch r.op {
	case opList:
		var names []string
		for _, c := range decodeCells(a.listing) {
			names = append(names, strings.TrimPrefix(o.keys[c.key], o.keys[r.key]))
		}
		if a.more {
			names = append(names, "...")
		}
		return short("[" + strings.Join(names, " ") + "]")
	case opGet, opStat:
		return fmt.Sprintf("%d bytes", len(o.contents[a.content]))
	}
	return "ok"
}

// tell tells a history.
func (o *objects) tell(h *history) string {
	if h.before == nil {
		return ""
	}
	r := h.before.waiting[h.last.call]
	return o.tell(h.before) + fmt.Sprintf("    %s: %s\n", o.describe(r), o.result(r, h.last.answer))
}

// tellSchedule makes moves from the first state on, and tells them.
func (s *stage) tellSchedule(moves []move) string {
	var b strings.Builder
	at, err := s.initial, error(nil)
	for _, m := range moves {
		if err != nil {
			break
		}
		var line string
		if line, err = s.tellMove(at, m); err == nil {
			b.WriteString(line)
			at, err = s.make(at, m)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "%v\n", err)
	}
	return b.String()
}

func (s *stage) tellMove(at *state, m move) (string, error) {
	if m.how == delivered {
		r := s.mutations.all[at.late[m.late]]
		return fmt.Sprintf("%-12s %s: %s\n", "", s.objects.describe(r), hows[m.how]), nil
	}
	h := s.histories.all[at.actors[m.actor]]
	r := h.waiting[m.call]
	_, answer := s.objects.apply(at.store, r)
	result := s.objects.result(r, answer)
	if m.how != answered {
		result = hows[m.how]
	} else if r.op == opPut && answer.failure == success {
		result = s.judge.tell(s.objects.keys[r.key], r.content)
	}
	return fmt.Sprintf("%-12s %s: %s\n", s.Actors[m.actor].Name, s.objects.describe(r), result), nil
}

// tell tells what is put.
func (j *judge) tell(name string, c content) string {
	f := j.of(name, c)
	switch {
	case f.tomb == 1:
		return "tombstone, forgotten"
	case f.tomb == 2:
		return "tombstone, expired"
	case f.packs != nil:
		var packs []string
		for thing, n := range j.numbers {
			if f.packs.has(n) {
				packs = append(packs, short(fmt.Sprint(thing)))
			}
		}
		return "names " + strings.Join(packs, " ")
	}
	return "ok"
}
