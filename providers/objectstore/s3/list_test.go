package s3

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// page answers a List with these names, which are those of the bucket.
func page(w http.ResponseWriter, token string, names ...string) {
	fmt.Fprintf(w, `<?xml version="1.0"?><ListBucketResult><EncodingType>url</EncodingType><IsTruncated>%v</IsTruncated><NextContinuationToken>%s</NextContinuationToken>`, token != "", token)
	for _, name := range names {
		fmt.Fprintf(w, `<Contents><Key>%s</Key><LastModified>2006-01-02T15:04:05.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>3</Size></Contents>`, url.QueryEscape(name))
	}
	fmt.Fprint(w, `</ListBucketResult>`)
}

func list(t *testing.T, s *Store, prefix, after string) (keys []string, err error) {
	t.Helper()
	for info, err := range s.List(t.Context(), prefix, after) {
		if err != nil {
			return keys, err
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

func TestListRequest(t *testing.T) {
	var got url.Values
	store, f := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Query()
		page(w, "")
	})
	for _, test := range []struct{ prefix, after, wantPrefix, wantAfter string }{
		{"", "", "root/", ""},
		{"a/", "", "root/a/", ""},
		{"a/", "a/b", "root/a/", "root/a/b"},
		{"a/", "A", "root/a/", ""},        // before everything with the prefix
		{"", "b\xffc", "root/", "root/b"}, // not to be sent; what comes more is left out
		{"", "b c", "root/", "root/b"},
	} {
		if _, err := list(t, store, test.prefix, test.after); err != nil {
			t.Fatal(err)
		}
		if got.Get("prefix") != test.wantPrefix || got.Get("start-after") != test.wantAfter {
			t.Errorf("list %q after %q asks for %v", test.prefix, test.after, got)
		}
		if got.Get("list-type") != "2" || got.Get("delimiter") != "" || got.Get("fetch-owner") != "" {
			t.Errorf("list asks for %v", got)
		}
	}
	f.requests.Store(0)
	for _, impossible := range [][2]string{{"a/", "b"}, {"a//", ""}, {"../", ""}, {".x", ""}, {"a b", ""}, {"\xff", ""}} {
		keys, err := list(t, store, impossible[0], impossible[1])
		if len(keys) != 0 || err != nil || f.requests.Load() != 0 {
			t.Errorf("list %q: %q, %v, %d requests", impossible, keys, err, f.requests.Load())
		}
	}
}

// TestListLeavesOutStrangers lists a bucket in which others keep things too.
func TestListLeavesOutStrangers(t *testing.T) {
	store, f := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("continuation-token") == "" {
			page(w, "more", "root/", "root/.DS_Store", "root/a", "root/b c", "root/d/", "root/d/e")
		} else {
			page(w, "", "root/d/é", "root/f")
		}
	})
	keys, err := list(t, store, "", "")
	if want := []string{"a", "d/e", "f"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("listed %q, %v, want %q", keys, err, want)
	}
	if n := f.requests.Load(); n != 2 {
		t.Errorf("%d requests for 2 pages", n)
	}
}

func TestListOutOfOrder(t *testing.T) {
	for want, names := range map[string][]string{
		"a comes behind b":      {"root/key/b", "root/key/a"},
		"b comes behind b":      {"root/key/a", "root/key/b", "root/key/b"},
		`has "root/other"`:      {"root/key/a", "root/other"},
		`has "elsewhere/key/a"`: {"elsewhere/key/a"},
	} {
		store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) { page(w, "", names...) })
		err := calls[opList](t.Context(), store)
		wantFailure(t, err, opList, nil)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "key/", ""), strings.ReplaceAll(want, "key/", "")) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// TestListBroken answers with what is no listing.
func TestListBroken(t *testing.T) {
	for name, answer := range map[string]string{
		"a web page":     "<!DOCTYPE html><html><body>Log in to this network<p></body></html>",
		"half a listing": `<?xml version="1.0"?><ListBucketResult><Contents><Key>root/key/a</Key>`,
		"nothing":        "",
	} {
		store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, answer) })
		t.Run(name, func(t *testing.T) {
			wantFailure(t, calls[opList](t.Context(), store), opList, objectstore.ErrUnavailable, "is this the address of an S3 API?")
		})
	}
}
