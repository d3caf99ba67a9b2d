// Package measure runs commands and says what each cost: wall time, processor
// time and peak memory as the kernel accounts for them.
package measure

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// Run is what one command cost.
type Run struct {
	Wall time.Duration
	CPU  time.Duration // user and system, of the process and its children
	RSS  int64         // peak of the process, bytes; 0 if it was below that of this program
}

// Command runs a command to its end. Its output is kept only for the error.
func Command(ctx context.Context, env []string, name string, args ...string) (Run, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	start := time.Now()
	err := cmd.Run()
	run := Run{Wall: time.Since(start)}
	if err != nil {
		return run, fmt.Errorf("%s %q: %w: %s", name, args, err, tail(output.Bytes()))
	}
	state := cmd.ProcessState
	run.CPU = state.UserTime() + state.SystemTime()
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		run.RSS = above(usage.Maxrss)
	}
	return run, nil
}

// above returns a peak in bytes, or 0 if it may not be the child's: a new process
// starts with the memory of its parent, and Linux keeps that peak over exec.
func above(kib int64) int64 {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil || kib <= own.Maxrss {
		return 0
	}
	return kib << 10
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

// Series collects the runs of one command.
type Series []Run

// Wall returns the median wall time.
func (s Series) Wall() time.Duration {
	return Median(s, func(r Run) time.Duration { return r.Wall })
}

// RSS returns the largest peak memory in bytes.
func (s Series) RSS() int64 {
	peak := int64(0)
	for _, r := range s {
		peak = max(peak, r.RSS)
	}
	return peak
}

// Ratio returns the median of the ratios of wall times, run by run: both series
// ran in turn, so that a slow moment of the machine hits both.
func Ratio(s, reference Series) float64 {
	ratios := make([]float64, 0, len(s))
	for i := range min(len(s), len(reference)) {
		ratios = append(ratios, float64(s[i].Wall)/float64(reference[i].Wall))
	}
	return Median(ratios, func(x float64) float64 { return x })
}

// Median returns the middle value, the lower one of two. Zero of no values.
func Median[T any, V int64 | float64 | time.Duration](values []T, of func(T) V) V {
	if len(values) == 0 {
		return 0
	}
	sorted := make([]V, len(values))
	for i, v := range values {
		sorted[i] = of(v)
	}
	slices.Sort(sorted)
	return sorted[(len(sorted)-1)/2]
}
