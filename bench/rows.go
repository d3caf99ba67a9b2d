package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/snapctl/snapctl/bench/measure"
)

// row is one line of the table: a piece of work that several tools do.
type row struct {
	name   string
	set    string // the workspace
	tools  []string
	change string // mutation before each run; empty: none
	work   work
	// goals are bounds on the ratio of snapctl to another tool.
	goals []goal
}

type goal struct {
	tool  string
	wall  float64 // 0: none
	bytes float64 // stored or added; 0: none
}

// work says what is measured.
type work int

const (
	firstSave work = iota // into an empty repository
	nextSave              // after a first one
	fullRestore
	restoreOver // over a restored tree that was then changed
	verifyAll
	secondTree // another workspace, mostly the same
)

// rows are the lines of the table for a size.
func rows(size string) []row {
	node, big := "ws-node", "ws-big"
	if size == "small" {
		node, big = "small", ""
	}
	table := []row{
		{name: "first snapshot, " + node, set: node, work: firstSave, tools: []string{"snapctl", "restic", "kopia", "tar|zstd"},
			goals: []goal{{tool: "restic", wall: 0.30, bytes: 0.86}, {tool: "tar|zstd", wall: 1.0}}},
		{name: "no change, " + node, set: node, work: nextSave, tools: []string{"snapctl", "restic", "kopia", "find"},
			goals: []goal{{tool: "restic", wall: 0.10}, {tool: "kopia", wall: 0.33}, {tool: "find", wall: 1.3}}},
		{name: "20 small edits, " + node, set: node, work: nextSave, change: "edits", tools: []string{"snapctl", "restic", "kopia"},
			goals: []goal{{tool: "restic", wall: 0.12, bytes: 0.6}}},
		{name: "full restore, " + node, set: node, work: fullRestore, tools: []string{"snapctl", "restic", "tar"},
			goals: []goal{{tool: "tar", wall: 0.8}}},
		{name: "restore over 20 edits, " + node, set: node, work: restoreOver, change: "edits", tools: []string{"snapctl", "restic"},
			goals: []goal{{tool: "restic", wall: 0.10}}},
		{name: "read and verify everything, " + node, set: node, work: verifyAll, tools: []string{"snapctl", "restic"},
			goals: []goal{{tool: "restic", wall: 0.6}}},
		{name: "second workspace, 95 percent the same, " + node, set: node, work: secondTree, change: "share95", tools: []string{"snapctl", "restic", "kopia"},
			goals: []goal{{tool: "restic", wall: 0.5, bytes: 0.7}}},
	}
	if big == "" {
		return table
	}
	return append(table,
		row{name: "first snapshot, ws-src", set: "ws-src", work: firstSave, tools: []string{"snapctl", "restic", "tar|zstd"}},
		row{name: "first snapshot, " + big, set: big, work: firstSave, tools: []string{"snapctl", "restic", "tar|zstd"},
			goals: []goal{{tool: "restic", wall: 0.45}, {tool: "tar|zstd", wall: 1.0}}},
		row{name: "one edit in a large file, " + big, set: big, work: nextSave, change: "big", tools: []string{"snapctl", "restic"},
			goals: []goal{{tool: "restic", wall: 0.8, bytes: 1.0}}})
}

// bench is one run of the program.
type bench struct {
	runs    int
	dir     string // scratch
	sets    string
	tools   []tool
	figures []figure
	growth  []growth
}

// sample is one measured command and what it added to the repository.
type sample struct {
	measure.Run
	bytes int64
}

// measure runs a row and prints it.
func (b *bench) measure(ctx context.Context, r row) error {
	tools := slices.DeleteFunc(slices.Clone(b.tools), func(t tool) bool { return !slices.Contains(r.tools, t.name) })
	workspace, err := b.workspace(ctx, r.set)
	if err != nil {
		return err
	}
	samples := map[string][]sample{}
	for n := range b.runs + 1 {
		current := workspace
		if r.change != "" && r.work != restoreOver {
			if current, err = b.changed(ctx, workspace, r, uint64(n)); err != nil {
				return err
			}
		}
		for _, t := range tools {
			s, err := b.once(ctx, t, r, workspace, current, n)
			if err != nil {
				return err
			}
			if n > 0 { // the first run warms up
				samples[t.name] = append(samples[t.name], s)
			}
		}
	}
	b.print(r, tools, samples)
	return nil
}

