package ignore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"
)

const (
	snapIgnore = ".snapignore"
	gitIgnore  = ".gitignore"
	gitExclude = ".git/info/exclude"
	gitHead    = ".git/HEAD"
	gitEntry   = ".git"
)

// ReadFile returns the content of a regular file of the directory that is being
// entered. The name is a single component, .git/HEAD or .git/info/exclude.
// Symbolic links are not followed anywhere in it. What does not exist or is not
// a regular file is [fs.ErrNotExist]; a walker that has listed the directory
// answers most calls from its list.
type ReadFile func(name string) ([]byte, error)

// Dir holds the rules for the entries of one directory. It is immutable.
type Dir struct {
	policy *Policy
	parent *Dir // nil at the root
	name   string
	caller ruleList
	tree   ruleList
	weight int  // of all rules, at most maxWeight
	inGit  bool // a .git directory or below
}

// Root reads the ignore files of the root. Errors as from [Dir.Enter].
func (p *Policy) Root(readFile ReadFile) (*Dir, error) {
	root := &Dir{policy: p, caller: p.rules, weight: p.weight}
	return root.read(readFile)
}

// Enter returns the rules for the subdirectory of this name. It calls readFile
// once, or up to four times with [Options.Git]. An ignore file that cannot be
// read is an error, since to go on without its rules would store what it
// excludes; so are too many rules ([ErrTooLarge]). A line that git takes for
// nonsense is ignored.
//
// Without rules a call costs one allocation of 160 bytes.
func (d *Dir) Enter(name string, readFile ReadFile) (*Dir, error) {
	sub := &Dir{
		policy: d.policy,
		parent: d,
		name:   name,
		caller: d.caller.enter(name),
		tree:   d.tree.enter(name),
		weight: d.weight,
		inGit:  d.inGit,
	}
	if d.policy.git && name == gitEntry {
		sub.inGit = true
		sub.tree = sub.tree.withoutGit()
	}
	return sub.read(readFile)
}

// Excluded says whether the entry of this name is left out, and by which rule,
// as in ".gitignore:3: *.log" with the path of the file below the root. A
// symbolic link is not a directory. The time is at most proportional to the
// length of the rules times that of the name.
func (d *Dir) Excluded(name string, isDir bool) (rule string, excluded bool) {
	if d.caller.empty() && d.tree.empty() {
		return "", false
	}
	e := entry{name: name, dir: isDir, protected: name == gitEntry}
	r := d.caller.last(e)
	if r == nil {
		r = d.tree.last(e)
	}
	if r == nil || r.negated {
		return "", false
	}
	return r.text, true
}

func (d *Dir) read(readFile ReadFile) (*Dir, error) {
	if d.policy.git && !d.inGit {
		if err := d.readGit(readFile); err != nil {
			return nil, err
		}
	}
	if err := d.readRules(snapIgnore, fromSnap, readFile); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Dir) readGit(readFile ReadFile) error {
	head, err := d.readFile(gitHead, readFile)
	if err != nil {
		return err
	}
	var link []byte
	if head == nil {
		// In a linked work tree or a submodule .git is a file. It names a directory
		// that is usually outside the tree, so its info/exclude is not looked for.
		if link, err = d.readFile(gitEntry, readFile); err != nil {
			return err
		}
	}
	if head != nil || bytes.HasPrefix(link, []byte("gitdir: ")) {
		d.tree = d.tree.withoutGit()
	}
	if head != nil {
		if err := d.readRules(gitExclude, fromGit, readFile); err != nil {
			return err
		}
	}
	return d.readRules(gitIgnore, fromGit, readFile)
}

func (d *Dir) readRules(name string, o origin, readFile ReadFile) error {
	content, err := d.readFile(name, readFile)
	if err != nil || content == nil {
		return err
	}
	source := path.Join(d.path(), name)
	var rules []*rule
	for _, l := range linesOf(content) {
		r, err := parseRule(l.pattern)
		if err != nil {
			continue // as git does
		}
		if d.weight += ruleWeight + len(l.pattern); d.weight > maxWeight {
			return fmt.Errorf("read %s: %w", printable(source), ErrTooLarge)
		}
		r.origin = o
		r.text = describe(source, l.number, l.pattern)
		rules = append(rules, r)
	}
	d.tree = d.tree.with(rules)
	return nil
}

// readFile returns nil for a file that does not exist.
func (d *Dir) readFile(name string, readFile ReadFile) ([]byte, error) {
	content, err := readFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, nil
	case err == nil && len(content) > MaxFile:
		err = ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", printable(path.Join(d.path(), name)), err)
	}
	return content, nil
}

// path is the path of the directory below the root.
func (d *Dir) path() string {
	if d.parent == nil {
		return ""
	}
	return path.Join(d.parent.path(), d.name)
}
