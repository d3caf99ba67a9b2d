package transport_test

import (
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/fault"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

func TestCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(fault.New(mem.New(), first(2, fault.Put, fault.LoseAck(objectstore.ErrUnavailable))), transport.Options{})
		if s.Counts() != (transport.Counts{}) {
			t.Errorf("at first %+v", s.Counts())
		}
		for range 2 {
			if err := put(t.Context(), s, "a", "12345"); err != nil {
				t.Error(err)
			}
		}
		if _, err := readRange(t.Context(), s, "a", objectstore.Range{Offset: 2}); err != nil {
			t.Error(err)
		}
		for range 3 {
			_, _ = s.Stat(t.Context(), "a")
		}
		for range 5 {
			_ = s.Delete(t.Context(), "a")
		}
		for range 6 {
			_, _ = list(t.Context(), s, "")
		}
		want := transport.Counts{Put: 4, Get: 1, Stat: 3, Delete: 5, List: 6, Retries: 2, BytesUp: 20, BytesDown: 3}
		if got := s.Counts(); got != want || got.Requests() != 19 {
			t.Errorf("%+v, %d requests", got, got.Requests())
		}
	})
}
