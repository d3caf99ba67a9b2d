package ignore

import "strings"

// segmentKind says how a segment is matched. The frequent ones have no tokens.
type segmentKind uint8

const (
	anyDepth segmentKind = iota // "**": any number of directories
	anyName                     // "*"
	literal                     // "name"
	suffix                      // "*.log"
	prefix                      // "core.*"
	general
)

// A segment is the part of a pattern that matches one name.
type segment struct {
	kind segmentKind
	text string
	glob *glob
}

// match says whether the segment matches a name. It is not asked of anyDepth.
func (s *segment) match(name string) bool {
	switch s.kind {
	case literal:
		return name == s.text
	case suffix:
		return strings.HasSuffix(name, s.text)
	case prefix:
		return strings.HasPrefix(name, s.text)
	case general:
		return s.glob.match(name)
	default:
		return true
	}
}

type tokenKind uint8

const (
	oneByte tokenKind = iota // exactly this byte
	anyByte                  // ?
	anyRun                   // *, or several
	oneOf                    // [...]
)

type token struct {
	kind  tokenKind
	value byte   // of oneByte
	set   uint16 // of oneOf: index into glob.sets
}

// A glob is a scanned segment.
type glob struct {
	tokens []token
	sets   []byteSet
	stars  int // in the last run of them
	min    int // bytes of the shortest name that matches
	tail   int // tokens after the last run of stars, one byte each
}

// maxName is far more than the bytes of any name (255 on Linux). It bounds the
// sets of a segment, so that a token is four bytes.
const maxName = 1<<16 - 1

// scanSegment reads a pattern up to its first slash and returns where it
// stopped: at the end, at a slash, or at the backslash before one.
func scanSegment(p string) (g glob, end int, err error) {
	for end < len(p) && p[end] != '/' && !strings.HasPrefix(p[end:], `\/`) {
		if end, err = g.scan(p, end); err != nil {
			return g, end, err
		}
		if g.min > maxName {
			return g, end, errLongName
		}
	}
	return g, end, nil
}

// scan reads one token at p[at].
func (g *glob) scan(p string, at int) (next int, err error) {
	switch p[at] {
	case '*':
		return g.addStars(p, at), nil
	case '?':
		g.addOne(token{kind: anyByte})
	case '[':
		set, next, err := parseSet(p, at)
		g.addOne(token{kind: oneOf, set: uint16(len(g.sets))})
		g.sets = append(g.sets, set)
		return next, err
	case '\\':
		if at++; at == len(p) {
			return at, errBackslash
		}
		fallthrough
	default:
		g.addOne(token{kind: oneByte, value: p[at]})
	}
	return at + 1, nil
}

func (g *glob) addStars(p string, at int) (next int) {
	for next = at; next < len(p) && p[next] == '*'; next++ {
	}
	g.stars, g.tail = next-at, 0
	g.tokens = append(g.tokens, token{kind: anyRun})
	return next
}

func (g *glob) addOne(t token) {
	g.tokens = append(g.tokens, t)
	g.min++
	g.tail++
}

// segment chooses the cheapest way to match.
func (g glob) segment() (segment, error) {
	n := len(g.tokens)
	if n == 0 {
		return segment{}, errEmptyName
	}
	first, last := g.tokens[0].kind == anyRun, g.tokens[n-1].kind == anyRun
	switch {
	case n == 1 && first:
		return segment{kind: anyName}, nil
	case first && isLiteral(g.tokens[1:]):
		return segment{kind: suffix, text: literalOf(g.tokens[1:])}, nil
	case last && isLiteral(g.tokens[:n-1]):
		return segment{kind: prefix, text: literalOf(g.tokens[:n-1])}, nil
	case !isLiteral(g.tokens):
		return segment{kind: general, glob: &g}, nil
	}
	s := segment{kind: literal, text: literalOf(g.tokens)}
	if s.text == "." || s.text == ".." {
		return s, errDots
	}
	return s, nil
}

func isLiteral(tokens []token) bool {
	for _, t := range tokens {
		if t.kind != oneByte {
			return false
		}
	}
	return true
}

func literalOf(tokens []token) string {
	b := make([]byte, len(tokens))
	for i, t := range tokens {
		b[i] = t.value
	}
	return string(b)
}

// match goes back only to the last run of stars: if what stands between two
// runs matches somewhere, its leftmost place leaves most to the rest, so an
// earlier run never has to be tried again. Time is at most len(tokens) *
// len(name).
func (g *glob) match(name string) bool {
	if len(name) < g.min || !g.matchTail(name) {
		return false
	}
	p, n := 0, 0
	run, resume := -1, 0
	for n < len(name) {
		switch {
		case p < len(g.tokens) && g.tokens[p].kind == anyRun:
			run, resume = p, n
			p++
		case p < len(g.tokens) && g.matchByte(g.tokens[p], name[n]):
			p++
			n++
		case run >= 0:
			resume++
			p, n = run+1, resume
		default:
			return false
		}
	}
	for p < len(g.tokens) && g.tokens[p].kind == anyRun {
		p++
	}
	return p == len(g.tokens)
}

// matchTail compares the end of a name, where most names differ.
func (g *glob) matchTail(name string) bool {
	for i := 1; i <= g.tail; i++ {
		if !g.matchByte(g.tokens[len(g.tokens)-i], name[len(name)-i]) {
			return false
		}
	}
	return true
}

func (g *glob) matchByte(t token, b byte) bool {
	switch t.kind {
	case oneByte:
		return t.value == b
	case oneOf:
		return g.sets[t.set].has(b)
	default:
		return true
	}
}
