// Command bench measures snapctl beside restic, kopia, tar and find on the same
// work in the same run, and prints a table and JSON.
//
//	go run ./bench -size small           about a minute, no network
//	go run ./bench -size full -runs 5    the workspaces that docs/benchmarks.md shows
//	go run ./bench -size scale           how cost grows with files and snapshots
//	go run ./bench -size collect         forgetting and collecting, beside restic
//	go run ./bench -size s3              a bucket on this machine, behind a slow link
//
// Workspaces and repositories lie in a folder of their own, by default on
// tmpfs, so that the disk is not what is measured. Every row interleaves the
// tools, A B A B; the first run warms up and is dropped; figures are medians, and
// ratios are medians of the ratios of each run.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	size    string
	runs    int
	dir     string
	sets    string
	snapctl string
	only    string
	json    string
}

func parseFlags() options {
	var o options
	flag.StringVar(&o.size, "size", "small", "small, full, scale, collect or s3")
	flag.IntVar(&o.runs, "runs", 5, "measured runs of every command")
	flag.StringVar(&o.dir, "dir", "/dev/shm/snapctl-bench", "where to work; removed in the end")
	flag.StringVar(&o.sets, "sets", "bench/out/sets", "where the workspaces are, or are built")
	flag.StringVar(&o.snapctl, "snapctl", "bin/snapctl", "the binary")
	flag.StringVar(&o.only, "only", "", "run only the rows, or the parts of s3, that match this regular expression")
	flag.StringVar(&o.json, "json", "bench/out/bench.json", "where to write the figures")
	flag.Parse()
	return o
}

func run(ctx context.Context) error {
	o := parseFlags()
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	snapctl, err := filepath.Abs(o.snapctl)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(o.dir)
	b := bench{runs: o.runs, dir: o.dir, sets: o.sets, tools: installed(ctx, snapctl, o.dir)}
	b.describe(os.Stdout, o.size)
	switch o.size {
	case "s3":
		return b.s3(ctx, only)
	case "collect":
		return b.collect(ctx)
	case "scale":
		if err := b.scale(ctx); err != nil {
			return err
		}
		return b.writeJSON(o.json)
	}
	for _, row := range rows(o.size) {
		if !only.MatchString(row.name) {
			continue
		}
		if err := b.measure(ctx, row); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	return b.writeJSON(o.json)
}

func (b *bench) describe(out *os.File, size string) {
	fmt.Fprintf(out, "%s %s/%s, %d processors, size %s, medians of %d runs\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), size, b.runs)
	for _, t := range b.tools {
		fmt.Fprintf(out, "  %-9s %s\n", t.name, t.version)
	}
}

func (b *bench) writeJSON(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(map[string]any{"go": runtime.Version(), "processors": runtime.NumCPU(), "runs": b.runs, "rows": b.figures, "growth": b.growth}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
