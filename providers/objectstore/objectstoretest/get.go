package objectstoretest

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

func testRanges(t *testing.T, s objectstore.Store) {
	const text = "0123456789"
	mustPut(t, s, "ten", text)
	mustPut(t, s, "empty", "")
	for _, test := range []struct {
		key            string
		offset, length int64
		want           string
		err            error
	}{
		{"ten", 0, 0, text, nil},
		{"ten", 0, 10, text, nil},
		{"ten", 0, 1, "0", nil},
		{"ten", 3, 4, "3456", nil},
		{"ten", 3, 0, "3456789", nil},
		{"ten", 9, 1, "9", nil},
		{"ten", 9, 0, "9", nil},
		{"ten", 7, 100, "789", nil},
		{"ten", 0, math.MaxInt64, text, nil},
		{"ten", 7, math.MaxInt64, "789", nil},
		{"ten", 10, 0, "", objectstore.ErrRange},
		{"ten", 10, 1, "", objectstore.ErrRange},
		{"ten", 11, 0, "", objectstore.ErrRange},
		{"ten", math.MaxInt64, math.MaxInt64, "", objectstore.ErrRange},
		{"ten", -1, 0, "", objectstore.ErrRange},
		{"ten", 0, -1, "", objectstore.ErrRange},
		{"empty", 0, 0, "", nil},
		{"empty", 0, 5, "", nil},
		{"empty", 1, 0, "", objectstore.ErrRange},
		{"absent", 5, 5, "", objectstore.ErrNotExist},
	} {
		got, err := read(t.Context(), s, test.key, objectstore.Range{Offset: test.offset, Length: test.length})
		if test.err != nil {
			wantError(t, err, "get", test.key, test.err)
		} else if err != nil || got != test.want {
			t.Errorf("get %s from %d, length %d: %q, %v, want %q", test.key, test.offset, test.length, got, err, test.want)
		}
	}
	testLargeRange(t, s)
}

func testLargeRange(t *testing.T, s objectstore.Store) {
	content := randomBytes(5, 5<<20)
	mustPut(t, s, "large", content)
	got, err := read(t.Context(), s, "large", objectstore.Range{Offset: 1<<20 - 7, Length: 3<<20 + 11})
	if err != nil || got != content[1<<20-7:4<<20+4] {
		t.Errorf("large range: %d bytes, %v", len(got), err)
	}
	reader, err := s.Get(t.Context(), "large", objectstore.Range{Offset: 1})
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 10)
	if _, err := io.ReadFull(reader, first); err != nil || string(first) != content[1:11] {
		t.Errorf("start of a reader: %q, %v", first, err)
	}
	if err := reader.Close(); err != nil {
		t.Errorf("close before the end: %v", err)
	}
}

// testWholeVersions lets readers run beside writers of one key, among them
// deletes: whatever is read is one whole version.
func testWholeVersions(t *testing.T, s objectstore.Store) {
	const writers, rounds = 4, 12
	ctx, stop := context.WithCancel(t.Context())
	var write, reads sync.WaitGroup
	for w := range writers {
		write.Go(func() {
			for i := range rounds {
				body := strings.Repeat(fmt.Sprintf("%d.%d\n", w, i), 10_000*(1+w))
				if _, err := s.Put(t.Context(), "key", strings.NewReader(body), unconditional); err != nil {
					t.Errorf("put: %v", err)
				}
				if w == 0 && i%3 == 0 {
					if err := s.Delete(t.Context(), "key"); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
			}
		})
	}
	for range 4 {
		reads.Go(func() {
			for ctx.Err() == nil {
				checkVersion(t, s)
			}
		})
	}
	write.Wait()
	stop()
	reads.Wait()
}

func checkVersion(t *testing.T, s objectstore.Store) {
	content, err := read(t.Context(), s, "key", objectstore.Range{})
	if err != nil {
		wantError(t, err, "get", "key", objectstore.ErrNotExist)
		return
	}
	line, _, _ := strings.Cut(content, "\n")
	var w, i int
	fmt.Sscanf(line, "%d.%d", &w, &i)
	if content != strings.Repeat(line+"\n", 10_000*(1+w)) {
		t.Errorf("read a mixture: %d bytes that start with %q", len(content), line)
	}
}
