package engine

import (
	"context"
	"fmt"

	"github.com/snapctl/snapctl/engine/commit"
	"github.com/snapctl/snapctl/engine/fetch"
	"github.com/snapctl/snapctl/engine/ingest"
	"github.com/snapctl/snapctl/index"
	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// rescuer stores again what a collection took (step W5), from any copy that can
// still be read, the condemned pack included while it exists.
func (r *Repository) rescuer() *rescuer { return &rescuer{r: r} }

type rescuer struct {
	r      *Repository
	stored written // by all rescues of one attempt
}

// Rescue implements commit.Rescuer.
func (s *rescuer) Rescue(ctx context.Context, record commit.Record, avoid index.PackSet) ([]packfile.Name, error) {
	db, err := s.r.index(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.r.dropLost(ctx, db); err != nil {
		return nil, err
	}
	session := s.r.session(ctx, db, avoid)
	defer func() { s.r.opts.Events.warn("close the session of", "rescue", session.Close()) }()
	if err := s.copy(ctx, session.Writer(), record); err != nil {
		return nil, err
	}
	stored, err := s.r.finish(ctx, db, session)
	if err != nil {
		return nil, err
	}
	s.stored.add(stored)
	return stored.packs, nil
}

// copy puts every blob of the record that has no copy outside the packs to avoid.
func (s *rescuer) copy(ctx context.Context, w *ingest.Writer, record commit.Record) error {
	visit := func(kind blob.Kind, id blob.ID) error {
		ok, err := w.Has(ctx, id)
		if err != nil || ok {
			return err
		}
		content, err := s.r.fetch.Blob(ctx, kind, id)
		if err != nil {
			return overtaken(id, err)
		}
		again, err := w.Put(ctx, kind, content)
		if err == nil && again != id {
			err = fmt.Errorf("%v blob %v: %w: content has another id", kind, id, ErrDamaged)
		}
		return err
	}
	walk := reach{get: s.r.fetch.Node, seen: map[blob.ID]struct{}{}, visit: visit, broken: overtaken}
	return walk.from(ctx, record.Manifest.Root, record.Manifest.Links)
}

// overtaken tells a blob that is gone, which a new attempt may find in the
// workspace, from a store that does not answer.
func overtaken(_ blob.ID, err error) error {
	if fetch.Lost(err) {
		return fmt.Errorf("%w: %w", commit.ErrLost, err)
	}
	return err
}
