package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// fake is a server that answers as S3 does when things go wrong: what a real
// one cannot be made to do.
type fake struct {
	*httptest.Server
	requests atomic.Int64
}

func newFake(t *testing.T, handler http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		handler(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) options() Options {
	return Options{
		Bucket:      "bucket",
		Prefix:      "root",
		Endpoint:    f.URL,
		Credentials: StaticCredentials("access", "secret", ""),
	}
}

func openAt(t *testing.T, options Options) *Store {
	t.Helper()
	store, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// newFakeStore opens a store at a server with this handler.
func newFakeStore(t *testing.T, handler http.HandlerFunc) (*Store, *fake) {
	t.Helper()
	f := newFake(t, handler)
	return openAt(t, f.options()), f
}

// refuse answers with an error of S3.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message>`+
		`<RequestId>REQUEST7</RequestId></Error>`, code, message)
}

// serve answers a Get with a whole object.
func serve(w http.ResponseWriter, content string) {
	w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	w.Header().Set("ETag", `"etag"`)
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	io.WriteString(w, content)
}

// calls are all methods of a store on the key "key", each to its end.
var calls = map[string]func(ctx context.Context, s *Store) error{
	opPut: func(ctx context.Context, s *Store) error { return put(ctx, s, objectstore.PutOptions{}) },
	opGet: func(ctx context.Context, s *Store) error { return get(ctx, s, objectstore.Range{}) },
	opStat: func(ctx context.Context, s *Store) error {
		_, err := s.Stat(ctx, "key")
		return err
	},
	opList: func(ctx context.Context, s *Store) error {
		for _, err := range s.List(ctx, "key", "") {
			if err != nil {
				return err
			}
		}
		return nil
	},
	opDelete: func(ctx context.Context, s *Store) error { return s.Delete(ctx, "key") },
}

func put(ctx context.Context, s *Store, opts objectstore.PutOptions) error {
	_, err := s.Put(ctx, "key", strings.NewReader("content"), opts)
	return err
}

func get(ctx context.Context, s *Store, r objectstore.Range) error {
	reader, err := s.Get(ctx, "key", r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, reader)
	return errors.Join(err, reader.Close())
}

var sentinels = []error{
	objectstore.ErrNotExist, objectstore.ErrExist, objectstore.ErrPrecondition, objectstore.ErrRange,
	objectstore.ErrThrottled, objectstore.ErrUnavailable, objectstore.ErrDenied, objectstore.ErrNoSpace,
	objectstore.ErrInvalidKey, ErrNoBucket, ErrTooLarge, context.Canceled, context.DeadlineExceeded,
}

// wantFailure checks the error of a call on "key": it is of the one sentinel,
// or of none if that is nil, and says all of the texts.
func wantFailure(t *testing.T, err error, op string, sentinel error, texts ...string) {
	t.Helper()
	var e *objectstore.Error
	if !errors.As(err, &e) {
		t.Errorf("error %v is a %T, want *objectstore.Error", err, err)
		return
	}
	if e.Op != op || e.Key != "key" {
		t.Errorf("error is of %s %s, want %s key", e.Op, e.Key, op)
	}
	for _, s := range sentinels {
		if errors.Is(err, s) != (s == sentinel) {
			t.Errorf("%v: is %q: %v, want %q", err, s, errors.Is(err, s), sentinel)
		}
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}

// pattern is content of which every part is different.
func pattern(size int) []byte {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}
