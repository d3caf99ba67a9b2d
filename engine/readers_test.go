package engine_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/engine"
	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
)

// interrupted is a store whose reader is held up once, at the first pack that it
// reads for a kind of work.
type interrupted struct {
	objectstore.Store
	once      sync.Once // packs are read by several goroutines
	meanwhile func()
	happened  bool // read when they have ended
}

func (i *interrupted) Get(ctx context.Context, key string, r objectstore.Range) (io.ReadCloser, error) {
	if strings.HasPrefix(key, "packs/") {
		i.once.Do(func() {
			i.happened = true
			i.meanwhile()
		})
	}
	return i.Store.Get(ctx, key, r)
}

// What a reader knows from its index is moved to other packs while it reads: it
// looks again, and goes on.
func TestReaderFollowsACollection(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 5 {
		h.save()
	}
	h.r.forget(h.ids[:4]...)
	held := &interrupted{Store: h.r.store}
	reader := (&testRepo{t: t, store: h.r.store, state: t.TempDir()}).open(held)
	held.meanwhile = func() {
		if result := h.r.collect(thorough); result.Copied == 0 {
			t.Errorf("nothing was moved: %+v", result)
		}
	}
	same(t, h.looks[h.ids[4]], describe(t, reader.restore(h.ids[4])))
	if !held.happened {
		t.Error("the reader read no pack")
	}
}

// A snapshot is forgotten and collected while it is restored: the restore says so,
// and leaves nothing that looks complete.
func TestRestoreOfACollectedSnapshotSaysSo(t *testing.T) {
	h := newHistory(t, mem.New())
	for range 3 {
		h.save()
	}
	held := &interrupted{Store: h.r.store}
	reader := (&testRepo{t: t, store: h.r.store, state: t.TempDir()}).open(held)
	held.meanwhile = func() {
		h.r.forget(h.ids[0])
		h.r.collect(thorough)
	}
	target := filepath.Join(t.TempDir(), "restored")
	_, err := reader.Restore(t.Context(), h.ids[0], engine.RestoreOptions{Target: target})
	if !errors.Is(err, engine.ErrNotFound) || !strings.Contains(err.Error(), "forgotten") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(target); !isNotExist(err) {
		t.Errorf("the target is there: %v", err)
	}
	h.hold(h.ids[1:]...)
}

// Without any loss a restore of a forgotten snapshot ends well.
func TestRestoreOfAForgottenSnapshotEnds(t *testing.T) {
	h := newHistory(t, mem.New())
	h.save()
	held := &interrupted{Store: h.r.store}
	reader := (&testRepo{t: t, store: h.r.store, state: t.TempDir()}).open(held)
	held.meanwhile = func() { h.r.forget(h.ids[0]) }
	same(t, h.looks[h.ids[0]], describe(t, reader.restore(h.ids[0])))
}

// A collection moves what a check looks for, and takes what a snapshot needed that is
// forgotten meanwhile: neither is damage.
func TestCheckBesideACollectionIsCalm(t *testing.T) {
	for name, opts := range map[string]engine.CheckOptions{"structure": {}, "all data": {ReadData: 1}} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t, mem.New())
			for range 5 {
				h.save()
			}
			h.r.forget(h.ids[:3]...)
			held := &interrupted{Store: h.r.store}
			checker := (&testRepo{t: t, store: h.r.store, state: t.TempDir()}).open(held)
			held.meanwhile = func() {
				h.r.forget(h.ids[3])
				if result := h.r.collect(thorough); result.Copied == 0 || result.Deleted == 0 {
					t.Errorf("nothing was moved: %+v", result)
				}
			}
			if report, err := checker.Check(t.Context(), opts); err != nil {
				t.Errorf("%v: %+v", err, report)
			}
			if !held.happened {
				t.Error("the check read no pack")
			}
			h.hold(h.ids[4])
		})
	}
}
