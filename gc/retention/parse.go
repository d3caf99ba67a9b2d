package retention

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxPolicy is how long the text of a policy may be in bytes.
const MaxPolicy = 1 << 20

// SyntaxError says where the text of a policy makes no sense. It wraps ErrInvalid.
type SyntaxError struct {
	Line int // from 1
	Err  error
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns ErrInvalid and the cause.
func (e *SyntaxError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

// ParsePolicy reads the text of a policy: one setting a line, its name and its
// value separated by spaces. An empty line and one that begins with # say nothing.
// A line [NAME] begins a section. A value that begins with a double quote is a
// string of Go, for what could not be written otherwise.
//
//	group-by source|label:KEY|none   default: source; before the sections, for all of them
//	keep-last N, keep-hourly N, keep-daily N, keep-weekly N, keep-monthly N, keep-yearly N
//	keep-within DURATION             such as 14d
//	keep-label KEY[=VALUE]           repeatable
//	keep-all                         only ttl labels remove anything
//	select-label KEY[=VALUE]         repeatable, each must be there; in a section
//	select-source PATTERN            see Selector; in a section
//	optional                         in a section: it may match nothing
//
// Rules before the first section are for what no section selects. Errors are
// *SyntaxError or wrap ErrInvalid.
func ParsePolicy(text string) (Policy, error) {
	if len(text) > MaxPolicy {
		return Policy{}, fmt.Errorf("%w: it has %d bytes, more than %d", ErrInvalid, len(text), MaxPolicy)
	}
	p := parser{rest: &Section{}, names: map[string]bool{}}
	p.begin(p.rest)
	line := 0
	for content := range strings.SplitSeq(text, "\n") {
		line++
		if err := p.line(strings.TrimSpace(content)); err != nil {
			return Policy{}, &SyntaxError{line, err}
		}
	}
	if err := p.end(); err != nil {
		return Policy{}, &SyntaxError{line, err}
	}
	return p.policy()
}

type parser struct {
	rest      *Section   // for what no section selects
	restRules bool       // it has any
	named     []*Section // in the order of the text
	names     map[string]bool

	section *Section        // that the lines belong to
	seen    map[string]bool // settings of it
}

func (p *parser) begin(s *Section) {
	p.section, p.seen = s, map[string]bool{}
}

// end looks back at the section that ends: one without a selector would take
// everything from the sections behind it, one without a rule means nothing.
func (p *parser) end() error {
	s := p.section
	switch {
	case s == p.rest:
		p.restRules = p.hasRules()
		return nil
	case len(s.Select.Labels) == 0 && s.Select.Source == "":
		return fmt.Errorf("section %q selects nothing: give it select-label or select-source", s.Name)
	case !p.hasRules():
		return fmt.Errorf("section %q has no rule: give it keep-last, or keep-all if all shall stay", s.Name)
	}
	return nil
}

func (p *parser) hasRules() bool {
	for setting := range p.seen {
		if strings.HasPrefix(setting, "keep-") {
			return true
		}
	}
	return false
}

func (p *parser) policy() (Policy, error) {
	var policy Policy
	for _, s := range p.named {
		policy.Sections = append(policy.Sections, *s)
	}
	if p.restRules {
		policy.Sections = append(policy.Sections, *p.rest)
	}
	return policy, policy.Check()
}

func (p *parser) line(content string) error {
	if content == "" || content[0] == '#' {
		return nil
	}
	if !utf8.ValidString(content) {
		return errors.New("it is not UTF-8: write other bytes as \\x.. in a quoted value")
	}
	if content[0] == '[' {
		return p.header(content)
	}
	name, value, _ := strings.Cut(strings.ReplaceAll(content, "\t", " "), " ")
	return p.setting(name, strings.TrimSpace(value))
}

func (p *parser) header(content string) error {
	name, ok := strings.CutSuffix(content[1:], "]")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return errors.New("a section begins with [NAME]")
	}
	if p.names[name] {
		return fmt.Errorf("section %q is there twice", name)
	}
	if err := p.end(); err != nil {
		return err
	}
	s := &Section{Name: name, GroupBy: p.rest.GroupBy}
	p.named, p.names[name] = append(p.named, s), true
	p.begin(s)
	return nil
}

// repeatable settings add up; any other one may be there once.
var repeatable = []string{"keep-label", "select-label"}

func (p *parser) setting(name, value string) error {
	if p.seen[name] && !slices.Contains(repeatable, name) {
		return fmt.Errorf("%s is there twice", name)
	}
	p.seen[name] = true
	if strings.HasPrefix(value, `"`) {
		unquoted, err := strconv.Unquote(value)
		if err != nil {
			return fmt.Errorf("%s: %s is no quoted string", name, value)
		}
		value = unquoted
	}
	set, ok := settings[name]
	if !ok {
		return p.setCount(name, value)
	}
	if err := set(p, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (p *parser) setCount(name, value string) error {
	for _, c := range p.section.Rules.counts() {
		if c.setting != name {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 31)
		*c.count = int(n)
		if err != nil {
			return fmt.Errorf("%s: %.40q is no count", name, value)
		}
		return nil
	}
	return fmt.Errorf("unknown setting %.40q", name)
}

var settings = map[string]func(*parser, string) error{
	"group-by": func(p *parser, value string) (err error) {
		p.section.GroupBy, err = ParseGrouping(value)
		return err
	},
	"keep-all": func(p *parser, value string) error {
		p.section.Rules.All = true
		return alone(value)
	},
	"keep-within": func(p *parser, value string) (err error) {
		p.section.Rules.Within, err = ParseDuration(value)
		return err
	},
	"keep-label": func(p *parser, value string) error {
		return addLabel(&p.section.Rules.Labels, value)
	},
	"select-label": func(p *parser, value string) error {
		return cmp.Or(p.inSection(), addLabel(&p.section.Select.Labels, value))
	},
	"select-source": func(p *parser, value string) error {
		p.section.Select.Source = value
		if value == "" {
			return errors.New("a pattern is needed")
		}
		return p.inSection()
	},
	"optional": func(p *parser, value string) error {
		p.section.Optional = true
		return cmp.Or(p.inSection(), alone(value))
	},
}

func addLabel(to *[]Label, text string) error {
	l, err := ParseLabel(text)
	*to = append(*to, l)
	return err
}

func alone(value string) error {
	if value != "" {
		return fmt.Errorf("it takes no value, and %.40q is one", value)
	}
	return nil
}

// inSection refuses what means nothing before the first section.
func (p *parser) inSection() error {
	if p.section == p.rest {
		return errors.New("it belongs in a section: begin one with [NAME]")
	}
	return nil
}
