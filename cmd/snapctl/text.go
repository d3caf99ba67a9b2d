package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/engine/manifest"
)

// quote returns a name as it may stand in text output: as it is if every rune
// of it can be printed, otherwise in Go syntax with quotes and escapes, so that
// a file name cannot drive the terminal. A name that begins with a quote is
// quoted as well: what starts with one is always Go syntax.
func quote(name string) string {
	if strings.HasPrefix(name, `"`) || strings.TrimSpace(name) != name || printable(name) != name {
		return strconv.Quote(name)
	}
	return name
}

// displayPath is a path below the root of a snapshot, in text.
func displayPath(path string) string {
	if path == "" {
		return "."
	}
	return quote(path)
}

// shortID is enough of an id to name a snapshot in a list: 12 digits are the
// same for two of a million snapshots with a chance of 1 in 500.
func shortID(id engine.ID) string { return id.String()[:12] }

// printable escapes what must not reach a terminal: control characters, among
// them the start of every escape sequence, bytes that are not UTF-8, and the
// invisible characters that reorder text.
func printable(s string) string {
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = s[i] >= ' ' && s[i] < 0x7f
	}
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if strconv.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(s[:n])
		} else {
			q := strconv.Quote(s[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// cut shortens s to so many columns. Runes beyond ASCII count as two, which is
// right for the wide ones and safe for the others.
func cut(s string, columns int) string {
	for i, r := range s {
		columns--
		if r >= 0x80 {
			columns--
		}
		if columns < 0 {
			return s[:i]
		}
	}
	return s
}

// size is a number of bytes for people.
func size(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1023.95 && unit < len(units)-1 { // what would print as 1024.0 of a unit is 1.0 of the next
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}

// seconds is a duration for people.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// plural is a count with its noun.
func plural(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "y") {
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// stamp is a time in RFC 3339 with nanoseconds, in UTC. Years that RFC 3339
// cannot write are seconds since 1970 after an @.
func stamp(t manifest.Time) string {
	if at := t.Time(); t.Sec > -(1<<37) && t.Sec < 1<<38 && at.Year() >= 0 && at.Year() <= 9999 {
		return at.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("@%d.%09d", t.Sec, t.Nsec)
}

// shortTime is stamp to the second, for tables.
func shortTime(t manifest.Time) string {
	return stamp(manifest.Time{Sec: t.Sec})
}

// modeString is a mode as `ls -l` writes it.
func modeString(kind manifest.EntryKind, mode uint32) string {
	letters := [...]byte{manifest.File: '-', manifest.Dir: 'd', manifest.Symlink: 'l', manifest.FIFO: 'p', manifest.Socket: 's', manifest.CharDevice: 'c', manifest.BlockDevice: 'b'}
	s := []byte("?rwxrwxrwx")
	if int(kind) < len(letters) && letters[kind] != 0 {
		s[0] = letters[kind]
	}
	for i := range 9 {
		if mode>>(8-i)&1 == 0 {
			s[i+1] = '-'
		}
	}
	special := func(bit uint32, at int, lower, upper byte) {
		if mode&bit == 0 {
			return
		}
		if s[at] == 'x' {
			s[at] = lower
		} else {
			s[at] = upper
		}
	}
	special(0o4000, 3, 's', 'S')
	special(0o2000, 6, 's', 'S')
	special(0o1000, 9, 't', 'T')
	return string(s)
}
