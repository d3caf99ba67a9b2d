package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// A store acknowledges a pack and does not keep it, or not all of it.
func TestUploadThatWasNotKept(t *testing.T) {
	for name, lose := range map[string]fault.Fault{"missing": fault.Drop(), "short": fault.Truncate(100)} {
		t.Run(name, func(t *testing.T) {
			under, dir := mem.New(), smallWorkspace(t)
			r := initRepo(t, under)
			faulty := &testRepo{t: t, store: fault.New(under, fault.On(fault.Put, "packs/", lose)), state: r.state}
			r.close()
			opts := faulty.options()
			opts.VerifyUploads = true
			repo, err := engine.Open(t.Context(), faulty.store, opts)
			if err != nil {
				t.Fatal(err)
			}
			faulty.Repository = repo
			_, err = repo.Snapshot(t.Context(), engine.SnapshotOptions{Path: dir})
			if err == nil || !strings.Contains(err.Error(), "packs/") || !strings.Contains(err.Error(), "did not keep") {
				t.Errorf("snapshot: %v", err)
			}
			if ids := objects(t, under, "snapshots/"); len(ids) > 0 {
				t.Errorf("published all the same: %v", ids)
			}
			honest := faulty.reopen(under)
			saved := honest.snapshot(dir)
			same(t, describe(t, dir), describe(t, honest.elsewhere().restore(saved.Snapshot)))
		})
	}
}

// Without the question a check finds it.
func TestCheckFindsAnUploadThatWasNotKept(t *testing.T) {
	under, dir := mem.New(), smallWorkspace(t)
	r := initRepo(t, under).reopen(fault.New(under, fault.On(fault.Put, "packs/", fault.Drop())))
	r.snapshot(dir)
	report, err := r.reopen(under).Check(t.Context(), engine.CheckOptions{})
	if !errors.Is(err, engine.ErrDamaged) || len(report.Problems) == 0 {
		t.Errorf("check: %v, %+v", err, report)
	}
}
