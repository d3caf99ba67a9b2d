package index

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// packCache keeps the descriptions of packs that readers met lately, so that a
// look-up costs one seek, not two. It is direct-mapped by number: 16,384 slots
// of about 600 bytes (a pack of 32 frames), 10 MB; a pack of more than
// maxCachedFrames frames is not kept, so it never grows beyond about 80 MB.
type packCache struct {
	// mu orders filling a slot from the database before or after a change of
	// the database, so that no slot keeps what a change made wrong.
	mu    sync.RWMutex
	slots []atomic.Pointer[cachedPack]
}

const (
	packSlots       = 1 << 14
	maxCachedFrames = 256
)

type cachedPack struct {
	number uint32
	gone   bool // there is no such pack
	PackInfo
}

func (c *packCache) init() { c.slots = make([]atomic.Pointer[cachedPack], packSlots) }

func (c *packCache) slot(number uint32) *atomic.Pointer[cachedPack] {
	return &c.slots[number%packSlots]
}

// change runs commit, which changes the packs with the numbers, and forgets
// what is kept of them.
func (c *packCache) change(numbers []uint32, commit func() error) error {
	if len(numbers) == 0 {
		return commit()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := commit()
	for _, n := range numbers {
		c.slot(n).Store(nil)
	}
	return err
}

// packByNumber describes a pack as the database has it now, however old the
// view of the caller is.
func (db *DB) packByNumber(number uint32) (*cachedPack, error) {
	if p := db.packs.slot(number).Load(); p != nil && p.number == number {
		return p, nil
	}
	db.packs.mu.RLock()
	defer db.packs.mu.RUnlock()
	record, err := db.get(packKey(number))
	if err != nil {
		return nil, fmt.Errorf("read pack record: %w", err)
	}
	p := &cachedPack{number: number, gone: record == nil}
	if record != nil {
		if p.PackInfo, err = decodePackInfo(record); err != nil {
			return nil, err
		}
	}
	if len(p.Frames) <= maxCachedFrames {
		db.packs.slot(number).Store(p)
	}
	return p, nil
}
