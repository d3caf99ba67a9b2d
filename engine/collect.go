package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/gc"
	"github.com/snapctl/snapctl/index"
)

// CollectOptions adjust a collection. The zero value is good for most
// repositories.
type CollectOptions struct {
	// MaxUnused is the share of the bytes in packs, 0 to 1, that may stay unused
	// so that less has to be copied; 0 is 5 percent, a negative value none.
	MaxUnused float64
	// MaxCopy bounds the bytes of packs that are copied; 0 is no bound.
	MaxCopy int64
	// MaxDuration ends the copying, from when the plan is made; 0 is no bound.
	MaxDuration time.Duration
	// UndoWindow is how long a forgotten snapshot can be had back; 0 is a day, a
	// negative value not at all.
	UndoWindow time.Duration
	// Grace is how old has to be what seems to be left behind by an attempt that
	// ended; 0 is a day, a negative value any age.
	Grace time.Duration
	// Offline says that nobody else uses the repository until the collection
	// ends. It is needed on stores without the guarantees that a collection beside
	// writers rests on.
	Offline bool
}

// ErrWeakStore says that the store is not good enough for a collection beside
// writers.
var ErrWeakStore = errors.New("the store does not guarantee what a collection beside writers needs")

// Collection is a planned collection. Close it when done.
type Collection struct {
	*gc.Plan
	repo *Repository
}

// PlanCollection finds out what a collection would do (see package gc). Nothing is
// changed.
func (r *Repository) PlanCollection(ctx context.Context, opts CollectOptions) (*Collection, error) {
	c, err := r.planCollection(ctx, opts)
	if errors.Is(err, index.ErrFailed) { // local state is damaged, or its disk is full
		r.opts.Events.warn("use local state", r.state, err)
		if err = r.replaceOpenIndex(); err == nil {
			c, err = r.planCollection(ctx, opts)
		}
	}
	return c, failed("plan collection", "", err)
}

// replaceOpenIndex replaces the index, which failed, by one that ends with this process.
func (r *Repository) replaceOpenIndex() error {
	db, err := r.openIndex()
	if err == nil {
		_, err = r.replaceIndex(db)
	}
	return err
}

func (r *Repository) planCollection(ctx context.Context, opts CollectOptions) (*Collection, error) {
	if err := r.allowsCollection(ctx, opts); err != nil {
		return nil, err
	}
	db, err := r.openIndex()
	if err != nil {
		return nil, err
	}
	temp, err := r.tempFolder()
	if err != nil {
		return nil, err
	}
	work := &gc.Repository{
		Repo: r.protocol(), Index: db, Trees: r.fetch, TempDir: temp, Settled: r.settledView(),
		Session: func(ctx context.Context, avoid index.PackSet) *ingest.Session { return r.session(ctx, db, avoid) },
		Warn:    func(object string, err error) { r.opts.Events.warn("collect", object, err) },
		Report:  r.reportCollection(),
	}
	work.Store = commit.SpendReserve(work.Store)
	if r.state != "" {
		work.MarkFile = filepath.Join(r.state, "mark")
	}
	options := gc.Options{
		MaxUnused: opts.MaxUnused, MaxCopy: opts.MaxCopy, UndoWindow: opts.UndoWindow, Grace: opts.Grace,
		PackSize: int64(r.config.PackSize), Now: r.opts.Now,
	}
	if opts.MaxDuration > 0 {
		options.Deadline = r.opts.Now().Add(opts.MaxDuration)
	}
	plan, err := gc.Survey(ctx, work, options)
	if err != nil {
		return nil, err
	}
	return &Collection{Plan: plan, repo: r}, nil
}

// Execute does what the plan says, beside running writers. Wherever it is
// interrupted, nothing is lost and the next collection goes on. Its result says
// what was done, also after an error.
func (c *Collection) Execute(ctx context.Context) (*gc.Result, error) {
	result, err := c.Plan.Execute(ctx)
	c.repo.keepSettled(result.Settled)
	if err == nil {
		err = commit.KeepReserve(ctx, c.repo.store)
		if ctx.Err() == nil { // all is done, and nothing needs it until the store is full
			c.repo.opts.Events.warn("collect", "reserve", err)
			err = nil
		}
	}
	return result, failed("collect", "", err)
}

// Collect plans a collection and executes the plan.
func (r *Repository) Collect(ctx context.Context, opts CollectOptions) (*gc.Result, error) {
	c, err := r.PlanCollection(ctx, opts)
	if err != nil {
		return nil, err
	}
	result, err := c.Execute(ctx)
	return result, errors.Join(err, c.Close())
}

// allowsCollection refuses a store that a probe found too weak.
func (r *Repository) allowsCollection(ctx context.Context, opts CollectOptions) error {
	if opts.Offline {
		return nil
	}
	report, err := r.guarantees(ctx)
	if errors.Is(err, ErrNotFound) { // a directory of this machine is not probed
		return nil
	}
	if err == nil && !report.Online() {
		err = ErrWeakStore
	}
	return err
}

func (r *Repository) reportCollection() func(gc.Progress) {
	tell := r.opts.Events.Progress
	if tell == nil {
		return nil
	}
	start, phase := time.Now(), ""
	return func(p gc.Progress) {
		if p.Phase != phase { // each has a rate of its own
			start, phase = time.Now(), p.Phase
		}
		progress := Progress{Op: "collect", Phase: p.Phase, Elapsed: time.Since(start)}
		if p.Phase == "copy" {
			progress.Bytes, progress.TotalBytes = p.Done, p.Total
		} else {
			progress.Files, progress.TotalFiles = p.Done, p.Total
		}
		tell(progress)
	}
}

// settledFile is a file of local state: what the last collection knew of the
// generations that were settled (commit.Generations). It saves reading their lists.
const settledFile = "settled"

func (r *Repository) settledView() commit.View {
	view, err := commit.DecodeView(readState(r.state, settledFile, r.opts.Events))
	if err != nil {
		return commit.View{}
	}
	return view
}

func (r *Repository) keepSettled(view commit.View) {
	writeState(r.state, settledFile, view.Encode(), r.opts.Events)
}

// tempFolder is where large temporary files of this repository go: to the disk of
// the local state, or to a private folder below /tmp.
func (r *Repository) tempFolder() (string, error) {
	if r.state != "" {
		dir := filepath.Join(r.state, "temporary")
		if err := os.MkdirAll(dir, 0o700); err == nil {
			return dir, nil
		}
	}
	return privateTemp()
}

// privateTemp makes the folder of this user below /tmp.
func privateTemp() (string, error) {
	dir := fmt.Sprintf("/tmp/snapctl-%d", os.Geteuid())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("local state: %w", err)
	}
	if err := checkPrivate(dir); err != nil {
		return "", fmt.Errorf("local state: %w", err)
	}
	return dir, nil
}
