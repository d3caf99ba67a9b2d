package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// fake is a server that answers as the stores do when things go wrong: what the
// emulators cannot be made to do.
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

func (f *fake) gcs() GCSOptions {
	return GCSOptions{Bucket: "bucket", Prefix: "root", Endpoint: f.URL, Credentials: AnonymousGoogle()}
}

func (f *fake) azure() AzureOptions {
	return AzureOptions{
		Account:     "account",
		Container:   "container",
		Prefix:      "root",
		Endpoint:    f.URL,
		Credentials: AzureSharedKey("c2VjcmV0"),
	}
}

func openGoogleAt(t *testing.T, options GCSOptions) *Store {
	t.Helper()
	return opened(t)(OpenGCS(t.Context(), options))
}

func openAzureAt(t *testing.T, options AzureOptions) *Store {
	t.Helper()
	return opened(t)(OpenAzure(t.Context(), options))
}

func opened(t *testing.T) func(*Store, error) *Store {
	return func(store *Store, err error) *Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
}

// eachKind runs a test with a store of each kind at a server with this handler.
func eachKind(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, s *Store, f *fake)) {
	t.Helper()
	t.Run("google", func(t *testing.T) {
		f := newFake(t, handler)
		test(t, openGoogleAt(t, f.gcs()), f)
	})
	t.Run("azure", func(t *testing.T) {
		f := newFake(t, handler)
		test(t, openAzureAt(t, f.azure()), f)
	})
}

// refuseAsGoogle answers with an error of Google's JSON API.
func refuseAsGoogle(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.Header().Set("X-GUploader-UploadID", "REQUEST7")
	w.WriteHeader(status)
	quoted, _ := json.Marshal(message)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":%s,"errors":[{"message":%[2]s,"domain":"global","reason":%q}]}}`,
		status, quoted, reason)
}

// refuseAsAzure answers with an error of Azure.
func refuseAsAzure(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("x-ms-error-code", code)
	w.Header().Set("x-ms-request-id", "REQUEST7")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
}

// serve answers a Get of either kind with a whole object.
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
		t.Errorf("%s: error %v is a %T, want *objectstore.Error", op, err, err)
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
