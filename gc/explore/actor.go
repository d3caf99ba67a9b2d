package explore

import (
	"context"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Actor is a program that uses a store: a writer, a collector, somebody who
// forgets. What it does must depend on the answers of the store alone; the
// explorer makes it so for crypto/rand and for time, and notices when it is not.
type Actor struct {
	Name string
	// Run is the program. Until it calls begin, the store answers at once, from the
	// objects that the scenario starts with, and must not be written to. From then
	// on every call is a step that others can come before. Run may be called many
	// times, each time in a world of its own but for the store, and is given up by
	// errors of the store and by the end of its context.
	Run func(ctx context.Context, store objectstore.Store, begin func()) (Outcome, error)
	// Forgets says that the actor may take published snapshots away.
	Forgets bool
}

// Outcome is what an actor says in the end.
type Outcome struct {
	// Acknowledged are the ids of snapshots that were said to be published: one
	// object below snapshots/<id>/ must be one.
	Acknowledged []string
	// Summary is for people: runs are counted by it.
	Summary string
}
