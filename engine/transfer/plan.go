package transfer

import (
	"context"
	"slices"
	"sync"

	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/manifest"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Plan is what a copy would have to do.
type Plan struct {
	Blobs uint64
	Bytes uint64 // of plaintext
}

// Survey tells what Copy would copy from the roots. has tells whether the target
// has a blob; it is asked by one goroutine at a time. Memory: 50 bytes for each blob that
// is missing and for each tree node.
func Survey(ctx context.Context, from *fetch.Fetcher, has func(blob.ID) (bool, error), roots ...blob.ID) (Plan, error) {
	s := survey{from: from, has: has, seen: map[blob.ID]struct{}{}}
	for _, root := range roots {
		s.meet(root)
	}
	for len(s.frontier) > 0 {
		if err := s.round(ctx); err != nil {
			return s.plan, err
		}
	}
	return s.plan, nil
}

type survey struct {
	from     *fetch.Fetcher
	has      func(blob.ID) (bool, error)
	plan     Plan
	seen     map[blob.ID]struct{} // tree nodes, and data blobs that are missing
	frontier []blob.ID
}

func (s *survey) meet(id blob.ID) {
	if _, ok := s.seen[id]; ok || id.IsZero() {
		return
	}
	s.seen[id] = struct{}{}
	s.frontier = append(s.frontier, id)
}

// round reads some tree nodes of the frontier.
func (s *survey) round(ctx context.Context) error {
	n := max(0, len(s.frontier)-maxNodes)
	ids := slices.Clone(s.frontier[n:])
	s.frontier = s.frontier[:n]
	var mu sync.Mutex // guards s
	return s.from.Blobs(ctx, blob.Tree, ids, func(i int, node []byte, err error) error {
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return s.enter(ctx, ids[i], node)
	})
}

func (s *survey) enter(ctx context.Context, id blob.ID, node []byte) error {
	if err := s.want(id, uint64(len(node))); err != nil {
		return err
	}
	trees, data, err := manifest.References(node)
	if err != nil {
		return err
	}
	for _, tree := range trees {
		s.meet(tree)
	}
	for _, id := range data {
		if _, ok := s.seen[id]; ok {
			continue
		}
		length, err := s.from.Bytes(ctx, blob.Data, []blob.ID{id})
		if err != nil {
			return err
		}
		if err := s.want(id, length); err != nil {
			return err
		}
	}
	return nil
}

// want counts a blob if the target lacks it.
func (s *survey) want(id blob.ID, length uint64) error {
	known, err := s.has(id)
	if err == nil && !known {
		s.seen[id] = struct{}{}
		s.plan.Blobs++
		s.plan.Bytes += length
	}
	return err
}
