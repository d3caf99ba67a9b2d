package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/gc/retention"
)

// parseLabels reads key=value arguments. A later one for the same key counts.
func parseLabels(args []string) (map[string]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	labels := make(map[string]string, len(args))
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, &usageError{err: fmt.Errorf("label %q is not KEY=VALUE", arg)}
		}
		if !utf8.ValidString(arg) {
			return nil, &usageError{err: fmt.Errorf("label %q is not UTF-8", arg)}
		}
		labels[key] = value
	}
	return labels, nil
}

// parseWanted reads the labels of a filter: KEY=VALUE, or KEY for any value.
func parseWanted(args []string) (map[string]string, error) {
	full := make([]string, len(args))
	for i, arg := range args {
		if full[i] = arg; !strings.Contains(arg, "=") {
			full[i] += "="
		}
	}
	return parseLabels(full)
}

// parseTime reads a point in time: RFC 3339, a date (its first moment, local
// time), or an age such as 90m, 2h, 3d, 1w or 1d12h.
func parseTime(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return t, nil
	}
	if age, err := retention.ParseDuration(text); err == nil {
		return now.Add(-age), nil
	}
	return time.Time{}, &usageError{err: fmt.Errorf("%q is no time", text), hint: "write 2026-01-31, 2026-01-31T15:04:05Z, or an age such as 90m, 2h, 3d or 1w"}
}

// parseShare reads a percentage, as a share of 1.
func parseShare(text string) (float64, error) {
	number, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(percent > 0 && percent <= 100) {
		return 0, &usageError{err: fmt.Errorf("%q is not a percentage above 0%% and up to 100%%", text)}
	}
	return percent / 100, nil
}

// oneOf returns the value of a word, for options that take one of a few.
func oneOf[T any](option, word string, words []string, values []T) (T, error) {
	for i := range words {
		if words[i] == word {
			return values[i], nil
		}
	}
	var none T
	return none, &usageError{err: fmt.Errorf("%s=%s is not one of %s", option, word, strings.Join(words, ", "))}
}

// chooseOptions narrow which snapshot "latest" is.
type chooseOptions struct {
	labels []string
	source string
}

func (o *chooseOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.labels, "label", nil, "only snapshots with this label: `KEY=VALUE`, or KEY for any value (repeatable)")
	f.StringVar(&o.source, "source", "", "only snapshots of this `source`: as the list shows it, or its path")
}

func (o *chooseOptions) filter() (engine.Filter, error) {
	labels, err := parseWanted(o.labels)
	return engine.Filter{Labels: labels, Source: o.source}, err
}
