package index

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/snapctl/snapctl/packfile"
)

// loadLimits bound what a load keeps in memory.
type loadLimits struct {
	// directBlobs are written as ordinary batches; more go into tables that
	// are added to the database as they are, an order of magnitude cheaper
	// for each.
	directBlobs int
	// runEntries are sorted at a time, 48 bytes each.
	runEntries int
	// A wave becomes visible, and survives an interruption, at once.
	waveBlobs, wavePacks int
	// tableEntries fill one table of the database, 46 bytes each.
	tableEntries int
}

// defaultLimits are 2 MB of batch, 24 MiB of run and 24 MB of table.
var defaultLimits = loadLimits{directBlobs: 32 << 10, runEntries: 512 << 10, waveBlobs: 16 << 20, wavePacks: 64 << 10, tableEntries: 512 << 10}

// loader adds segments to the database. It belongs to one goroutine.
//
// Blob records come first, by themselves, under pack numbers that no pack has
// yet: readers skip them. Then one change brings the packs and segments of the
// wave. A crash between the two leaves garbage under numbers that were given
// out, so no pack ever gets them.
type loader struct {
	db    *DB
	stats *SyncStats

	run   []entry
	runs  runFiles
	blobs int

	packs    []numberedPack
	numbers  map[packfile.Name]uint32 // of packs
	segments []numberedSegment
}

type numberedPack struct {
	number uint32
	PackInfo
}

type numberedSegment struct {
	SegmentInfo
	numbers []uint32
}

func newLoader(db *DB, stats *SyncStats) *loader {
	return &loader{db: db, stats: stats, runs: runFiles{fs: db.fs, dir: db.loadDir()}, numbers: map[packfile.Name]uint32{}}
}

// add adds a segment; it is in the database after the next flush.
func (l *loader) add(ctx context.Context, info SegmentInfo, packs []packfile.Pack) error {
	s := numberedSegment{SegmentInfo: info, numbers: make([]uint32, 0, len(packs))}
	for _, p := range packs {
		number, err := l.addPack(p)
		if err != nil {
			return err
		}
		s.numbers = append(s.numbers, number)
	}
	l.segments = append(l.segments, s)
	l.stats.Loaded++
	l.stats.LoadedBytes += info.Size
	if l.blobs >= l.db.limits.waveBlobs || len(l.packs) >= l.db.limits.wavePacks {
		return l.flush(ctx)
	}
	return nil
}

// addPack gives the pack a number, and collects its records if it is new.
func (l *loader) addPack(p packfile.Pack) (uint32, error) {
	number, known := l.numbers[p.Name]
	var err error
	if !known {
		number, known, err = l.db.number(p.Name)
	}
	if known || err != nil {
		return number, err
	}
	if number, err = l.db.reserve(); err != nil {
		return 0, err
	}
	l.numbers[p.Name] = number
	l.packs = append(l.packs, numberedPack{number, describe(p)})
	before := len(l.run)
	l.run = appendEntries(l.run, p, number)
	l.blobs += len(l.run) - before
	if len(l.run) >= l.db.limits.runEntries {
		err = l.runs.write(sortRun(l.run))
		l.run = l.run[:0]
	}
	return number, err
}

// reserve gives out a number that becomes durable with the next change.
func (db *DB) reserve() (uint32, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	c := change{state: db.state}
	number, err := c.allocate()
	if err == nil {
		db.publish(c.state)
	}
	return number, err
}

// flush ends the wave.
func (l *loader) flush(ctx context.Context) error {
	if len(l.segments) == 0 {
		return nil
	}
	direct := l.run
	if l.runs.empty() && len(l.run) <= l.db.limits.directBlobs {
		l.run = nil
	} else {
		direct = nil
		if err := l.ingest(ctx); err != nil {
			return fmt.Errorf("load blob records: %w", err)
		}
	}
	err := l.db.update(ctx, func(c *change) error { return l.commit(c, direct) })
	if err != nil {
		return fmt.Errorf("load segments: %w", err)
	}
	l.run, l.blobs, l.packs, l.segments = direct[:0], 0, nil, nil
	clear(l.numbers)
	return nil
}

// ingest turns the collected entries into tables of the database.
func (l *loader) ingest(ctx context.Context) error {
	// The numbers must be given out for good before records bear them.
	if err := l.db.update(ctx, func(*change) error { return nil }); err != nil {
		return err
	}
	err := l.db.ingest(ctx, &l.runs, sortRun(l.run))
	l.run = l.run[:0]
	return err
}

func (l *loader) commit(c *change, direct []entry) error {
	renumbered := map[uint32]uint32{}
	for _, p := range l.packs {
		// AddPacks may have recorded the pack since; that record stays.
		number, known, err := l.db.number(p.Name)
		if err != nil {
			return err
		}
		if known {
			renumbered[p.number] = number
			continue
		}
		if err := c.addPack(p.number, p.PackInfo); err != nil {
			return err
		}
		l.stats.PacksAdded++
	}
	if err := c.addBlobs(direct); err != nil {
		return err
	}
	unsegmented, err := c.unsegmented()
	if err != nil {
		return err
	}
	for _, s := range l.segments {
		for i, n := range s.numbers {
			if other, ok := renumbered[n]; ok {
				s.numbers[i] = other
			}
			if key, ok := unsegmented[s.numbers[i]]; ok {
				if err := c.batch.Delete(key, nil); err != nil {
					return err
				}
			}
		}
		if err := c.addSegment(s.SegmentInfo, s.numbers); err != nil {
			return err
		}
	}
	return nil
}

// unsegmented returns the keys of the packs that no segment names, by their
// numbers.
func (c *change) unsegmented() (map[uint32][]byte, error) {
	keys := map[uint32][]byte{}
	err := scan(context.Background(), c.db.pebble, tagUnsegmented, func(key, _ []byte) error {
		number, known, err := c.db.number(packfile.Name(key[1:]))
		if known {
			keys[number] = bytes.Clone(key)
		}
		return err
	})
	return keys, err
}

// discard removes the files of an unfinished load.
func (l *loader) discard() error { return l.runs.remove() }

func sortRun(run []entry) []entry {
	slices.SortFunc(run, entry.compare)
	return run
}
