package restore

import (
	"context"
	"fmt"
	"strings"

	"github.com/snapctl/snapctl/engine/manifest"
)

// selection is the chosen part of a directory: the whole, or some names.
type selection struct {
	whole bool
	below map[string]*selection
}

// parsePaths reads Options.Paths. No path chooses everything.
func parsePaths(paths []string) (*selection, error) {
	root := &selection{whole: len(paths) == 0}
	for _, path := range paths {
		s := root
		for name := range strings.SplitSeq(path, "/") {
			if name == "" || name == "." {
				continue
			}
			if err := manifest.CheckName(name); err != nil {
				return nil, &Error{Op: "restore", Path: path, Err: err}
			}
			s = s.add(name)
		}
		s.whole = true
	}
	return root, nil
}

func (s *selection) add(name string) *selection {
	if s.below == nil {
		s.below = make(map[string]*selection)
	}
	if s.below[name] == nil {
		s.below[name] = new(selection)
	}
	return s.below[name]
}

// of is what is chosen of an entry; nil if nothing.
func (s *selection) of(name string) *selection {
	if s.whole {
		return s
	}
	return s.below[name]
}

// has tells whether the entry at path is chosen.
func (s *selection) has(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if s = s.of(name); s == nil {
			return false
		}
	}
	return s.whole
}

// check fails if a chosen path is not in the snapshot.
func (s *selection) check(ctx context.Context, get manifest.GetNode, root manifest.Entry, paths []string) error {
	for _, path := range paths {
		if _, err := manifest.Lookup(ctx, get, root, path); err != nil {
			return fmt.Errorf("find %q: %w", path, err)
		}
	}
	return nil
}
