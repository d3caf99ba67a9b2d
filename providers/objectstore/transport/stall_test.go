package transport_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

func TestStallsAreFailures(t *testing.T) {
	for kind, operation := range operations {
		bubble(t, func(t *testing.T) {
			s := transport.New(fault.New(holding(t, "a", "old"), first(1, kind, hanging())), transport.Options{StallTimeout: time.Minute})
			elapsed := took(func() {
				if err := operation(t.Context(), s); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			})
			if elapsed < time.Minute || elapsed > time.Minute+time.Second {
				t.Errorf("%s that hangs once took %v", kind, elapsed)
			}
		})
	}
}

// swallowing reads the body of a put and does not answer, the first time.
type swallowing struct {
	*mem.Store
	times int
}

func (s *swallowing) Put(ctx context.Context, key string, body objectstore.Body, opts objectstore.PutOptions) (objectstore.Info, error) {
	if s.times++; s.times > 1 {
		return s.Store.Put(ctx, key, body, opts)
	}
	_, _ = body.ReadAt(make([]byte, body.Size()), 0)
	<-ctx.Done()
	return objectstore.Info{}, ctx.Err()
}

func TestPutThatIsNotAnsweredIsStalled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(&swallowing{Store: mem.New()}, transport.Options{StallTimeout: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 62*time.Second)
		defer cancel()
		if err := put(ctx, s, "a", "content"); err != nil {
			t.Error(err)
		}
	})
}

func TestStallsForEverAreReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(fault.New(mem.New(), always(hanging())), transport.Options{MaxAttempts: 2})
		_, err := s.Stat(context.Background(), "a")
		wantError(t, err, fault.Stat, objectstore.ErrUnavailable)
		if errors.Is(err, context.Canceled) {
			t.Errorf("error %v is taken for a cancellation", err)
		}
	})
}
