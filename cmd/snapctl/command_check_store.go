package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore/probe"
)

// errNotOnline says that a store is not good enough for collections beside
// writers.
var errNotOnline = errors.New("the store does not guarantee what a collection beside writers needs")

func (c *cli) checkStore(ctx context.Context) error {
	return c.withStore(ctx, func(store backing, repo *engine.Repository) error {
		c.talk.begin("try what the store guarantees")
		report, err := repo.Probe(ctx)
		c.talk.done()
		if err != nil {
			return err
		}
		p := c.printer()
		for _, g := range report.Guarantees {
			if err := p.print(guaranteeReport{Type: "guarantee", Guarantee: g}); err != nil {
				return err
			}
		}
		summary := storeSummary{Type: "summary", Online: report.Online(), LeftBehind: report.LeftBehind}
		if dir, ok := store.(directory); ok {
			summary.Filesystem, summary.Cached = dir.FilesystemType()
		}
		c.sayGuarantees(report)
		if summary.Cached {
			c.talk.warn("the directory is on %s: other machines may see old listings, which one machine cannot try", summary.Filesystem)
		}
		if err := p.print(summary); err != nil {
			return err
		}
		if !report.Online() {
			return &hinted{errNotOnline, "snapshots and restores work; use another store, or collect only while nobody writes"}
		}
		return nil
	})
}

// sayGuarantees tells what a store lacks.
func (c *cli) sayGuarantees(r probe.Report) {
	held := 0
	for _, g := range r.Guarantees {
		if g.Held {
			held++
			continue
		}
		c.talk.warn("the store does not guarantee %s (%s): %s", g.Name, g.Detail, g.Consequence)
	}
	for _, key := range r.LeftBehind {
		c.talk.warn("the object %s of the probe could not be removed", key)
	}
	c.talk.say("the store guarantees %d of %d things that were tried", held, len(r.Guarantees))
}

type guaranteeReport struct {
	Type string `json:"type"`
	probe.Guarantee
}

func (r guaranteeReport) text(w *bufio.Writer) {
	word := "holds"
	if !r.Held {
		word = "FAILS"
	}
	fmt.Fprintf(w, "%-18s %s  %s\n", r.Name, word, printable(r.Detail))
}

type storeSummary struct {
	Type       string   `json:"type"`
	Online     bool     `json:"online"` // good enough for collections beside writers
	Filesystem string   `json:"filesystem,omitempty"`
	Cached     bool     `json:"cached_listings,omitempty"` // by the filesystem
	LeftBehind []string `json:"left_behind,omitempty"`
}

func (storeSummary) text(*bufio.Writer) {}
