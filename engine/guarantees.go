package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/packfile/seal"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/probe"
)

// guaranteesObject holds what the last probe of the store found: a sealed
// probe.Report as JSON. It is overwritten by the next one.
const guaranteesObject = "guarantees"

// maxGuarantees bounds it in bytes.
const maxGuarantees = 64 << 10

// Probe finds out by trying what the store guarantees (see package probe), and
// records it in the repository. Some 1100 small requests.
func (r *Repository) Probe(ctx context.Context) (probe.Report, error) {
	report, err := probe.Run(ctx, r.store)
	if err == nil {
		err = r.recordGuarantees(ctx, report)
	}
	return report, failed("probe", "store", err)
}

func (r *Repository) recordGuarantees(ctx context.Context, report probe.Report) error {
	content, err := json.Marshal(report)
	if err != nil {
		return err
	}
	sealed := r.sealer.Seal(nil, seal.Probe, content, content)
	_, err = r.store.Put(ctx, guaranteesObject, bytes.NewReader(sealed), objectstore.PutOptions{})
	return err
}

// Guarantees returns what the last probe found. ErrNotFound if there was none.
func (r *Repository) Guarantees(ctx context.Context) (probe.Report, error) {
	report, err := r.guarantees(ctx)
	return report, failed("read", guaranteesObject, err)
}

func (r *Repository) guarantees(ctx context.Context) (report probe.Report, err error) {
	sealed, err := objectstore.ReadAll(ctx, r.store, guaranteesObject, maxGuarantees+seal.Overhead)
	if errors.Is(err, objectstore.ErrNotExist) {
		return report, ErrNotFound
	}
	if err != nil {
		return report, err
	}
	content, err := r.sealer.Open(nil, seal.Probe, sealed, maxGuarantees)
	if err == nil {
		if jsonErr := json.Unmarshal(content, &report); jsonErr != nil {
			err = fmt.Errorf("%w: %w", ErrDamaged, jsonErr)
		}
	}
	return report, err
}
