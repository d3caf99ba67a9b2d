package index

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ingest adds the entries of the runs and of last to the database, at once and
// durably. The tables do not overlap, so they go to the lowest level that holds
// nothing in their range: in an empty database to the last one, for good.
func (db *DB) ingest(ctx context.Context, runs *runFiles, last []entry) error {
	w := tableWriter{db: db, runs: runs}
	err := runs.merge(last, func(e entry) error { return w.add(ctx, e) })
	if err = errors.Join(err, w.finish()); err != nil {
		return err
	}
	return errors.Join(db.ingestTables(ctx, w.paths), runs.remove())
}

// ingestTables flushes the memtable first, and keeps it empty: otherwise the
// tables would wait for a flush within Pebble, for ever if it fails.
func (db *DB) ingestTables(ctx context.Context, paths []string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return pebble.ErrClosed
	}
	return db.failed.Catch(func() error {
		flushed, err := db.pebble.AsyncFlush()
		if err != nil {
			return err
		}
		select {
		case <-flushed:
			return db.pebble.Ingest(ctx, paths)
		case <-db.failed.Happened():
			return nil // catch returns the error
		}
	})
}

// tableWriter writes ascending entries into tables of the database's format.
type tableWriter struct {
	db         *DB
	runs       *runFiles
	paths      []string
	table      *sstable.Writer // nil between two tables
	n          int             // entries in table
	previous   entry
	key, value []byte
}

func (w *tableWriter) add(ctx context.Context, e entry) error {
	if w.n > 0 && e.compare(w.previous) == 0 {
		return nil // the pack holds the blob twice
	}
	if w.n >= w.db.limits.tableEntries && e.id != w.previous.id {
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.table == nil {
		if err := w.start(ctx); err != nil {
			return err
		}
	}
	w.n++
	w.previous = e
	w.key, w.value = appendBlobKey(w.key[:0], e.id, e.number), e.place.append(w.value[:0])
	return w.table.Set(w.key, w.value)
}

func (w *tableWriter) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path, err := w.runs.path("table", len(w.paths))
	if err != nil {
		return err
	}
	f, err := w.db.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	const lastLevel = 6
	w.table = sstable.NewWriter(objstorageprovider.NewFileWritable(f),
		w.db.opts.MakeWriterOptions(lastLevel, w.db.pebble.TableFormat()))
	w.paths = append(w.paths, path)
	w.n = 0
	return nil
}

func (w *tableWriter) finish() error {
	if w.table == nil {
		return nil
	}
	table := w.table
	w.table = nil
	return table.Close()
}
