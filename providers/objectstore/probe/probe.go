// Package probe finds out by trying what an object store really guarantees.
// Stores that call themselves compatible accept a conditional put and ignore
// the condition, check it and then act, or list what they were given a minute
// later; none of them says so.
//
// A probe can refute a guarantee, not prove it: what failed was seen to fail,
// what held did so in some hundreds of requests within a few seconds, made by
// one process. What other machines see through caches of their own, it cannot
// tell. Listings of more than one page are not tried either.
package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Name names a guarantee.
type Name string

// The guarantees. The first four are those that snapshots and collections
// beside them rest on; see package objectstore.
const (
	ReadAfterWrite Name = "read-after-write"
	ListAfterWrite Name = "list-after-write"
	ListAfterKey   Name = "list-after-key"
	PutIfAbsent    Name = "put-if-absent"

	PutIfMatch     Name = "put-if-match"
	Overwrite      Name = "overwrite"
	DeleteThenList Name = "delete-then-list"
	Ranges         Name = "ranges"
)

// Guarantee is what was found out about one of them.
type Guarantee struct {
	Name        Name   `json:"name"`
	Held        bool   `json:"held"`
	Detail      string `json:"detail"`      // what was seen, for people
	Consequence string `json:"consequence"` // what its lack means for a repository
}

// Report is the outcome of a probe.
type Report struct {
	Guarantees []Guarantee `json:"guarantees"` // each once, in the order of the constants

	// LeftBehind are the keys of objects that could not be deleted again, and of
	// such as may be there because their put was not answered.
	LeftBehind []string `json:"left_behind,omitempty"`
}

// Held says whether a guarantee was probed and held.
func (r Report) Held(name Name) bool {
	return slices.ContainsFunc(r.Guarantees, func(g Guarantee) bool { return g.Name == name && g.Held })
}

// Online says whether the five guarantees held that let snapshots be taken
// while a collection runs.
func (r Report) Online() bool {
	return r.Held(ReadAfterWrite) && r.Held(ListAfterWrite) && r.Held(ListAfterKey) && r.Held(PutIfAbsent) && r.Held(Overwrite)
}

// cleanUpTime bounds the deletes after a probe, which are made even if its
// context has ended.
const cleanUpTime = 30 * time.Second

// prober is one probe.
type prober struct {
	store objectstore.Store
	base  string // of all keys

	mu   sync.Mutex      // guards made
	made map[string]bool // keys that were put, or may have been
}

// Run tries all guarantees with objects of its own, whose keys start with
// "probe/" and a random name, and deletes them afterwards, for at most 30
// seconds after the last trial. It makes about 1100 requests, of which some 60
// wait for each other, and moves about 5 MiB in each direction.
//
// It fails if the store cannot be probed: the context ended, the store did not
// answer, asked to slow down, is full or denied the access. The report then
// holds the guarantees that were tried, and what is left behind. Any other error
// of a store is an answer: what was tried does not hold.
func Run(ctx context.Context, store objectstore.Store) (Report, error) {
	p := &prober{store: store, base: "probe/" + strings.ToLower(rand.Text()) + "/", made: make(map[string]bool)}
	report, err := p.run(ctx)
	cleanUp, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	report.LeftBehind = p.deleteAll(cleanUp)
	return report, err
}

// trials are in the order of the report.
var trials = []struct {
	name        Name
	try         func(context.Context, folder) (seen string, err error)
	consequence string
}{
	{ReadAfterWrite, readAfterWrite, "without read-after-write a snapshot that was just taken may look damaged or absent; collection beside writers is off"},
	{ListAfterWrite, listAfterWrite, "without list-after-write a collector may miss a new snapshot and delete what it needs; collection beside writers is off"},
	{ListAfterKey, listAfterKey, "without list-after-key a writer may miss what a collector condemned; collection beside writers is off"},
	{PutIfAbsent, putIfAbsent, "without put-if-absent two writers could publish one attempt twice; collection beside writers is off"},
	{PutIfMatch, putIfMatch, "without put-if-match servers that share instance records could overwrite each other's"},
	{Overwrite, overwrite, "without overwrite a snapshot that was forgotten may be seen for a while longer, and a collection beside writers may miss what one of them has just stored again"},
	{DeleteThenList, deleteThenList, "without delete-then-list deleted objects are counted, and deleted again, for a while longer"},
	{Ranges, ranges, "without ranges nothing can be restored: packs are read in parts"},
}

// run makes all trials at once: most of their time is waiting.
func (p *prober) run(ctx context.Context) (Report, error) {
	found := make([]Guarantee, len(trials))
	g, ctx := errgroup.WithContext(ctx)
	for i, t := range trials {
		g.Go(func() error {
			seen, err := t.try(ctx, folder{p, p.base + string(t.name) + "/"})
			if cannotProbe(ctx, err) {
				return fmt.Errorf("probe %s: %w", t.name, err)
			}
			if err != nil {
				seen = err.Error()
			}
			found[i] = Guarantee{Name: t.name, Held: err == nil, Detail: seen, Consequence: t.consequence}
			return nil
		})
	}
	err := g.Wait()
	return Report{Guarantees: slices.DeleteFunc(found, func(g Guarantee) bool { return g.Name == "" })}, err
}

// cannotProbe says that an error tells nothing about a guarantee. Credentials
// that may not delete are an answer: some are made so.
func cannotProbe(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	var own *objectstore.Error
	if errors.Is(err, objectstore.ErrDenied) {
		return !errors.As(err, &own) || own.Op != "delete"
	}
	return ctx.Err() != nil || isUnclear(err) || errors.Is(err, objectstore.ErrNoSpace)
}

// isUnclear says that a request may have been done or not.
func isUnclear(err error) bool {
	return errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, objectstore.ErrThrottled)
}

// deleteAll deletes every object that the probe may have made, and returns
// those that it could not. It does not ask a listing, which may be late.
func (p *prober) deleteAll(ctx context.Context) (left []string) {
	var mu sync.Mutex // guards left
	var g errgroup.Group
	g.SetLimit(racers)
	for key := range p.made {
		g.Go(func() error {
			if err := p.store.Delete(ctx, key); err != nil {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, key)
			}
			return nil
		})
	}
	_ = g.Wait() // of functions that return nil
	slices.Sort(left)
	return left
}
