//go:build servers

package cloud_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/cloud"
	"github.com/snapctl/snapctl/providers/objectstore/cloud/cloudtest"
)

// kind is one of the emulators, with stores in its bucket.
type kind struct {
	name string
	open func(t *testing.T, prefix string) *cloud.Store
	via  func(t *testing.T, prefix, proxy string) *cloud.Store // through a proxy at this address
	at   string
}

// eachServer runs a test with a server of each kind.
func eachServer(t *testing.T, test func(t *testing.T, k kind)) {
	t.Helper()
	t.Run("google", func(t *testing.T) {
		server := cloudtest.StartGCS(t)
		test(t, kind{
			name: "google",
			at:   server.Endpoint,
			open: func(t *testing.T, prefix string) *cloud.Store { return openGCS(t, server, prefix) },
			via: func(t *testing.T, prefix, proxy string) *cloud.Store {
				return openGCS(t, server, prefix, func(o *cloud.GCSOptions) { o.Endpoint = proxy })
			},
		})
	})
	t.Run("azure", func(t *testing.T) {
		server := cloudtest.StartAzure(t)
		test(t, kind{
			name: "azure",
			at:   server.Endpoint,
			open: func(t *testing.T, prefix string) *cloud.Store { return openAzure(t, server, prefix) },
			via: func(t *testing.T, prefix, proxy string) *cloud.Store {
				return openAzure(t, server, prefix, func(o *cloud.AzureOptions) { o.Endpoint = proxy + "/" + server.Account })
			},
		})
	})
}

func mustPut(t *testing.T, s objectstore.Store, key, content string) objectstore.Info {
	t.Helper()
	info, err := s.Put(t.Context(), key, strings.NewReader(content), objectstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func keys(t *testing.T, s objectstore.Store, prefix, after string) (keys []string) {
	t.Helper()
	for info, err := range s.List(t.Context(), prefix, after) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// TestNamesAreKeys has the keys that gocloud would rewrite: objects have the
// names that they have in any other store, and are listed in their order.
func TestNamesAreKeys(t *testing.T) {
	awkward := []string{"a../b", "a..0", "a.b", "a__0x2f__b", "a__0x41__", "a__b", "aa"}
	eachServer(t, func(t *testing.T, k kind) {
		store, whole := k.open(t, "p../q"), k.open(t, "")
		var names []string
		for _, key := range awkward {
			mustPut(t, store, key, key)
			names = append(names, "p../q/"+key)
			if got, err := objectstore.ReadAll(t.Context(), store, key, 100); err != nil || string(got) != key {
				t.Errorf("get %s: %q, %v", key, got, err)
			}
			if info, err := store.Stat(t.Context(), key); err != nil || info.Size != int64(len(key)) {
				t.Errorf("stat %s: %+v, %v", key, info, err)
			}
		}
		if got := keys(t, whole, "", ""); !slices.Equal(got, names) {
			t.Errorf("names are %q, want %q", got, names)
		}
		for i, after := range awkward {
			if got := keys(t, store, "", after); !slices.Equal(got, awkward[i+1:]) {
				t.Errorf("after %s: %q, want %q", after, got, awkward[i+1:])
			}
		}
		if got := keys(t, store, "a../", ""); !slices.Equal(got, awkward[:1]) {
			t.Errorf("with prefix a../: %q", got)
		}
		for _, key := range awkward {
			if err := store.Delete(t.Context(), key); err != nil {
				t.Error(err)
			}
		}
		if got := keys(t, whole, "", ""); len(got) > 0 {
			t.Errorf("left: %q", got)
		}
	})
}

// TestDamagedUpload sends other bytes than were summed up before: the store must
// notice.
func TestDamagedUpload(t *testing.T) {
	eachServer(t, func(t *testing.T, k kind) {
		store := k.open(t, "")
		body := &changingBody{Body: strings.NewReader(strings.Repeat("content", 100_000))}
		_, err := store.Put(t.Context(), "key", body, objectstore.PutOptions{})
		if !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("%v, want the store to refuse", err)
		}
		if _, err := store.Stat(t.Context(), "key"); !errors.Is(err, objectstore.ErrNotExist) {
			t.Errorf("the damaged object is there: %v", err)
		}
	})
}

// changingBody has one other byte when it is read for the second time.
type changingBody struct {
	objectstore.Body
	reads atomic.Int64
}

func (b *changingBody) ReadAt(p []byte, off int64) (int, error) {
	n, err := b.Body.ReadAt(p, off)
	if n > 0 && b.reads.Add(int64(n)) > b.Size() {
		p[0] ^= 1
	}
	return n, err
}

// TestPutIsNotSeenInPart stops an upload before its last byte, and fails it
// there. The suite cannot: it stops the first reading of the body, and these
// stores read it twice.
func TestPutIsNotSeenInPart(t *testing.T) {
	eachServer(t, func(t *testing.T, k kind) {
		for name, end := range map[string]error{"whole": nil, "broken": errors.New("the disk is gone")} {
			store := k.open(t, name)
			body := &gatedBody{Body: strings.NewReader(strings.Repeat("content", 1_000_000)), reached: make(chan struct{}), gate: make(chan struct{}), end: end}
			done := make(chan error, 1)
			go func() {
				_, err := store.Put(t.Context(), "key", body, objectstore.PutOptions{IfAbsent: true})
				done <- err
			}()
			<-body.reached
			wantNothing(t, store)
			close(body.gate)
			err := <-done
			if !errors.Is(err, end) {
				t.Errorf("%s: put: %v, want %v", name, err, end)
			}
			if end != nil {
				wantNothing(t, store)
			} else if info, err := store.Stat(t.Context(), "key"); err != nil || info.Size != body.Size() {
				t.Errorf("stat after the put: %+v, %v", info, err)
			}
		}
	})
}

func wantNothing(t *testing.T, s objectstore.Store) {
	t.Helper()
	if _, err := s.Stat(t.Context(), "key"); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("stat: %v", err)
	}
	if got := keys(t, s, "", ""); len(got) != 0 {
		t.Errorf("listed: %q", got)
	}
}

// gatedBody stops the second reading of its last byte, which then may fail.
type gatedBody struct {
	objectstore.Body
	ends          int
	reached, gate chan struct{}
	end           error
}

func (b *gatedBody) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) >= b.Size() {
		if b.ends++; b.ends == 2 {
			close(b.reached)
			<-b.gate
		}
		if b.ends >= 2 && b.end != nil {
			return 0, b.end
		}
	}
	return b.Body.ReadAt(p, off)
}

// TestPrefixesDoNotMix opens stores of one bucket whose prefixes start alike.
func TestPrefixesDoNotMix(t *testing.T) {
	eachServer(t, func(t *testing.T, k kind) {
		stores := map[string]*cloud.Store{}
		for _, prefix := range []string{"p", "p/q", "p-", "pp"} {
			stores[prefix] = k.open(t, prefix)
			mustPut(t, stores[prefix], "key", prefix)
		}
		for prefix, want := range map[string][]string{"p": {"key", "q/key"}, "p/q": {"key"}, "p-": {"key"}, "pp": {"key"}} {
			if got := keys(t, stores[prefix], "", ""); !slices.Equal(got, want) {
				t.Errorf("prefix %s lists %q, want %q", prefix, got, want)
			}
			if got, err := objectstore.ReadAll(t.Context(), stores[prefix], "key", 100); err != nil || string(got) != prefix {
				t.Errorf("prefix %s reads %q, %v", prefix, got, err)
			}
		}
	})
}
