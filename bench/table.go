package main

import (
	"fmt"
	"time"

	"github.com/snapctl/snapctl/bench/measure"
)

// figure is a row of the results, as JSON has it.
type figure struct {
	Work  string          `json:"work"`
	Tools map[string]cost `json:"tools"`
	Goals []verdict       `json:"goals"`
}

// cost is what the work cost one tool.
type cost struct {
	Wall  float64 `json:"wall_s"`
	CPU   float64 `json:"cpu_s"`
	RSS   int64   `json:"peak_rss_bytes"`
	Bytes int64   `json:"bytes"` // stored or added
}

// verdict compares snapctl with a goal.
type verdict struct {
	Against string  `json:"against"`
	What    string  `json:"what"` // "wall" or "bytes"
	Ratio   float64 `json:"ratio"`
	Goal    float64 `json:"goal"`
}

func (b *bench) print(r row, tools []tool, samples map[string][]sample) {
	f := figure{Work: r.name, Tools: map[string]cost{}}
	fmt.Printf("\n%s\n", r.name)
	for _, t := range tools {
		c := costOf(samples[t.name])
		f.Tools[t.name] = c
		fmt.Printf("  %-9s %7.3f s wall %7.3f s cpu %s peak %10.3f MB\n", t.name, c.Wall, c.CPU, mebibytes(c.RSS), float64(c.Bytes)/1e6)
	}
	for _, g := range r.goals {
		f.Goals = append(f.Goals, judge(g, samples)...)
	}
	for _, v := range f.Goals {
		word := "reached"
		if v.Ratio > v.Goal {
			word = "not reached"
		}
		fmt.Printf("  %-5s / %-9s %5.2f x, goal %.2f x: %s\n", v.What, v.Against, v.Ratio, v.Goal, word)
	}
	b.figures = append(b.figures, f)
}

// mebibytes prints a peak, or that it is too small to tell.
func mebibytes(n int64) string {
	if n == 0 {
		return "  small    "
	}
	return fmt.Sprintf("%5d MiB", n>>20)
}

func costOf(samples []sample) cost {
	series := runs(samples)
	return cost{
		Wall:  series.Wall().Seconds(),
		CPU:   measure.Median(samples, func(s sample) time.Duration { return s.CPU }).Seconds(),
		RSS:   series.RSS(),
		Bytes: measure.Median(samples, func(s sample) int64 { return s.bytes }),
	}
}

func runs(samples []sample) measure.Series {
	var series measure.Series
	for _, s := range samples {
		series = append(series, s.Run)
	}
	return series
}

func judge(g goal, samples map[string][]sample) []verdict {
	ours, theirs := samples["snapctl"], samples[g.tool]
	if len(ours) == 0 || len(theirs) == 0 {
		return nil
	}
	var verdicts []verdict
	if g.wall > 0 {
		verdicts = append(verdicts, verdict{g.tool, "wall", measure.Ratio(runs(ours), runs(theirs)), g.wall})
	}
	if theirBytes := costOf(theirs).Bytes; g.bytes > 0 && theirBytes > 0 {
		verdicts = append(verdicts, verdict{g.tool, "bytes", float64(costOf(ours).Bytes) / float64(theirBytes), g.bytes})
	}
	return verdicts
}
