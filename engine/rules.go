package engine

import (
	"github.com/snapctl/snapctl/engine/workspace"
	"github.com/snapctl/snapctl/engine/workspace/ignore"
)

// rules let a walk ask an ignore policy.
type rules struct {
	policy *ignore.Policy
	dir    *ignore.Dir // nil above the root
}

func newRules(opts SnapshotOptions) (rules, error) {
	policy, err := ignore.New(ignore.Options{Patterns: opts.Exclude, Git: opts.GitIgnore})
	return rules{policy: policy}, err
}

// Enter implements workspace.Rules.
func (r rules) Enter(name string, read workspace.ReadFile) (workspace.Rules, error) {
	var err error
	if r.dir == nil {
		r.dir, err = r.policy.Root(ignore.ReadFile(read))
	} else {
		r.dir, err = r.dir.Enter(name, ignore.ReadFile(read))
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Excluded implements workspace.Rules.
func (r rules) Excluded(name string, dir bool) (string, bool) { return r.dir.Excluded(name, dir) }
