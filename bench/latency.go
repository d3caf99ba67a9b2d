package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/snapctl/snapctl/bench/link"
	"github.com/snapctl/snapctl/bench/measure"
	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore/s3"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

// roundTrip is what each request over the slow link takes longer.
const roundTrip = 30 * time.Millisecond

// tiny measures snapshots of one edited file of 1,000 over the slow link: by a new
// process each, and in a repository that stays open.
func (s *overS3) tiny(ctx context.Context) error {
	tree, err := scale{bench: s.bench}.tree(1000)
	if err != nil {
		return err
	}
	if s, err = s.beside(ctx, "tiny"); err != nil {
		return err
	}
	if _, err := s.snapctl.run(ctx, s.snap("snapshot", tree), "", ""); err != nil {
		return err
	}
	s.link.Reset(roundTrip, 0)
	defer s.link.Reset(0, 0)
	if err := s.tinyProcesses(ctx, tree); err != nil {
		return err
	}
	return s.tinyOpen(ctx, tree)
}

// beside is the same bench with a new repository in the bucket.
func (s *overS3) beside(ctx context.Context, prefix string) (*overS3, error) {
	other := *s
	other.bucket = s.at(prefix)
	_, err := s.snapctl.run(ctx, other.snap("init"), "", "")
	return &other, err
}

func edit(tree string, n int) error {
	return os.WriteFile(filepath.Join(tree, "d0000", "f000"), fmt.Appendf(nil, "edit %d", n), 0o644)
}

func (s *overS3) tinyProcesses(ctx context.Context, tree string) error {
	var changed, same samples
	for n := range s.runs + 1 {
		if err := edit(tree, n); err != nil {
			return err
		}
		run, counts, err := s.counted(ctx, s.snapctl, s.snap("snapshot", tree), "")
		if err != nil {
			return err
		}
		again, againN, err := s.counted(ctx, s.snapctl, s.snap("snapshot", tree, "--skip-unchanged"), "")
		if err != nil {
			return err
		}
		if n > 0 {
			changed.add(run, counts)
			same.add(again, againN)
		}
	}
	s.compare("one edit at 30 ms, new process", changed.pair(), 0)
	s.compare("no change at 30 ms, --skip-unchanged, new process", same.pair(), 0)
	return nil
}

// samples are runs of one command. Some of them may also have merged segments of the
// index, so the counts too are those of the median.
type samples struct {
	runs   measure.Series
	counts []link.Counts
}

func (s *samples) add(run measure.Run, counts link.Counts) {
	s.runs, s.counts = append(s.runs, run), append(s.counts, counts)
}

func (s *samples) pair() pair {
	slices.SortFunc(s.counts, func(a, b link.Counts) int { return a.Total() - b.Total() })
	return pair{ours: s.runs, ourN: s.counts[(len(s.counts)-1)/2]}
}

// tinyOpen does the same as a program that embeds the engine.
func (s *overS3) tinyOpen(ctx context.Context, tree string) (err error) {
	opts, err := s3.ParseURL(s.bucket)
	if err != nil {
		return err
	}
	opts.Credentials = s3.StaticCredentials(accessKey, secretKey, "")
	under, err := s3.Open(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, under.Close()) }()
	identities, err := identitiesOf(s.snapctl)
	if err != nil {
		return err
	}
	repo, err := engine.Open(ctx, transport.New(under, transport.Options{Bulk: []string{"packs/"}}), engine.OpenOptions{
		Credentials: engine.Credentials{Identities: identities}, StateDir: filepath.Join(s.dir, "open-state"),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	var changed, same samples
	for n := range s.runs + 1 {
		if err := edit(tree, -n-1); err != nil {
			return err
		}
		run, counts, err := s.timedSnapshot(ctx, repo, engine.SnapshotOptions{Path: tree})
		if err != nil {
			return err
		}
		again, againN, err := s.timedSnapshot(ctx, repo, engine.SnapshotOptions{Path: tree, SkipUnchanged: true})
		if err != nil {
			return err
		}
		if n > 0 {
			changed.add(run, counts)
			same.add(again, againN)
		}
	}
	s.compare("one edit at 30 ms, open repository", changed.pair(), 0)
	s.compare("no change at 30 ms, --skip-unchanged, open repository", same.pair(), 0)
	return nil
}

func (s *overS3) timedSnapshot(ctx context.Context, repo *engine.Repository, opts engine.SnapshotOptions) (measure.Run, link.Counts, error) {
	before, start := s.link.Counts(), time.Now()
	_, err := repo.Snapshot(ctx, opts)
	return measure.Run{Wall: time.Since(start)}, s.link.Counts().Since(before), err
}

// smallFiles measures the restore of 20,000 files of 1 KiB of noise over the slow
// link, by a machine that has nothing of them.
func (s *overS3) smallFiles(ctx context.Context) error {
	tree, err := noisyTree(filepath.Join(s.dir, "noise"), 20_000)
	if err != nil {
		return err
	}
	if s, err = s.beside(ctx, "noise"); err != nil {
		return err
	}
	if _, err := s.snapctl.run(ctx, s.snap("snapshot", tree), "", ""); err != nil {
		return err
	}
	s.link.Reset(roundTrip, 0)
	defer s.link.Reset(0, 0)
	var cold pair
	for n := range s.runs + 1 {
		run, counts, err := s.restore(ctx, s.snapctl, s.snap("restore", "latest", "$TO"), coldCache)
		if err != nil {
			return err
		}
		if n > 0 {
			cold.ours, cold.ourN = append(cold.ours, run), counts
		}
	}
	s.compare("restore of 20,000 files of 1 KiB at 30 ms, cold machine", cold, 0)
	return os.RemoveAll(tree)
}

// noisyTree makes a tree of n files of 1 KiB that do not compress, 100 in a directory.
func noisyTree(dir string, n int) (string, error) {
	random := rand.NewChaCha8([32]byte{})
	content := make([]byte, 1<<10)
	for i := range n {
		parent := filepath.Join(dir, fmt.Sprintf("d%03d", i/100))
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return "", err
		}
		random.Read(content) // never fails
		if err := os.WriteFile(filepath.Join(parent, fmt.Sprintf("f%02d", i%100)), content, 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}
