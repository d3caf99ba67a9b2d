package engine_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// careless takes conditional puts for ordinary ones, as stores do that do not
// know the header.
type careless struct{ objectstore.Store }

func (s careless) Put(ctx context.Context, key string, body objectstore.Body, _ objectstore.PutOptions) (objectstore.Info, error) {
	return s.Store.Put(ctx, key, body, objectstore.PutOptions{})
}

func TestGuaranteesAreRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		store  objectstore.Store
		online bool
	}{"honest": {mem.New(), true}, "careless": {careless{mem.New()}, false}} {
		t.Run(name, func(t *testing.T) {
			r := initRepo(t, test.store)
			if _, err := r.Guarantees(t.Context()); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("before the probe: %v", err)
			}
			report, err := r.Probe(t.Context())
			if err != nil || report.Online() != test.online {
				t.Errorf("online %v, %v: %+v", report.Online(), err, report)
			}
			kept, err := r.elsewhere().Guarantees(t.Context())
			if err != nil || !reflect.DeepEqual(kept, report) {
				t.Errorf("kept %+v, %v; want %+v", kept, err, report)
			}
			if left := objects(t, test.store, "probe/"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
