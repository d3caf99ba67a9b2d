package mem_test

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/mem"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	objectstoretest.Run(t, func(*testing.T) objectstore.Store { return mem.New() })
}

func put(t *testing.T, s objectstore.Store, key string, content []byte) objectstore.Info {
	t.Helper()
	info, err := s.Put(t.Context(), key, bytes.NewReader(content), objectstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func get(t *testing.T, s objectstore.Store, key string) string {
	t.Helper()
	content, err := objectstore.ReadAll(t.Context(), s, key, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestPutCopiesTheBody(t *testing.T) {
	s := mem.New()
	content := []byte("before")
	put(t, s, "key", content)
	copy(content, "behind")
	if got := get(t, s, "key"); got != "before" {
		t.Errorf("the object changed with its body: %q", got)
	}
}

func TestSameCallsSameAnswers(t *testing.T) {
	a, b := mem.New(), mem.New()
	for _, key := range []string{"x", "y", "x"} {
		if ia, ib := put(t, a, key, []byte(key)), put(t, b, key, []byte(key)); ia != ib {
			t.Errorf("put %s: %+v and %+v", key, ia, ib)
		}
	}
}

func TestClone(t *testing.T) {
	s := mem.New()
	put(t, s, "kept", []byte("old"))
	put(t, s, "deleted", []byte("old"))
	clone := s.Clone()
	put(t, s, "kept", []byte("new"))
	put(t, s, "added", []byte("new"))
	if err := s.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	put(t, clone, "own", []byte("clone"))
	for key, want := range map[string]string{"kept": "old", "deleted": "old", "own": "clone"} {
		if got := get(t, clone, key); got != want {
			t.Errorf("clone has %q under %s, want %q", got, key, want)
		}
	}
	if _, err := clone.Stat(t.Context(), "added"); err == nil {
		t.Error("the clone sees a later put")
	}
	if _, err := s.Stat(t.Context(), "own"); err == nil {
		t.Error("the original sees a put to the clone")
	}
}
