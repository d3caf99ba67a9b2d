package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/snapctl/snapctl/gc/retention"
)

// policyOptions say what stays, by rules on the command line or by a file.
type policyOptions struct {
	flags   *pflag.FlagSet // to tell a rule of 0 from none
	rules   retention.Rules
	within  string
	labels  []string
	groupBy string
	file    string
}

func (o *policyOptions) addFlags(f *pflag.FlagSet) {
	r := &o.rules
	f.IntVar(&r.Last, "keep-last", 0, "keep the newest `n`")
	f.StringVar(&o.within, "keep-within", "", "keep what is not older than this `duration`, such as 14d, counted from the newest")
	f.IntVar(&r.Hourly, "keep-hourly", 0, "keep the newest of each of the last `n` hours that have any")
	f.IntVar(&r.Daily, "keep-daily", 0, "the same for days (in UTC)")
	f.IntVar(&r.Weekly, "keep-weekly", 0, "the same for weeks (from Monday)")
	f.IntVar(&r.Monthly, "keep-monthly", 0, "the same for months")
	f.IntVar(&r.Yearly, "keep-yearly", 0, "the same for years")
	f.StringArrayVar(&o.labels, "keep-label", nil, "keep what has this label: `KEY=VALUE`, or KEY for any value (repeatable)")
	f.BoolVar(&r.All, "keep-all", false, "keep all but what its ttl label lets go")
	f.StringVar(&o.groupBy, "group-by", "source", "count apart, by `what`: source, label:KEY or none")
	f.StringVar(&o.file, "policy", "", "take the rules from this `file`; docs/retention.md has its format")
}

// policy returns nil if nobody gave one.
func (o *policyOptions) policy() (*retention.Policy, error) {
	rules, grouped := false, o.flags.Changed("group-by")
	o.flags.Visit(func(f *pflag.Flag) { rules = rules || strings.HasPrefix(f.Name, "keep-") })
	switch {
	case o.flags.Changed("policy") && (rules || grouped):
		return nil, &usageError{err: errors.New("--policy and rules of the command line exclude each other")}
	case o.flags.Changed("policy"):
		return readPolicy(o.file)
	case !rules && grouped:
		return nil, &usageError{err: errors.New("--group-by needs rules to count for, such as --keep-last 3")}
	case !rules:
		return nil, nil
	}
	section, err := o.section()
	if err != nil {
		return nil, &usageError{err: err}
	}
	policy := &retention.Policy{Sections: []retention.Section{section}}
	if err := policy.Check(); err != nil {
		return nil, &usageError{err: err}
	}
	return policy, nil
}

func (o *policyOptions) section() (s retention.Section, err error) {
	s.Rules = o.rules
	if s.GroupBy, err = retention.ParseGrouping(o.groupBy); err != nil {
		return s, fmt.Errorf("--group-by: %w", err)
	}
	if o.flags.Changed("keep-within") {
		if s.Rules.Within, err = retention.ParseDuration(o.within); err != nil {
			return s, fmt.Errorf("--keep-within: %w", err)
		}
	}
	for _, text := range o.labels {
		label, err := retention.ParseLabel(text)
		if err != nil {
			return s, fmt.Errorf("--keep-label: %w", err)
		}
		s.Rules.Labels = append(s.Rules.Labels, label)
	}
	return s, nil
}

// readPolicy reads a policy file, which is no longer than a policy may be.
func readPolicy(path string) (*retention.Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, retention.MaxPolicy+1))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	policy, err := retention.ParsePolicy(string(text))
	if err != nil {
		return nil, &hinted{fmt.Errorf("policy %s: %w", path, err), "nothing was forgotten; docs/retention.md has the format of policies"}
	}
	return &policy, nil
}
