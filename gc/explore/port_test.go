package explore

import (
	"context"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest"
)

// TestConformance runs the suite of all stores on the one that scenarios take place
// in, with calls that are answered at once.
func TestConformance(t *testing.T) {
	for name, page := range map[string]int{"whole": 0, "pages": 3} {
		t.Run(name, func(t *testing.T) {
			objectstoretest.Run(t, func(*testing.T) objectstore.Store { return immediate(page) })
		})
	}
}

// immediate returns a store of its own.
func immediate(page int) objectstore.Store {
	var mu sync.Mutex
	var store cells
	p := &port{page: page, mu: &mu, objects: newObjects()}
	p.ask = func(_ context.Context, r request) (answer reply, err error) {
		mu.Lock()
		defer mu.Unlock()
		store, answer = p.objects.apply(store, r)
		return answer, failures[answer.failure]
	}
	return p
}
