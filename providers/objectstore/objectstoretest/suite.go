// Package objectstoretest is the conformance suite of objectstore.Store: it
// checks every sentence of the contract that can be seen from outside. Each
// implementation runs it in its own tests.
package objectstoretest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// Run checks a store. Each call of newStore returns an empty one, which the
// suite does not share between subtests; it cleans up by t.Cleanup. Cases that a
// store is known to fail are named, and are not run but logged.
func Run(t *testing.T, newStore func(t *testing.T) objectstore.Store, lacks ...Lack) {
	leftOut := map[string]bool{}
	for _, lack := range lacks {
		if cases[lack.name] == nil {
			t.Fatalf("the suite has no case %q", lack.name)
		}
		leftOut[lack.name] = true
		t.Logf("left out: %s: %s", lack.name, lack.reason)
	}
	for name, test := range cases {
		if !leftOut[name] {
			t.Run(name, func(t *testing.T) { test(t, newStore(t)) })
		}
	}
}

// Lack is a case of the suite that a store fails. Make one with Without.
type Lack struct{ name, reason string }

// Without declares that a store lacks what the case with this name checks. The
// reason is a guarantee that it does not give, or a fault of a certain version.
func Without(name, reason string) Lack { return Lack{name, reason} }

var cases = map[string]func(*testing.T, objectstore.Store){
	"put/sizes":             testSizes,
	"put/overwrite":         testOverwrite,
	"put/info":              testInfo,
	"put/body read again":   testBodyReadAgain,
	"put/failing body":      testFailingBody,
	"put/nothing in part":   testNothingInPart,
	"put/contradiction":     testContradiction,
	"put/if absent":         testIfAbsent,
	"put/if absent race":    testIfAbsentRace,
	"put/if match":          testIfMatch,
	"put/if match race":     testIfMatchRace,
	"get/ranges":            testRanges,
	"get/whole versions":    testWholeVersions,
	"key/invalid":           testInvalidKeys,
	"key/longest":           testLongestKeys,
	"absent":                testAbsent,
	"delete":                testDelete,
	"cancelled":             testCancelled,
	"list/order":            testListOrder,
	"list/prefix and after": testListPrefixAfter,
	"list/info":             testListInfo,
	"list/stop":             testListStop,
	"list/during puts":      testListDuringPuts,
	"list/many":             testListMany,
	"isolation":             testIsolation,
	"model":                 testModel,
}

var unconditional = objectstore.PutOptions{}

func mustPut(t *testing.T, s objectstore.Store, key, content string) objectstore.Info {
	t.Helper()
	info, err := s.Put(t.Context(), key, strings.NewReader(content), unconditional)
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return info
}

func mustGet(t *testing.T, s objectstore.Store, key string) string {
	t.Helper()
	content, err := read(t.Context(), s, key, objectstore.Range{})
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	return content
}

func mustStat(t *testing.T, s objectstore.Store, key string) objectstore.Info {
	t.Helper()
	info, err := s.Stat(t.Context(), key)
	if err != nil {
		t.Fatalf("stat %s: %v", key, err)
	}
	return info
}

// mustList returns the keys of a listing.
func mustList(t *testing.T, s objectstore.Store, prefix, after string) []string {
	t.Helper()
	keys := []string{}
	for info, err := range s.List(t.Context(), prefix, after) {
		if err != nil {
			t.Fatalf("list %q after %q: %v", prefix, after, err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// read reads a range to its end and closes the reader.
func read(ctx context.Context, s objectstore.Store, key string, r objectstore.Range) (string, error) {
	reader, err := s.Get(ctx, key, r)
	if err != nil {
		return "", err
	}
	var content bytes.Buffer
	_, err = io.Copy(&content, reader)
	return content.String(), errors.Join(err, reader.Close())
}

// wantError checks that an error is an *objectstore.Error about the call and
// wraps the sentinel.
func wantError(t *testing.T, err error, op, key string, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Errorf("%s %q: error %v, want %v", op, key, err, sentinel)
		return
	}
	var e *objectstore.Error
	if !errors.As(err, &e) {
		t.Errorf("%s %q: error is a %T, want *objectstore.Error", op, key, err)
	} else if e.Op != op || e.Key != key {
		t.Errorf("error of %s %q says %s %q", op, key, e.Op, e.Key)
	}
}

// wantAbsent checks that no method sees an object.
func wantAbsent(t *testing.T, s objectstore.Store, key string) {
	t.Helper()
	_, err := s.Stat(t.Context(), key)
	wantError(t, err, "stat", key, objectstore.ErrNotExist)
	_, err = read(t.Context(), s, key, objectstore.Range{})
	wantError(t, err, "get", key, objectstore.ErrNotExist)
	for _, listed := range mustList(t, s, "", "") {
		if listed == key {
			t.Errorf("%s is listed", key)
		}
	}
}

// wantContent checks that Get, Stat and List see an object with this content.
func wantContent(t *testing.T, s objectstore.Store, key, content string) {
	t.Helper()
	if got := mustGet(t, s, key); got != content {
		t.Errorf("get %s: %s, want %s", key, brief(got), brief(content))
	}
	if info := mustStat(t, s, key); info.Size != int64(len(content)) {
		t.Errorf("stat %s: %d bytes, want %d", key, info.Size, len(content))
	}
	if keys := mustList(t, s, key, ""); len(keys) == 0 || keys[0] != key {
		t.Errorf("list %s: %q, want it first", key, keys)
	}
}

func brief(content string) string {
	if len(content) > 40 {
		return content[:40] + "..."
	}
	return content
}
