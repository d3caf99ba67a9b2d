package main

import (
	"github.com/spf13/pflag"
)

// globalOptions are the options of every command.
type globalOptions struct {
	repo     string
	stateDir string
	json     bool
	quiet    bool
	verbose  bool
	network  networkOptions
	keys     keyOptions
}

func (o *globalOptions) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.repo, "repo", "r", "", "`path` or s3:// URL of the repository ($"+envRepo+")")
	f.StringVar(&o.stateDir, "state-dir", "", "`dir` of local state, which can be rebuilt at any time ($"+envStateDir+")")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "say only what went wrong")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say more")
	o.network.addFlags(f)
	o.keys = keyOptions{prefix: ""}
	o.keys.addFlags(f)
}
