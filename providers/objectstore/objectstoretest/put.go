package objectstoretest

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

func testSizes(t *testing.T, s objectstore.Store) {
	for name, size := range map[string]int{
		"empty":         0,
		"one-byte":      1,
		"one-mib":       1 << 20,
		"above-one-mib": 1<<20 + 1,
		"20-mib":        20 << 20,
	} {
		content := randomBytes(1, size)
		mustPut(t, s, name, content)
		wantContent(t, s, name, content)
	}
}

func testOverwrite(t *testing.T, s objectstore.Store) {
	for _, content := range []string{"first", "second, longer", "3", ""} {
		mustPut(t, s, "folder/key", content)
		wantContent(t, s, "folder/key", content)
	}
}

func testInfo(t *testing.T, s objectstore.Store) {
	first := mustPut(t, s, "a/key", "first")
	if first.Key != "a/key" || first.Size != 5 || first.ETag == "" {
		t.Errorf("put answers %+v", first)
	}
	stat := mustStat(t, s, "a/key")
	if stat.Key != first.Key || stat.Size != first.Size || stat.ETag != first.ETag {
		t.Errorf("stat answers %+v, put %+v", stat, first)
	}
	if stat.ModTime.IsZero() {
		t.Error("stat has no time")
	}
	seen := map[string]bool{first.ETag: true}
	for i := range 50 {
		info := mustPut(t, s, "a/key", string(rune('A'+i)))
		if seen[info.ETag] {
			t.Errorf("put %d has the etag of an earlier object", i)
		}
		seen[info.ETag] = true
		if got := mustStat(t, s, "a/key").ETag; got != info.ETag {
			t.Errorf("stat has etag %q, put answered %q", got, info.ETag)
		}
	}
}

func testBodyReadAgain(t *testing.T, s objectstore.Store) {
	content := randomBytes(2, 3<<20)
	body := strings.NewReader(content)
	io.CopyN(io.Discard, body, 100) // a body's own position is nothing to a store
	for _, key := range []string{"one", "two"} {
		if _, err := s.Put(t.Context(), key, body, unconditional); err != nil {
			t.Fatal(err)
		}
		wantContent(t, s, key, content)
	}
	section := io.NewSectionReader(body, 1<<20, 1<<20)
	if _, err := s.Put(t.Context(), "section", section, unconditional); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "section", content[1<<20:2<<20])
}

func testFailingBody(t *testing.T, s objectstore.Store) {
	content := randomBytes(3, 3<<20)
	bodies := map[string]struct {
		body objectstore.Body
		want error
	}{
		"failing": {failingBody{strings.NewReader(content)}, errBody},
		"short":   {shortBody{strings.NewReader(content), 4 << 20}, io.ErrUnexpectedEOF},
		"nothing": {shortBody{strings.NewReader(""), 10}, io.ErrUnexpectedEOF},
	}
	for name, test := range bodies {
		_, err := s.Put(t.Context(), name, test.body, unconditional)
		wantError(t, err, "put", name, test.want)
		wantAbsent(t, s, name)
		_, err = s.Put(t.Context(), name, test.body, objectstore.PutOptions{IfAbsent: true})
		wantError(t, err, "put", name, test.want)
		wantAbsent(t, s, name)
		mustPut(t, s, "old", "old")
		_, err = s.Put(t.Context(), "old", test.body, unconditional)
		wantError(t, err, "put", "old", test.want)
		wantContent(t, s, "old", "old")
	}
}

func testNothingInPart(t *testing.T, s objectstore.Store) {
	mustPut(t, s, "old", "old")
	content := randomBytes(4, 3<<20)
	for _, opts := range []objectstore.PutOptions{{}, {IfAbsent: true}} {
		s.Delete(t.Context(), "new")
		whilePutting(t, s, "new", content, opts, func() { wantAbsent(t, s, "new") })
	}
	whilePutting(t, s, "old", content, unconditional, func() { wantContent(t, s, "old", "old") })
}

// whilePutting calls check while a put has read all of its body but the end,
// then lets the put finish and expects its content.
func whilePutting(t *testing.T, s objectstore.Store, key, content string, opts objectstore.PutOptions, check func()) {
	t.Helper()
	body := newGatedBody(strings.NewReader(content))
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(t.Context(), key, body, opts)
		done <- err
	}()
	func() {
		defer close(body.gate)
		select {
		case <-body.reached:
			check()
		case err := <-done:
			done <- err
			t.Errorf("put %s ended without its body's end: %v", key, err)
		}
	}()
	if err := <-done; err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	wantContent(t, s, key, content)
}

func testContradiction(t *testing.T, s objectstore.Store) {
	info := mustPut(t, s, "key", "old")
	opts := objectstore.PutOptions{IfAbsent: true, IfMatch: info.ETag}
	_, err := s.Put(t.Context(), "key", strings.NewReader("new"), opts)
	if err == nil || errors.Is(err, objectstore.ErrExist) || errors.Is(err, objectstore.ErrPrecondition) {
		t.Errorf("put with both conditions: %v, want an error of its own", err)
	}
	wantContent(t, s, "key", "old")
}
