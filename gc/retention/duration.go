package retention

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var units = []struct {
	letter byte
	length time.Duration
}{{'w', 7 * 24 * time.Hour}, {'d', 24 * time.Hour}, {'h', time.Hour}, {'m', time.Minute}, {'s', time.Second}}

// ParseDuration reads a duration above zero, a sum of numbers with the units s, m,
// h, d (24 hours) and w (7 days), such as 90m, 14d or 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	total, rest := time.Duration(0), text
	for rest != "" {
		end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if end <= 0 {
			return 0, notDuration(text)
		}
		n, err := strconv.ParseInt(rest[:end], 10, 64)
		unit := unitOf(rest[end])
		if err != nil || unit == 0 || n > (math.MaxInt64-int64(total))/int64(unit) {
			return 0, notDuration(text)
		}
		total += time.Duration(n) * unit
		rest = rest[end+1:]
	}
	if total == 0 {
		return 0, notDuration(text)
	}
	return total, nil
}

func notDuration(text string) error {
	return fmt.Errorf("%.40q is no duration above zero, such as 90m, 14d or 1d12h", text)
}

func unitOf(letter byte) time.Duration {
	for _, u := range units {
		if u.letter == letter {
			return u.length
		}
	}
	return 0
}

// formatDuration writes a duration, cut to seconds, as ParseDuration reads it.
func formatDuration(d time.Duration) string {
	var b strings.Builder
	for _, u := range units[1:] { // people count 14 days, not 2 weeks
		if n := d / u.length; n > 0 {
			fmt.Fprintf(&b, "%d%c", n, u.letter)
			d -= n * u.length
		}
	}
	return b.String()
}
