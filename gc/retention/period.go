package retention

import (
	"fmt"
	"time"
)

// Period is a stretch of the calendar, in UTC.
type Period string

// The periods.
const (
	Hour  Period = "hour"
	Day   Period = "day"
	Week  Period = "week" // from Monday, ISO 8601
	Month Period = "month"
	Year  Period = "year"
)

// Of names the period that a time lies in, such as 2026-01-03 or 2026-W01. The
// names of later periods are greater within the years 0 to 9999.
func (p Period) Of(t time.Time) string {
	t = t.UTC()
	switch p {
	case Hour:
		return t.Format("2006-01-02T15")
	case Day:
		return t.Format(time.DateOnly)
	case Week:
		year, week := t.ISOWeek()
		return fmt.Sprintf("%04d-W%02d", year, week)
	case Month:
		return t.Format("2006-01")
	}
	return t.Format("2006")
}
