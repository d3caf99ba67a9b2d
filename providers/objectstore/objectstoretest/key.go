package objectstoretest

import (
	"context"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

func testInvalidKeys(t *testing.T, s objectstore.Store) {
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", "a/.", ".hidden", "a/.hidden",
		"a b", "a\x00b", "a\\b", "a:b", "ä", "a\xffb", "a\nb", "a*b", "a%2fb",
		strings.Repeat("a/", 256) + "a", strings.Repeat("a", 256),
	} {
		_, err := s.Put(t.Context(), key, strings.NewReader("x"), unconditional)
		wantError(t, err, "put", key, objectstore.ErrInvalidKey)
		_, err = s.Get(t.Context(), key, objectstore.Range{})
		wantError(t, err, "get", key, objectstore.ErrInvalidKey)
		_, err = s.Stat(t.Context(), key)
		wantError(t, err, "stat", key, objectstore.ErrInvalidKey)
		wantError(t, s.Delete(t.Context(), key), "delete", key, objectstore.ErrInvalidKey)
	}
	if keys := mustList(t, s, "", ""); len(keys) != 0 {
		t.Errorf("invalid keys left objects: %q", keys)
	}
}

func testLongestKeys(t *testing.T, s objectstore.Store) {
	wide := strings.Repeat("w", 255) + "/" + strings.Repeat("x", 254) + "/"
	for _, key := range []string{
		strings.Repeat("n", 255),
		wide + "y",
		strings.Repeat("d/", 255) + "dd",
	} {
		if len(key) != objectstore.MaxKeyLen && len(key) != 255 {
			t.Fatalf("key of %d bytes", len(key))
		}
		mustPut(t, s, key, key)
		wantContent(t, s, key, key)
		opts := objectstore.PutOptions{IfAbsent: true}
		_, err := s.Put(t.Context(), key, strings.NewReader("other"), opts)
		wantError(t, err, "put", key, objectstore.ErrExist)
		if err := s.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
		wantAbsent(t, s, key)
	}
}

func testAbsent(t *testing.T, s objectstore.Store) {
	mustPut(t, s, "folder/object", "x")
	for _, key := range []string{"absent", "folder", "folder/absent", "folder/object/below", "absent/folder/object"} {
		wantAbsent(t, s, key)
	}
}

func testDelete(t *testing.T, s objectstore.Store) {
	for _, key := range []string{"absent", "absent/below"} {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete what is absent: %v", err)
		}
	}
	mustPut(t, s, "folder/a", "a")
	mustPut(t, s, "folder/b", "b")
	for _, key := range []string{"folder", "folder/b/below", "folder/b", "folder/b"} {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %s: %v", key, err)
		}
	}
	wantContent(t, s, "folder/a", "a")
	wantAbsent(t, s, "folder/b")
	mustPut(t, s, "folder/b", "again")
	wantContent(t, s, "folder/b", "again")
}

func testCancelled(t *testing.T, s objectstore.Store) {
	info := mustPut(t, s, "old", "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, opts := range []objectstore.PutOptions{{}, {IfAbsent: true}} {
		_, err := s.Put(ctx, "new", strings.NewReader("new"), opts)
		wantError(t, err, "put", "new", context.Canceled)
	}
	_, err := s.Put(ctx, "old", strings.NewReader("new"), objectstore.PutOptions{IfMatch: info.ETag})
	wantError(t, err, "put", "old", context.Canceled)
	_, err = s.Get(ctx, "old", objectstore.Range{})
	wantError(t, err, "get", "old", context.Canceled)
	_, err = s.Stat(ctx, "old")
	wantError(t, err, "stat", "old", context.Canceled)
	wantError(t, s.Delete(ctx, "old"), "delete", "old", context.Canceled)
	yields := 0
	for _, err := range s.List(ctx, "ol", "") {
		yields++
		wantError(t, err, "list", "ol", context.Canceled)
	}
	if yields != 1 {
		t.Errorf("a cancelled listing yields %d times, want once", yields)
	}
	wantContent(t, s, "old", "old")
	wantAbsent(t, s, "new")
}
