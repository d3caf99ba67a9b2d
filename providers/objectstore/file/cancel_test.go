package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// cancelBody cancels a context when it is read behind an offset.
type cancelBody struct {
	objectstore.Body
	behind int64
	cancel context.CancelFunc
}

func (b cancelBody) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > b.behind {
		b.cancel()
	}
	return b.Body.ReadAt(p, off)
}

func TestCancelledInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	body := cancelBody{strings.NewReader(strings.Repeat("x", 5<<20)), 2 << 20, cancel}
	if _, err := s.Put(ctx, "key", body, objectstore.PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "key")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after a cancelled put: %v", err)
	}
	if left := tempFiles(t, dir); len(left) != 0 {
		t.Errorf("temporary files left: %q", left)
	}

	put(t, s, "key", "content")
	ctx, cancel = context.WithCancel(t.Context())
	reader, err := s.Get(ctx, "key", objectstore.Range{})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cancel()
	if _, err := reader.Read(make([]byte, 3)); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
}
