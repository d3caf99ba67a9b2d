package fault_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
)

func TestStall(t *testing.T) {
	reads := func(ctx context.Context, s objectstore.Store) (int, error) {
		reader, err := s.Get(ctx, "a", objectstore.Range{})
		if err != nil {
			return 0, err
		}
		defer reader.Close()
		content, err := io.ReadAll(reader)
		return len(content), err
	}
	lists := func(ctx context.Context, s objectstore.Store) (int, error) {
		keys, err := list(ctx, s, "")
		return len(keys), err
	}
	for n := range 8 {
		testStall(t, n, 5, reads)
		testStall(t, n, 2, lists)
	}
}

// testStall takes all there is of something that stalls after n.
func testStall(t *testing.T, n, all int, take func(context.Context, objectstore.Store) (int, error)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := fault.New(filled(t), always(fault.Stall(int64(n))))
		got, err, done := 0, error(nil), false
		go func() {
			got, err = take(ctx, s)
			done = true
		}()
		synctest.Wait()
		if done != (n >= all) {
			t.Errorf("%d of %d: ended %v", n, all, done)
		}
		cancel()
		synctest.Wait()
		if got != min(n, all) || n < all != errors.Is(err, context.Canceled) {
			t.Errorf("%d of %d: got %d, %v", n, all, got, err)
		}
	})
}
