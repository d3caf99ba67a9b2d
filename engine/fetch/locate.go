package fetch

import (
	"context"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

// Locator knows where blobs are stored. It is safe for concurrent use.
type Locator interface {
	// Copies appends the places where the blob is stored to dst, the best
	// first, and returns the longer slice. A blob that is nowhere is no error.
	Copies(ctx context.Context, kind blob.Kind, id blob.ID, dst []Location) ([]Location, error)
}

// Refresher is a Locator that can learn what changed since it was made: a
// collection moves blobs to other packs.
type Refresher interface {
	// Refresh reports whether it may know more than before.
	Refresh(ctx context.Context) (bool, error)
}

// Location is where one copy of a blob lies.
type Location struct {
	Pack         packfile.Name
	FrameOffset  uint32 // of the sealed frame in the pack, bytes
	FrameLength  uint32 // of the sealed frame, bytes
	FrameContent uint32 // of the content of the frame, bytes
	Offset       uint32 // of the blob in that content, bytes
	Length       uint32 // of the blob, bytes
}
