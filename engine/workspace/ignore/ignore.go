// Package ignore decides which entries of a tree are left out, and by which
// rule.
//
// A [Policy] holds what the caller asked for. Its [Policy.Root] is the first of
// a chain of immutable [Dir] values, one for each directory on the way down:
// [Dir.Enter] reads the ignore files of a subdirectory, [Dir.Excluded] asks for
// one entry. All of it is safe for concurrent use.
//
// Patterns have the syntax and meaning of gitignore(5). Where several rules
// match, the first of these decides, and within each of them the last line:
//
//  1. patterns given by the caller, then files given by the caller, the last
//     file first; both relative to the root;
//  2. the ignore files of the directory of the entry, then those of its parent,
//     and so on up to the root: in each directory .snapignore, then .gitignore,
//     then .git/info/exclude.
//
// A rule with a leading "!" keeps what it matches. It cannot reach below a
// directory that is excluded: the walker never enters it.
//
// The two git files count only if [Options.Git] is set, and then as in git: the
// rules of a repository end where a repository inside it begins, and they touch
// neither an entry named .git nor anything below it. A .gitignore outside any
// repository counts too. The excludes file in the user's git configuration, and
// files above the root, do not.
//
// Names and patterns are bytes. Nothing folds case.
package ignore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// MaxFile is the size in bytes of the largest ignore file. A [ReadFile] need
// not read more than one byte beyond it.
const MaxFile = 1 << 20

// The rules that hold in one directory weigh at most maxWeight, a rule being
// its length and ruleWeight: 32,768 rules. Compiled they take up to 32 MiB: a
// set of bytes, "[a]", takes 36, anything else less than 10 for each byte of a
// pattern, and each rule about 250 besides.
const (
	maxWeight  = 2 << 20
	ruleWeight = 64
)

// ErrTooLarge says that an ignore file is larger than [MaxFile], or that the
// rules on the way from the root to a directory are too many to be held.
var ErrTooLarge = errors.New("ignore rules too large")

// PatternError names a pattern of the caller that can never match.
type PatternError struct {
	Source  string // name of the pattern file; empty for a pattern given directly
	Line    int    // from 1: line of the file, or number of the pattern
	Pattern string
	Err     error // what is wrong
}

func (e *PatternError) Error() string {
	return fmt.Sprintf("%s: %v", describe(e.Source, e.Line, e.Pattern), e.Err)
}

func (e *PatternError) Unwrap() error { return e.Err }

// Options are the rules that the caller gives. The zero value has none, and
// still honours .snapignore files.
type Options struct {
	// Patterns, each as one line of an ignore file in the root, except that a
	// leading "#" and trailing spaces are part of it.
	Patterns []string
	// Files of patterns, in the syntax of an ignore file in the root.
	Files []PatternFile
	// Git honours .gitignore and .git/info/exclude.
	Git bool
}

// PatternFile is a file of patterns given by the caller.
type PatternFile struct {
	Name    string // for messages
	Content []byte // at most MaxFile bytes
}

// Policy is what the caller asked for, compiled.
type Policy struct {
	rules       ruleList
	weight      int
	git         bool
	fingerprint string
}

// New compiles the rules of the caller. The error is a [*PatternError] for a
// pattern that can never match, or wraps [ErrTooLarge].
func New(o Options) (*Policy, error) {
	p := &Policy{git: o.Git, fingerprint: fingerprint(o)}
	for _, file := range o.Files {
		if len(file.Content) > MaxFile {
			return nil, fmt.Errorf("compile %s: %w", printable(file.Name), ErrTooLarge)
		}
		if err := p.add(linesOf(file.Content), file.Name); err != nil {
			return nil, err
		}
	}
	if err := p.add(given(o.Patterns), ""); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Policy) add(lines []line, source string) error {
	rules := make([]*rule, len(lines))
	for i, l := range lines {
		r, err := parseRule(l.pattern)
		if err != nil {
			return &PatternError{Source: source, Line: l.number, Pattern: l.pattern, Err: err}
		}
		r.text = describe(source, l.number, l.pattern)
		rules[i] = r
		p.weight += ruleWeight + len(l.pattern)
	}
	if p.weight > maxWeight {
		return fmt.Errorf("compile patterns: %w", ErrTooLarge)
	}
	p.rules = p.rules.with(rules)
	return nil
}

// Fingerprint changes whenever the rules of the caller or the switches change.
// The ignore files of the tree are no part of it.
func (p *Policy) Fingerprint() string { return p.fingerprint }

func fingerprint(o Options) string {
	h := sha256.New()
	put := func(s string) {
		h.Write(binary.AppendUvarint(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	put(fmt.Sprintf("ignore rules 1: git %t, %d patterns, %d files", o.Git, len(o.Patterns), len(o.Files)))
	for _, p := range o.Patterns {
		put(p)
	}
	for _, f := range o.Files {
		put(f.Name)
		put(string(f.Content))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// CacheDirTag is the name of the file that marks a directory as a cache.
const CacheDirTag = "CACHEDIR.TAG"

const cacheDirSignature = "Signature: 8a477f597d28d172789f06886806bc55"

// IsCacheDirTag says whether a regular file named [CacheDirTag] that begins
// with header marks its directory as a cache. The first 43 bytes of the file
// are enough. Source: Bryan Ford, "Cache Directory Tagging Specification",
// version 0.6.
func IsCacheDirTag(header []byte) bool {
	return len(header) >= len(cacheDirSignature) && string(header[:len(cacheDirSignature)]) == cacheDirSignature
}
