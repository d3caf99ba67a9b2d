package transport_test

import (
	"io"
	"sync"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/transport"
)

// TestOpenReadersCount lets many goroutines read objects slowly.
func TestOpenReadersCount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := &network{Store: holding(t, "packs/1", letters(1000)), latency: time.Second}
		s := transport.New(inner, transport.Options{MaxConcurrent: 4, DownloadLimit: 1000, Bulk: packsAreBulk})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := get(t.Context(), s, "packs/1"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if peak, _, _ := inner.change(0); peak != 4 {
			t.Errorf("%d at a time, want 4", peak)
		}
	})
}

// TestEndedReaderGivesWay reads to the end, or closes, and then asks again at
// once, with room for one.
func TestEndedReaderGivesWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(holding(t, "packs/1", "content"), transport.Options{MaxConcurrent: 1, Bulk: packsAreBulk})
		elapsed := took(func() {
			for i := range 10 {
				reader, err := s.Get(t.Context(), "packs/1", objectstore.Range{})
				if err != nil {
					t.Fatal(err)
				}
				defer reader.Close()
				if i%2 == 0 {
					_, err = io.ReadAll(reader)
				} else {
					err = reader.Close()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		if elapsed != 0 {
			t.Errorf("took %v", elapsed)
		}
	})
}

// TestIdleReaderGivesWay opens a second reader while the first is open, with
// room for one.
func TestIdleReaderGivesWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := transport.New(holding(t, "packs/1", "content"), transport.Options{MaxConcurrent: 1, Bulk: packsAreBulk})
		one := make([]byte, 1)
		var readers []io.ReadCloser
		elapsed := took(func() {
			for range 5 {
				reader, err := s.Get(t.Context(), "packs/1", objectstore.Range{})
				if err != nil {
					t.Fatal(err)
				}
				defer reader.Close()
				readers = append(readers, reader)
			}
			for i := range "content" {
				for _, reader := range readers {
					if _, err := io.ReadFull(reader, one); err != nil || one[0] != "content"[i] {
						t.Errorf("byte %d: %q, %v", i, one, err)
					}
				}
			}
		})
		if elapsed > 5*time.Second {
			t.Errorf("5 readers in turn took %v", elapsed)
		}
	})
}

// TestLoopOverListingMayAskMore nests requests in listings, with room for one.
func TestLoopOverListingMayAskMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner, _ := hundred(t)
		s := transport.New(inner, transport.Options{MaxConcurrent: 1})
		elapsed := took(func() {
			for info, err := range s.List(t.Context(), "a/", "") {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := get(t.Context(), s, info.Key); err != nil {
					t.Fatal(err)
				}
			}
		})
		if elapsed != 0 {
			t.Errorf("took %v", elapsed)
		}
	})
}
