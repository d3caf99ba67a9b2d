package retention

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Label is a label that a snapshot may have. An empty Value stands for any.
type Label struct{ Key, Value string }

// ParseLabel reads KEY=VALUE, or KEY or KEY= for any value.
func ParseLabel(text string) (Label, error) {
	key, value, _ := strings.Cut(text, "=")
	if key == "" {
		return Label{}, errors.New("a label is KEY=VALUE, or KEY for any value")
	}
	return Label{key, value}, nil
}

func (l Label) String() string {
	if l.Value == "" {
		return l.Key
	}
	return l.Key + "=" + l.Value
}

func (l Label) on(s Snapshot) bool {
	value, ok := s.Labels[l.Key]
	return ok && (l.Value == "" || l.Value == value)
}

// Selector chooses snapshots. The zero value chooses all.
type Selector struct {
	Labels []Label // each must be there
	// Source is a pattern of the source, or of what follows a colon in it: "*" is
	// any run of characters, slashes included, "?" any one character, and a
	// backslash takes the meaning from what follows. Empty: any source.
	Source string
}

// Matches reports whether the selector chooses the snapshot.
func (sel Selector) Matches(s Snapshot) bool {
	for _, l := range sel.Labels {
		if !l.on(s) {
			return false
		}
	}
	return sel.Source == "" || matchGlob(sel.Source, s.Source) || matchGlob("*:"+sel.Source, s.Source)
}

// matchGlob goes back to the last star when what follows it does not match: at
// most len(pattern) * len(s) steps.
func matchGlob(pattern, s string) bool {
	star, again := -1, 0 // the pattern behind the last star, and where in s it is tried
	p, i := 0, 0
	for i < len(s) || p < len(pattern) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, again = p, i
			continue
		}
		if size, width := step(pattern[p:], s[i:]); size > 0 {
			p, i = p+size, i+width
			continue
		}
		if star < 0 || again == len(s) {
			return false
		}
		again++
		p, i = star, again
	}
	return true
}

// step matches the first element of a pattern, which is no star, and returns how
// much of the pattern and of s it took; 0 if it does not match.
func step(pattern, s string) (size, width int) {
	if pattern == "" || s == "" {
		return 0, 0
	}
	if pattern[0] == '?' {
		_, width = utf8.DecodeRuneInString(s)
		return 1, width
	}
	size = 1
	if pattern[0] == '\\' && len(pattern) > 1 {
		size = 2
	}
	if pattern[size-1] != s[0] {
		return 0, 0
	}
	return size, 1
}
