package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/snapctl/snapctl/engine/commit"
)

// calmly makes the plan of a repair that no collection disturbed: what seems to be lost
// beside one may only have been moved, or belong to a snapshot that is gone, and a
// repair would give it up. ErrRetry if collections go on all the time.
func calmly[T any](ctx context.Context, r *Repository, plan func() (T, error)) (T, error) {
	var none T
	for range maxChecks {
		before, err := commit.CountLists(ctx, r.protocol())
		if err != nil {
			return none, err
		}
		made, planErr := plan()
		if errors.Is(planErr, context.Canceled) || errors.Is(planErr, context.DeadlineExceeded) {
			return none, planErr
		}
		after, err := commit.CountLists(ctx, r.protocol())
		if err != nil {
			return none, cmp.Or(planErr, err)
		}
		if after == before {
			return made, planErr
		}
	}
	return none, fmt.Errorf("%w: collections went on all the time", ErrRetry)
}
