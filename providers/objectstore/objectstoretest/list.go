package objectstoretest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// listKeys are in ascending byte order: '-' < '.' < '/' < digits < upper case
// < '_' < lower case. A directory's own order differs from that of whole keys.
var listKeys = []string{
	"0", "A/x", "B",
	"a-/b", "a-b", "a.b", "a.d/x", "a/-", "a/0", "a/b-c", "a/b.c", "a/b/c", "a/b/d", "a/b0", "a/c", "a0", "aA", "a_", "aa",
	"b-", "b.c/d", "b/x/y/z", "b/x0",
	"z",
}

func putAll(t *testing.T, s objectstore.Store, keys []string) {
	t.Helper()
	for i := range keys { // in another order than they are listed
		key := keys[(i*7)%len(keys)]
		mustPut(t, s, key, key)
	}
}

// listed is what a listing of keys must yield.
func listed(keys []string, prefix, after string) []string {
	want := []string{}
	for _, key := range keys {
		if strings.HasPrefix(key, prefix) && key > after {
			want = append(want, key)
		}
	}
	slices.Sort(want)
	return want
}

func testListOrder(t *testing.T, s objectstore.Store) {
	if keys := mustList(t, s, "", ""); len(keys) != 0 {
		t.Errorf("an empty store lists %q", keys)
	}
	putAll(t, s, listKeys)
	if got := mustList(t, s, "", ""); !slices.Equal(got, listKeys) {
		t.Errorf("listed %q\nwant   %q", got, listKeys)
	}
}

func testListPrefixAfter(t *testing.T, s objectstore.Store) {
	putAll(t, s, listKeys)
	prefixes := []string{"", "a", "a-", "a.", "a/", "a/b", "a/b/", "a/b/c", "a/b/c/", "b/x/", "b/x/y", "zz", "absent/",
		"/", "//", "../", "a/../", ".", "./", "a//", ".tmp/", "a b/", "\xff"}
	afters := append([]string{"a", "a.", "a/", "a/b/", "a/b/c0", "a/~", "a~", "b/", "b/x/y/", "~", "\xff", "../a", ".", "a/../b", "/"}, listKeys...)
	afters = append(afters, "")
	for _, prefix := range prefixes {
		for _, after := range afters {
			want := listed(listKeys, prefix, after)
			if got := mustList(t, s, prefix, after); !slices.Equal(got, want) {
				t.Errorf("list %q after %q: %q, want %q", prefix, after, got, want)
			}
		}
	}
}

func testListInfo(t *testing.T, s objectstore.Store) {
	put := map[string]objectstore.Info{}
	for i, key := range []string{"a/1", "a/2", "b"} {
		put[key] = mustPut(t, s, key, strings.Repeat("x", i*1000))
	}
	for info, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		want := put[info.Key]
		if info.Size != want.Size || info.ETag != "" && info.ETag != want.ETag {
			t.Errorf("list yields %+v, put answered %+v", info, want)
		}
	}
}

func testListStop(t *testing.T, s objectstore.Store) {
	putAll(t, s, listKeys)
	for stop := 1; stop <= len(listKeys); stop++ {
		var got []string
		for info, err := range s.List(t.Context(), "", "") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.Key)
			if len(got) == stop {
				break
			}
		}
		if !slices.Equal(got, listKeys[:stop]) {
			t.Errorf("stopped after %d: %q", stop, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range s.List(ctx, "", "") {
		if last != nil {
			t.Error("a listing goes on after its error")
		}
		last = err
		cancel()
	}
	if last != nil { // a store may have had the whole page in hand
		wantError(t, last, "list", "", context.Canceled)
	}
}

// testListDuringPuts churns some keys while others, which never change, must
// be listed exactly once.
func testListDuringPuts(t *testing.T, s objectstore.Store) {
	var stable []string
	for i := range 60 {
		stable = append(stable, fmt.Sprintf("f%d/stable-%02d", i%3, i))
	}
	slices.Sort(stable)
	putAll(t, s, stable)
	ctx, stop := context.WithCancel(t.Context())
	var churn sync.WaitGroup
	for w := range 3 {
		churn.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("f%d/s%d.%d", i%4, w, i%17)
				if _, err := s.Put(t.Context(), key, strings.NewReader(key), unconditional); err != nil {
					t.Errorf("put: %v", err)
				}
				if i%2 == 0 {
					s.Delete(t.Context(), key)
				}
			}
		})
	}
	for range 20 {
		keys := mustList(t, s, "", "")
		if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
			t.Error("a listing is out of order or repeats a key")
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.Contains(key, "stable") })
		if !slices.Equal(keys, stable) {
			t.Errorf("a listing has %d of %d keys that never changed", len(keys), len(stable))
		}
	}
	stop()
	churn.Wait()
}

// testListMany has more objects than the page of any store (S3: 1000).
func testListMany(t *testing.T, s objectstore.Store) {
	var keys []string
	for i := range 1101 {
		keys = append(keys, fmt.Sprintf("many/%04d", i))
	}
	var puts sync.WaitGroup
	for w := range 8 {
		puts.Go(func() {
			for i := w; i < len(keys); i += 8 {
				if _, err := s.Put(t.Context(), keys[i], strings.NewReader("x"), unconditional); err != nil {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	puts.Wait()
	for _, after := range []string{"", "many/0000", "many/0500", "many/1099"} {
		if got, want := mustList(t, s, "many/", after), listed(keys, "", after); !slices.Equal(got, want) {
			t.Errorf("list after %q: %d keys, want %d", after, len(got), len(want))
		}
	}
}

// testIsolation checks that keys which share a beginning do not touch.
func testIsolation(t *testing.T, s objectstore.Store) {
	for _, key := range []string{"a/x", "ab/x", "a.b/x", "A/x"} {
		mustPut(t, s, key, key)
	}
	if got := mustList(t, s, "a/", ""); !slices.Equal(got, []string{"a/x"}) {
		t.Errorf("list a/: %q", got)
	}
	mustPut(t, s, "a/x", "changed")
	if err := s.Delete(t.Context(), "ab/x"); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"a/x": "changed", "a.b/x": "a.b/x", "A/x": "A/x"} {
		wantContent(t, s, key, want)
	}
	wantAbsent(t, s, "ab/x")
}
