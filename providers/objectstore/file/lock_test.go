package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// lateContext is cancelled from the second time on that it is asked.
type lateContext struct {
	context.Context
	asked atomic.Int32
	done  chan struct{}
}

func newLateContext(ctx context.Context) *lateContext {
	c := &lateContext{Context: ctx, done: make(chan struct{})}
	close(c.done)
	return c
}

func (c *lateContext) Done() <-chan struct{} { return c.done }

func (c *lateContext) Err() error {
	if c.asked.Add(1) == 1 {
		return nil
	}
	return context.Canceled
}

// TestLockIsHonoured holds the store's lock as another process in the middle
// of a compare-and-swap would, and expects whatever changes an
// existing name to wait until it is told to give up.
func TestLockIsHonoured(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	put(t, s, "key", "old")
	info, err := s.Stat(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	for _, test := range []struct {
		held int
		opts objectstore.PutOptions
	}{
		{unix.LOCK_EX, objectstore.PutOptions{}},
		{unix.LOCK_EX, objectstore.PutOptions{IfMatch: info.ETag}},
		{unix.LOCK_SH, objectstore.PutOptions{IfMatch: info.ETag}},
	} {
		if err := unix.Flock(int(lock.Fd()), test.held); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		body := cancelBody{strings.NewReader("new"), 0, cancel}
		if _, err := s.Put(ctx, "key", body, test.opts); !errors.Is(err, context.Canceled) {
			t.Errorf("put %+v took no notice of the lock: %v", test.opts, err)
		}
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(newLateContext(t.Context()), "key"); !errors.Is(err, context.Canceled) {
		t.Errorf("delete took no notice of the lock: %v", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	put(t, s, "key", "shared") // beside a shared lock
	if got := get(t, s, "key"); got != "shared" {
		t.Errorf("the object is %q", got)
	}
}
