package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/snapctl/snapctl/bench/measure"
	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore/file"
)

// scale shows how cost grows: with the number of files, and with the number of
// snapshots in the repository. Only snapctl runs.
type scale struct {
	*bench
	tool tool
}

// growth is one line of the result.
type growth struct {
	Files     int     `json:"files"`
	Snapshots int     `json:"snapshots_before"`
	First     float64 `json:"first_s,omitempty"`
	NoChange  float64 `json:"no_change_s"`
	Edits     float64 `json:"twenty_edits_s"`
	Added     int64   `json:"bytes_added"`
	RSS       int64   `json:"peak_rss_bytes"`
}

func (b *bench) scale(ctx context.Context) error {
	s := scale{bench: b, tool: b.tools[0]}
	for _, files := range []int{10_000, 100_000, 1_000_000} {
		if err := s.files(ctx, files); err != nil {
			return err
		}
	}
	for _, snapshots := range []int{10, 10_000} {
		if err := s.snapshots(ctx, snapshots); err != nil {
			return err
		}
	}
	return nil
}

// files measures a tree of n files.
func (s scale) files(ctx context.Context, n int) error {
	dir, err := s.tree(n)
	if err != nil {
		return err
	}
	if err := s.tool.reset(ctx); err != nil {
		return err
	}
	first, err := s.tool.run(ctx, s.tool.save, dir, "")
	if err != nil {
		return err
	}
	g, err := s.again(ctx, dir)
	if err != nil {
		return err
	}
	g.Files, g.Snapshots, g.First, g.RSS = n, 1, first.Wall.Seconds(), max(g.RSS, first.RSS)
	s.show(g)
	return nil
}

// snapshots measures a tree of 10,000 files in a repository of n snapshots, each
// of which changed one file.
func (s scale) snapshots(ctx context.Context, n int) error {
	dir, err := s.tree(10_000)
	if err != nil {
		return err
	}
	if err := s.tool.reset(ctx); err != nil {
		return err
	}
	if _, err := s.tool.run(ctx, s.tool.save, dir, ""); err != nil {
		return err
	}
	if err := s.fill(ctx, n); err != nil {
		return err
	}
	g, err := s.again(ctx, dir)
	if err != nil {
		return err
	}
	g.Files, g.Snapshots = 10_000, n
	s.show(g)
	return nil
}

// fill adds n snapshots of a small workspace to the tool's repository.
func (s scale) fill(ctx context.Context, n int) error {
	small := filepath.Join(s.dir, "filler")
	if err := os.MkdirAll(small, 0o755); err != nil {
		return err
	}
	store, err := file.Open(s.tool.repo)
	if err != nil {
		return err
	}
	defer store.Close()
	identities, err := identitiesOf(s.tool)
	if err != nil {
		return err
	}
	repo, err := engine.Open(ctx, store, engine.OpenOptions{Credentials: engine.Credentials{Identities: identities}, StateDir: filepath.Join(s.dir, "filler-state")})
	if err != nil {
		return err
	}
	defer repo.Close()
	for i := range n {
		if err := os.WriteFile(filepath.Join(small, "counter"), fmt.Appendf(nil, "%d", i), 0o644); err != nil {
			return err
		}
		if _, err := repo.Snapshot(ctx, engine.SnapshotOptions{Path: small}); err != nil {
			return err
		}
	}
	return nil
}

// again measures snapshots without a change and with twenty edits.
func (s scale) again(ctx context.Context, dir string) (growth, error) {
	var same, edited measure.Series
	var added []int64
	for i := range s.runs {
		run, err := s.tool.run(ctx, s.tool.save, dir, "")
		if err != nil {
			return growth{}, err
		}
		same = append(same, run)
		for j := range 20 {
			path := filepath.Join(dir, fmt.Sprintf("d%04d", j), "f000")
			if err := os.WriteFile(path, fmt.Appendf(nil, "edit %d %d", i, j), 0o644); err != nil {
				return growth{}, err
			}
		}
		before := s.tool.stored()
		if run, err = s.tool.run(ctx, s.tool.save, dir, ""); err != nil {
			return growth{}, err
		}
		edited = append(edited, run)
		added = append(added, s.tool.stored()-before)
	}
	return growth{
		NoChange: same.Wall().Seconds(), Edits: edited.Wall().Seconds(), RSS: max(same.RSS(), edited.RSS()),
		Added: measure.Median(added, func(n int64) int64 { return n }),
	}, nil
}

// tree makes a tree of n small files, 100 in a directory.
func (s scale) tree(n int) (string, error) {
	dir := filepath.Join(s.dir, "scale")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	for i := range n {
		parent := filepath.Join(dir, fmt.Sprintf("d%04d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(parent, 0o755); err != nil {
				return "", err
			}
		}
		path := filepath.Join(parent, fmt.Sprintf("f%03d", i%100))
		if err := os.WriteFile(path, fmt.Appendf(nil, "file %d of a tree that shows how cost grows\n", i), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func (s scale) show(g growth) {
	s.growth = append(s.growth, g)
	fmt.Printf("%9d files %6d snapshots: first %7.3f s, no change %7.3f s, 20 edits %7.3f s and %8.3f MB, peak %d MiB\n",
		g.Files, g.Snapshots, g.First, g.NoChange, g.Edits, float64(g.Added)/1e6, g.RSS>>20)
}
