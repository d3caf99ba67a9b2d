package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
	"github.com/snapctl/snapctl/providers/objectstore"
)

// badCache hands out damaged bytes until it is told to forget.
type badCache struct {
	objectstore.Store
	forgot bool
}

func (c *badCache) Forget(string) { c.forgot = true }

func (c *badCache) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	body, err := c.Store.Get(ctx, key, r)
	if err != nil || c.forgot {
		return body, err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	b[len(b)/2] ^= 1
	return io.NopCloser(bytes.NewReader(b)), nil
}

// A frame that a cache has damaged is read again behind it.
func TestDamagedCacheIsForgotten(t *testing.T) {
	r, ids, _ := many(t, 1, 1, 3, 1000)
	cache := &badCache{Store: r.store}
	if _, errs := collect(t, r.fetcher(cache), blob.Data, ids); errors.Join(errs...) != nil || !cache.forgot {
		t.Errorf("blobs: %v", errs)
	}
	cache = &badCache{Store: r.store}
	if _, err := r.fetcher(cache).Blob(t.Context(), blob.Data, ids[0]); err != nil || !cache.forgot {
		t.Errorf("blob: %v", err)
	}
	cache = &badCache{Store: r.store}
	frames := 0
	whole := func(f packfile.SealedFrame) error {
		_, err := f.Reseal(nil, r.sealer, r.sealer)
		if err == nil {
			frames++
		}
		return err
	}
	err := r.fetcher(cache).Frames(t.Context(), blob.Data, ids, whole, func(i int, _ []byte, err error) error {
		t.Errorf("blob %d came alone: %v", i, err)
		return nil
	})
	if err != nil || frames != 1 {
		t.Errorf("%d frames, %v", frames, err)
	}
}

// Only a frame of which everything is wanted goes whole.
func TestFramesInPart(t *testing.T) {
	r, ids, contents := many(t, 1, 2, 3, 1000)
	for name, test := range map[string]struct {
		wanted []int
		whole  int64 // blobs in whole frames
	}{
		"all": {[]int{0, 1, 2, 3, 4, 5}, 6}, "but one": {[]int{0, 1, 2, 3, 5}, 3}, "but the last": {[]int{0, 1, 2, 3, 4}, 3}, "one": {[]int{4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var some []blob.ID
			for _, i := range test.wanted {
				some = append(some, ids[i])
			}
			var whole, alone atomic.Int64
			err := r.fetcher(r.store).Frames(t.Context(), blob.Data, some, func(f packfile.SealedFrame) error {
				whole.Add(int64(len(f.Blobs)))
				_, err := f.Verify(nil, r.sealer, r.namer)
				return err
			}, func(i int, plaintext []byte, err error) error {
				alone.Add(1)
				if err != nil || !bytes.Equal(plaintext, contents[test.wanted[i]]) {
					t.Errorf("blob %d: %v", i, err)
				}
				return err
			})
			if err != nil || whole.Load() != test.whole || alone.Load() != int64(len(test.wanted))-test.whole {
				t.Errorf("%d in whole frames, %d alone, %v", whole.Load(), alone.Load(), err)
			}
		})
	}
}
