//go:build servers

package cloud_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/cloud"
)

// counted opens a store through a proxy that counts requests.
func counted(t *testing.T, k kind) (*cloud.Store, *atomic.Int64) {
	t.Helper()
	target, err := url.Parse(k.at)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	forward := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, target.Host
		},
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	return k.via(t, "root", proxy.URL), &requests
}

// TestRequests counts what each call costs.
func TestRequests(t *testing.T) {
	eachServer(t, func(t *testing.T, k kind) {
		store, requests := counted(t, k)
		want := func(call string, want int64) {
			t.Helper()
			if got := requests.Swap(0); got != want {
				t.Errorf("%s: %d requests, want %d", call, got, want)
			}
		}
		info := mustPut(t, store, "key", strings.Repeat("x", 20<<20))
		want("put of 20 MiB", 1)
		mustPut(t, store, "empty", "")
		want("put of nothing", 1)
		for _, opts := range []objectstore.PutOptions{{IfAbsent: true}, {IfMatch: "77"}, {IfMatch: info.ETag}} {
			store.Put(t.Context(), "key", strings.NewReader("x"), opts)
			want(fmt.Sprintf("put %+v", opts), 1)
		}
		for _, r := range []objectstore.Range{{}, {Offset: 0, Length: 1}, {Offset: 1}} {
			if reader, err := store.Get(t.Context(), "key", r); err == nil {
				io.Copy(io.Discard, reader)
				reader.Close()
			}
			want(fmt.Sprintf("get %+v", r), 1)
		}
		for _, key := range []string{"key", "absent"} {
			store.Stat(t.Context(), key)
			want("stat "+key, 1)
			store.Delete(t.Context(), key)
			want("delete "+key, 1)
		}
		putMany(t, store, 1100)
		requests.Store(0)
		for after, pages := range map[string]int64{"": 2, "many/0098": 2, "many/0101": 1, "many/1099": 1, "zz": 1} {
			keys(t, store, "", after)
			want("list after "+after, pages)
		}
	})
}

func putMany(t *testing.T, s objectstore.Store, n int) {
	var puts sync.WaitGroup
	for w := range 8 {
		puts.Go(func() {
			for i := w; i < n; i += 8 {
				key := fmt.Sprintf("many/%04d", i)
				if _, err := s.Put(t.Context(), key, strings.NewReader("x"), objectstore.PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	puts.Wait()
}