// workspace copies a set onto the scratch filesystem.
func (b *bench) workspace(ctx context.Context, set string) (string, error) {
	build := exec.CommandContext(ctx, "bench/datasets/build.sh", b.sets, set)
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", set, err)
	}
	to := filepath.Join(b.dir, "workspaces", set)
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	if err := os.RemoveAll(filepath.Dir(to)); err != nil { // one set at a time: memory
		return "", err
	}
	return to, copyTree(ctx, filepath.Join(b.sets, set), to)
}

func copyTree(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}

// changed applies the row's mutation. A second workspace is a copy at another
// path; otherwise the changes pile up in a copy that all tools share.
func (b *bench) changed(ctx context.Context, workspace string, r row, seed uint64) (string, error) {
	to := workspace + "-changed"
	if r.work == secondTree || seed == 0 {
		if err := os.RemoveAll(to); err != nil {
			return "", err
		}
		if err := copyTree(ctx, workspace, to); err != nil {
			return "", err
		}
	}
	if seed == 0 && r.work == nextSave {
		return to, nil // the state that the first snapshot takes
	}
	return to, mutations[r.change](to, seed)
}

// once prepares and measures one command of one tool.
func (b *bench) once(ctx context.Context, t tool, r row, workspace, current string, n int) (sample, error) {
	target := filepath.Join(b.dir, "target-"+t.name)
	switch r.work {
	case firstSave:
		if err := t.reset(ctx); err != nil {
			return sample{}, err
		}
		return b.timed(ctx, t, t.save, workspace, target)
	case nextSave:
		if n == 0 {
			return b.prepared(ctx, t, current)
		}
		return b.timed(ctx, t, t.save, current, target)
	case secondTree:
		if _, err := b.prepared(ctx, t, workspace); err != nil {
			return sample{}, err
		}
		return b.timed(ctx, t, t.save, current, target)
	case fullRestore:
		return b.restored(ctx, t, workspace, target, n)
	case restoreOver:
		return b.restoredOver(ctx, t, r, workspace, target, n)
	}
	if n == 0 {
		return b.prepared(ctx, t, workspace)
	}
	return b.timed(ctx, t, t.verify, workspace, target)
}

// prepared makes a repository with one snapshot.
func (b *bench) prepared(ctx context.Context, t tool, workspace string) (sample, error) {
	if err := t.reset(ctx); err != nil {
		return sample{}, err
	}
	return b.timed(ctx, t, t.save, workspace, "")
}

func (b *bench) restored(ctx context.Context, t tool, workspace, target string, n int) (sample, error) {
	if n == 0 {
		if s, err := b.prepared(ctx, t, workspace); err != nil {
			return s, err
		}
	}
	if err := b.emptyTarget(t, target); err != nil {
		return sample{}, err
	}
	s, err := b.timed(ctx, t, t.restore, workspace, target)
	if n == b.runs {
		os.RemoveAll(target) // scratch: the whole folder goes in the end
	}
	return s, err
}

// emptyTarget leaves no target for tools that make it, an empty one for others.
func (b *bench) emptyTarget(t tool, target string) error {
	if err := os.RemoveAll(target); err != nil || t.name == "snapctl" {
		return err
	}
	return os.MkdirAll(target, 0o755)
}

func (b *bench) restoredOver(ctx context.Context, t tool, r row, workspace, target string, n int) (sample, error) {
	if n == 0 {
		return b.restored(ctx, t, workspace, target, n)
	}
	tree := target
	if t.name == "restic" { // it restores the absolute path below the target
		tree = filepath.Join(target, workspace)
	}
	if t.restoreOver != nil {
		if err := mutations[r.change](tree, uint64(n)); err != nil {
			return sample{}, err
		}
	}
	command := t.restoreOver
	if command == nil {
		if err := b.emptyTarget(t, target); err != nil {
			return sample{}, err
		}
		command = t.restore
	}
	s, err := b.timed(ctx, t, command, workspace, target)
	if n == b.runs {
		os.RemoveAll(target)
	}
	return s, err
}

func (b *bench) timed(ctx context.Context, t tool, command []string, workspace, target string) (sample, error) {
	before := t.stored()
	run, err := t.run(ctx, command, workspace, target)
	return sample{Run: run, bytes: t.stored() - before}, err
}
