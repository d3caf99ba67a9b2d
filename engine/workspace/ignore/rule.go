package ignore

import (
	"errors"
	"slices"
	"strings"
)

// origin says whose rule it is.
type origin uint8

const (
	fromCaller origin = iota
	fromSnap
	fromGit
)

// A rule is a compiled line. One without a slash "floats": it has one segment
// and matches the name of an entry at any depth. Any other is anchored at the
// directory of its file, and has a segment for each directory on the way. A
// segment "**" stands for any number of directories, also none; it is never the
// last, and no two are adjacent.
type rule struct {
	segments []segment
	text     string // for people
	order    int    // precedence within its list
	floating bool
	negated  bool
	dirOnly  bool
	origin   origin
}

var (
	errEmpty      = errors.New("empty pattern")
	errEmptyName  = errors.New("empty name between slashes never matches")
	errDots       = errors.New(`"." and ".." never match`)
	errBackslash  = errors.New("nothing after the last backslash")
	errOpenClass  = errors.New("[ without ]")
	errClassName  = errors.New("unknown name between [: and :]")
	errEmptyClass = errors.New("set of characters is empty")
	errLongName   = errors.New("longer than any name")
	errNUL        = errors.New("NUL in a pattern")
)

// parseRule compiles one line. An error means that it can never match.
func parseRule(pattern string) (*rule, error) {
	if strings.IndexByte(pattern, 0) >= 0 {
		return nil, errNUL
	}
	r := &rule{}
	pattern, r.negated = strings.CutPrefix(pattern, "!")
	pattern, r.dirOnly = strings.CutSuffix(pattern, "/")
	if pattern == "" {
		return nil, errEmpty
	}
	r.floating = !strings.Contains(pattern, "/")
	if err := r.compile(strings.TrimPrefix(pattern, "/")); err != nil {
		return nil, err
	}
	if len(r.segments) == 2 && r.segments[0].kind == anyDepth {
		// "**/name" means what "name" means, and that is cheaper to carry along.
		r.segments, r.floating = r.segments[1:], true
	}
	return r, nil
}

// compile cuts a pattern at its slashes, be they escaped or not, but not at
// those in a set of characters.
func (r *rule) compile(pattern string) error {
	for rest := pattern; ; {
		g, end, err := scanSegment(rest)
		if err != nil {
			return err
		}
		if err := r.add(g, rest[end:]); err != nil {
			return err
		}
		if end == len(rest) {
			return nil
		}
		rest = strings.TrimPrefix(rest[end:], `\`)[1:]
	}
}

// add appends a segment; after is what follows it, from the slash on.
func (r *rule) add(g glob, after string) error {
	deep := !r.floating && g.stars > 1 && len(g.tokens) == 1
	switch {
	case !deep:
		s, err := g.segment()
		if err != nil {
			return err
		}
		r.segments = append(r.segments, s)
	case after == "": // one level at least
		r.addDeep()
		r.segments = append(r.segments, segment{kind: anyName})
	case after[0] == '\\': // in git an escaped slash makes it one level at least
		r.segments = append(r.segments, segment{kind: anyName})
		r.addDeep()
	default:
		r.addDeep()
	}
	return nil
}

func (r *rule) addDeep() {
	if n := len(r.segments); n == 0 || r.segments[n-1].kind != anyDepth {
		r.segments = append(r.segments, segment{kind: anyDepth})
	}
}

// An item is a rule in a certain directory: of its segments, those before at
// have matched the path from the file of the rule to that directory.
type item struct {
	rule *rule
	at   int
}

// start appends the items of a rule in the directory of its file.
func (r *rule) start(items []item) []item {
	if r.segments[0].kind == anyDepth {
		return append(items, item{r, 0}, item{r, 1})
	}
	return append(items, item{r, 0})
}

// enter appends the items that are left of those of one rule in a subdirectory.
//
// Once a "**" is reached, what led to earlier segments need not be remembered:
// whatever these can still match, the "**" can reach too, since it may stand for
// everything in between. So a rule has at most one item for each segment from
// its last "**" reached to the next, all different, and their number never
// explodes.
func (r *rule) enter(items, before []item, name string) []item {
	start := len(items)
	for _, i := range before {
		s := r.segments[i.at]
		switch {
		case s.kind == anyDepth:
			items = append(items, item{r, i.at}, item{r, i.at + 1})
		case i.at+1 == len(r.segments) || !s.match(name):
		case r.segments[i.at+1].kind == anyDepth:
			return append(items[:start], item{r, i.at + 1}, item{r, i.at + 2})
		default:
			items = append(items, item{r, i.at + 1})
		}
	}
	return items
}

// A ruleList holds rules in ascending precedence. It is immutable.
//
// Floating rules stay as they are all the way down, so directories share the
// slice; only the anchored ones, most of which end after a level or two, are
// rewritten on the way.
type ruleList struct {
	floating []floating // by order
	anchored []item     // by order; those of one rule side by side
	next     int        // order of the next rule
}

// floating is a floating rule with its segment beside it: most names are
// compared with each of these and match none, so it pays to follow no pointer.
type floating struct {
	segment segment
	rule    *rule
}

func (l ruleList) empty() bool { return len(l.floating)+len(l.anchored) == 0 }

// with returns the list followed by more rules.
func (l ruleList) with(rules []*rule) ruleList {
	l.floating = slices.Clip(l.floating) // other directories share the array
	for _, r := range rules {
		r.order = l.next
		l.next++
		if r.floating {
			l.floating = append(l.floating, floating{r.segments[0], r})
		} else {
			l.anchored = r.start(l.anchored)
		}
	}
	return l
}

func (l ruleList) withoutGit() ruleList {
	left := ruleList{next: l.next}
	for _, f := range l.floating {
		if f.rule.origin != fromGit {
			left.floating = append(left.floating, f)
		}
	}
	for _, i := range l.anchored {
		if i.rule.origin != fromGit {
			left.anchored = append(left.anchored, i)
		}
	}
	return left
}

// enter returns what is left of the rules in the subdirectory of this name.
func (l ruleList) enter(name string) ruleList {
	var buffer [16]item
	left := buffer[:0]
	for rest := l.anchored; len(rest) > 0; {
		r, n := rest[0].rule, 1
		for n < len(rest) && rest[n].rule == r {
			n++
		}
		left = r.enter(left, rest[:n], name)
		rest = rest[n:]
	}
	l.anchored = append([]item(nil), left...)
	return l
}

// An entry is what is asked for.
type entry struct {
	name      string
	dir       bool
	protected bool // from the rules of git
}

// last returns the rule that decides about an entry, nil if none does.
func (l ruleList) last(e entry) *rule {
	anchored := l.lastAnchored(e)
	for k := len(l.floating) - 1; k >= 0; k-- {
		f := &l.floating[k]
		if !f.segment.match(e.name) || !f.rule.concerns(e) {
			continue
		}
		if anchored != nil && anchored.order > f.rule.order {
			return anchored
		}
		return f.rule
	}
	return anchored
}

func (l ruleList) lastAnchored(e entry) *rule {
	for k := len(l.anchored) - 1; k >= 0; k-- {
		r, at := l.anchored[k].rule, l.anchored[k].at
		if at+1 == len(r.segments) && r.concerns(e) && r.segments[at].match(e.name) {
			return r
		}
	}
	return nil
}

func (r *rule) concerns(e entry) bool {
	return (e.dir || !r.dirOnly) && !(e.protected && r.origin == fromGit)
}
