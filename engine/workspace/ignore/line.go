package ignore

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A line is a pattern and where it stands.
type line struct {
	pattern string
	number  int // from 1
}

func given(patterns []string) []line {
	lines := make([]line, len(patterns))
	for i, p := range patterns {
		lines[i] = line{pattern: p, number: i + 1}
	}
	return lines
}

// linesOf returns the patterns of an ignore file, without blank lines and
// comments. As in git a byte order mark at the start is skipped, a carriage
// return ends the line with its newline, and a NUL ends it before that.
func linesOf(content []byte) []line {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	var lines []line
	for number := 1; len(content) > 0; number++ {
		var raw []byte
		raw, content, _ = bytes.Cut(content, []byte("\n"))
		raw = bytes.TrimSuffix(raw, []byte("\r"))
		raw, _, _ = bytes.Cut(raw, []byte{0})
		if pattern := trimSpaces(string(raw)); pattern != "" && pattern[0] != '#' {
			lines = append(lines, line{pattern: pattern, number: number})
		}
	}
	return lines
}

// trimSpaces removes trailing spaces, up to one that a backslash escapes.
func trimSpaces(s string) string {
	trimmed := strings.TrimRight(s, " ")
	if len(trimmed) == len(s) {
		return s
	}
	backslashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if backslashes%2 == 1 {
		return s[:len(trimmed)+1]
	}
	return trimmed
}

// describe is the text of a rule for people.
func describe(source string, number int, pattern string) string {
	if source == "" {
		return fmt.Sprintf("pattern %d: %s", number, printable(pattern))
	}
	return fmt.Sprintf("%s:%d: %s", printable(source), number, printable(pattern))
}

// printable quotes what a terminal might obey: the files of a tree, and their
// names, may be hostile.
func printable(s string) string {
	unprintable := func(r rune) bool { return !strconv.IsPrint(r) }
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unprintable) {
		return strconv.Quote(s)
	}
	return s
}
