package commit

import (
	"bytes"
	"context"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// relieved is a full store whose reserve somebody else gives up between a put and the
// look for the reserve.
type relieved struct {
	objectstore.Store
	full bool
}

func (r *relieved) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if r.full {
		return objectstore.Info{}, &objectstore.Error{Op: "put", Key: key, Err: objectstore.ErrNoSpace}
	}
	return r.Store.Put(ctx, key, body, opts)
}

func (r *relieved) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	r.full = false
	return r.Store.Stat(ctx, key)
}

func TestReserveThatAnotherPutGaveUp(t *testing.T) {
	store := SpendReserve(&relieved{Store: mem.New(), full: true})
	if _, err := store.Put(t.Context(), "packs/a", bytes.NewReader([]byte("a")), objectstore.PutOptions{}); err != nil {
		t.Error(err)
	}
}
