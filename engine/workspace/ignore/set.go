package ignore

import "strings"

// byteSet is a set of bytes, as a bit map.
type byteSet [4]uint64

func (s *byteSet) has(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }
func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) remove(b byte)   { s[b>>6] &^= 1 << (b & 63) }

func (s *byteSet) addRange(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s.add(byte(b))
	}
}

func (s *byteSet) invert() {
	for i := range s {
		s[i] = ^s[i]
	}
}

// parseSet reads a set of characters that begins with the "[" at p[at], and
// returns where it ends. As in git a "]" that comes first is a member, a
// backslash escapes, also at either end of a range, "!" and "^" negate, and "/"
// is never a member, though it may be written.
func parseSet(p string, at int) (set byteSet, next int, err error) {
	at++
	negated := at < len(p) && (p[at] == '!' || p[at] == '^')
	if negated {
		at++
	}
	const none = -1
	low := none // the member before, where a range may begin
	for first := true; at < len(p) && (first || p[at] != ']'); first = false {
		switch c := p[at]; {
		case c == '-' && low != none && at+1 < len(p) && p[at+1] != ']':
			high, after, err := unescape(p, at+1)
			if err != nil {
				return set, at, err
			}
			set.addRange(byte(low), high)
			low, at = none, after
		case c == '[' && strings.HasPrefix(p[at+1:], ":"):
			name, after, err := className(p, at)
			if err != nil {
				return set, at, err
			}
			if low, at = none, after; name == "" {
				set.add('[')
				low = '['
			} else if !set.addClass(name) {
				return set, at, errClassName
			}
		default:
			member, after, err := unescape(p, at)
			if err != nil {
				return set, at, err
			}
			set.add(member)
			low, at = int(member), after
		}
	}
	if at >= len(p) {
		return set, at, errOpenClass
	}
	if negated {
		set.invert()
	}
	if set.remove('/'); set == (byteSet{}) {
		return set, at, errEmptyClass
	}
	return set, at + 1, nil
}

// unescape reads one member.
func unescape(p string, at int) (member byte, next int, err error) {
	if p[at] == '\\' {
		at++
	}
	if at == len(p) {
		return 0, at, errOpenClass
	}
	return p[at], at + 1, nil
}

// className reads "[:name:]" at p[at] and returns the name with its last colon.
// The name is empty if the "[" is an ordinary member, since the next "]" has no
// colon before it.
func className(p string, at int) (name string, next int, err error) {
	begin := at + len("[:")
	n := strings.IndexByte(p[begin:], ']')
	if n < 0 {
		return "", at, errOpenClass
	}
	if name = p[begin : begin+n]; !strings.HasSuffix(name, ":") {
		return "", at + 1, nil
	}
	return name, begin + n + 1, nil
}

// addClass adds the ASCII characters of a class, or returns false for a name
// that is none. The space of git has neither vertical tab nor form feed.
func (s *byteSet) addClass(name string) bool {
	switch name {
	case "alnum:":
		return s.addClass("alpha:") && s.addClass("digit:")
	case "alpha:":
		return s.addClass("upper:") && s.addClass("lower:")
	case "blank:":
		s.addAll(" \t")
	case "cntrl:":
		s.addRange(0, 0x1f)
		s.add(0x7f)
	case "digit:":
		s.addRange('0', '9')
	case "graph:":
		s.addRange('!', '~')
	case "lower:":
		s.addRange('a', 'z')
	case "print:":
		s.addRange(' ', '~')
	case "punct:":
		s.addAll("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
	case "space:":
		s.addAll(" \t\n\r")
	case "upper:":
		s.addRange('A', 'Z')
	case "xdigit:":
		s.addAll("0123456789abcdefABCDEF")
	default:
		return false
	}
	return true
}

func (s *byteSet) addAll(members string) {
	for i := range len(members) {
		s.add(members[i])
	}
}
