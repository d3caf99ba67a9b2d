//go:build !race

package index

import (
	"testing"

	"github.com/snapctl/snapctl/packfile/blob"
)

// Under the race detector pebble allocates in some look-ups, so this runs without it.
func TestLookupsDoNotAllocate(t *testing.T) {
	db := newDB(t)
	check(t, db.AddPacks(t.Context(), testPack(1, span(0, 1000)...)))
	r := db.NewReader(PackSet{testName(5): {}})
	defer r.Close()
	ids := make([]blob.ID, 1000)
	for i := range ids {
		ids[i] = testID(i)
	}
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		i++
		if _, ok, err := r.Lookup(ids[i%len(ids)]); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a look-up", n)
	}
}
