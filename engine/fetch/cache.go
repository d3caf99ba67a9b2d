package fetch

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/snapctl/snapctl/packfile"
	"github.com/snapctl/snapctl/packfile/blob"
)

type frameKey struct {
	pack   packfile.Name
	offset uint32
	kind   blob.Kind
}

// frameCache keeps the contents of the frames that were used last, and lets
// one caller load a frame while others wait for it.
type frameCache struct {
	limit int // bytes of content

	mu      sync.Mutex // guards the fields below; never held during a load
	used    int
	entries map[frameKey]*cachedFrame
	recent  *list.List // of *cachedFrame that are loaded; the last used first
}

// cachedFrame is being loaded until ready is closed, and does not change after
// that.
type cachedFrame struct {
	key     frameKey
	ready   chan struct{}
	content []byte
	err     error
	place   *list.Element // guarded by frameCache.mu; nil while it is loaded
}

func newFrameCache(limit int) *frameCache {
	return &frameCache{limit: limit, entries: make(map[frameKey]*cachedFrame), recent: list.New()}
}

// get returns the content of a frame, by load if nobody has it. A failure is
// not kept. A caller whose own context is alive does not fail because the one
// that loads was cancelled: it loads the frame itself.
func (c *frameCache) get(ctx context.Context, key frameKey, load func() ([]byte, error)) ([]byte, error) {
	for {
		frame, mine := c.claim(key)
		if mine {
			content, err := load()
			c.settle(frame, content, err)
			return content, err
		}
		select {
		case <-frame.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if isCancelled(frame.err) && ctx.Err() == nil {
			continue
		}
		return frame.content, frame.err
	}
}

func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// claim returns the entry of a frame and whether the caller has to load it.
func (c *frameCache) claim(key frameKey) (frame *cachedFrame, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if frame, ok := c.entries[key]; ok {
		if frame.place != nil {
			c.recent.MoveToFront(frame.place)
		}
		return frame, false
	}
	frame = &cachedFrame{key: key, ready: make(chan struct{})}
	c.entries[key] = frame
	return frame, true
}

// settle publishes what load returned and drops the frames used longest ago.
func (c *frameCache) settle(frame *cachedFrame, content []byte, err error) {
	frame.content, frame.err = content, err
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(frame.ready)
	if err != nil || len(content) > c.limit {
		delete(c.entries, frame.key)
		return
	}
	frame.place = c.recent.PushFront(frame)
	c.used += len(content)
	for c.used > c.limit {
		oldest := c.recent.Remove(c.recent.Back()).(*cachedFrame)
		delete(c.entries, oldest.key)
		c.used -= len(oldest.content)
	}
}
