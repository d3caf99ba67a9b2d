package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// Answers that came before the context ended are not handed out as if the others
// had come too.
func TestAskAheadHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first := question{"first", func(context.Context, objectstore.Store) answer { return answer{} }}
	second := question{"second", func(ctx context.Context, _ objectstore.Store) answer {
		cancel()
		<-ctx.Done()
		return answer{err: ctx.Err()}
	}}
	if _, err := askAhead(ctx, mem.New(), first, second); !errors.Is(err, context.Canceled) {
		t.Errorf("ask ahead: %v", err)
	}
}
