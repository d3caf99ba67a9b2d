package cloud

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

func silentLog() *log.Logger { return log.New(io.Discard, "", 0) }

// TestConditions looks at what a conditional put asks of the store.
func TestConditions(t *testing.T) {
	var got string
	handler := func(w http.ResponseWriter, r *http.Request) {
		got = fmt.Sprint(r.URL.Query()["ifGenerationMatch"], r.Header["If-None-Match"], r.Header["If-Match"])
		w.WriteHeader(http.StatusPreconditionFailed)
	}
	want := map[string][]string{
		"google": {"[] [] []", "[0] [] []", "[17] [] []"},
		"azure":  {"[] [] []", "[] [*] []", `[] [] ["17"]`},
	}
	eachKind(t, handler, func(t *testing.T, s *Store, f *fake) {
		_, kind, _ := strings.Cut(t.Name(), "/")
		for i, opts := range []objectstore.PutOptions{{}, {IfAbsent: true}, {IfMatch: "17"}} {
			sentinel := objectstore.ErrPrecondition
			if opts.IfAbsent {
				sentinel = objectstore.ErrExist
			}
			wantFailure(t, put(t.Context(), s, opts), opPut, sentinel)
			if got != want[kind][i] {
				t.Errorf("%+v: conditions are %s, want %s", opts, got, want[kind][i])
			}
		}
	})
}

// TestForeignETags are of no object: nobody is asked.
func TestForeignETags(t *testing.T) {
	eachKind(t, http.NotFound, func(t *testing.T, s *Store, f *fake) {
		etags := []string{"a b", "\"", "x\r\ny", "ä"}
		if _, google := s.service.(*google); google {
			etags = append(etags, "*", "x", "0", "-1", "1.5", "99999999999999999999")
		}
		for _, etag := range etags {
			wantFailure(t, put(t.Context(), s, objectstore.PutOptions{IfMatch: etag}), opPut, objectstore.ErrPrecondition)
		}
		if n := f.requests.Load(); n > 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestEnvironment sets what the SDKs look at: nothing of it counts.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"STORAGE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST_GRPC", "AZURE_STORAGE_DOMAIN", "HTTP_PROXY", "HTTPS_PROXY"} {
		t.Setenv(name, "127.0.0.1:1")
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere")
	t.Setenv("AZURE_STORAGE_ACCOUNT", "other")
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=other;AccountKey=b3RoZXI=")
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-ms-error-code", "Seen")
		w.WriteHeader(http.StatusBadRequest)
	}
	eachKind(t, handler, func(t *testing.T, s *Store, f *fake) {
		for op, call := range calls {
			wantFailure(t, call(t.Context(), s), op, nil, "(400)")
		}
		if n := f.requests.Load(); n != 5 {
			t.Errorf("%d requests reached the server, want 5", n)
		}
	})
}

// brokenBody fails at its end when it is read for the second time.
type brokenBody struct {
	objectstore.Body
	ends int
}

var errBroken = errors.New("the disk is gone")

func (b *brokenBody) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) >= b.Size() {
		if b.ends++; b.ends > 1 {
			return 0, errBroken
		}
	}
	return b.Body.ReadAt(p, off)
}

// TestBrokenBody has a body whose end cannot be read: the request must not look
// complete.
func TestBrokenBody(t *testing.T) {
	seen := make(chan error, 1)
	handler := func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		seen <- err
	}
	eachKind(t, handler, func(t *testing.T, s *Store, f *fake) {
		body := &brokenBody{Body: strings.NewReader(strings.Repeat("x", 1<<20))}
		_, err := s.Put(t.Context(), "key", body, objectstore.PutOptions{})
		if !errors.Is(err, errBroken) {
			t.Errorf("put: %v", err)
		}
		if err := <-seen; err == nil {
			t.Error("the store has got a complete request")
		}
	})
}

// TestCutDownload breaks the connection in the middle of an answer: the SDKs do
// not go on by themselves.
func TestCutDownload(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "01234")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	eachKind(t, handler, func(t *testing.T, s *Store, f *fake) {
		reader, err := s.Get(t.Context(), "key", objectstore.Range{})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		data, err := io.ReadAll(reader)
		if string(data) != "01234" {
			t.Errorf("read %q", data)
		}
		wantFailure(t, err, opGet, objectstore.ErrUnavailable, "after 5 of 10 bytes")
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v is no unexpected EOF", err)
		}
		if n := f.requests.Load(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// TestDamagedDownload has a checksum that is of another content.
func TestDamagedDownload(t *testing.T) {
	store, _ := googleThat(t, func(w http.ResponseWriter) {
		w.Header().Set("X-Goog-Hash", "crc32c=AAAAAA==")
		serve(w, "content")
	})
	wantFailure(t, calls[opGet](t.Context(), store), opGet, objectstore.ErrUnavailable, "CRC")
}

// TestRangesThatAreNot has answers that are of other ranges than was asked for.
func TestRangesThatAreNot(t *testing.T) {
	for _, answer := range []struct {
		status int
		r      string
		body   string
	}{
		{http.StatusOK, "", "0123456789"},
		{http.StatusPartialContent, "bytes 3-4/10", "34"},
		{http.StatusPartialContent, "bytes 2-3/10", "23"},
		{http.StatusPartialContent, "bytes 2-4/10", "23"},
		{http.StatusPartialContent, "bytes 2-4/4", "234"},
		{http.StatusPartialContent, "bytes 2-1/2", ""},
		{http.StatusPartialContent, "nonsense", "234"},
	} {
		handler := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Content-Length", fmt.Sprint(len(answer.body)))
			if answer.r != "" {
				w.Header().Set("Content-Range", answer.r)
			}
			w.WriteHeader(answer.status)
			io.WriteString(w, answer.body)
		}
		eachKind(t, handler, func(t *testing.T, s *Store, f *fake) {
			if err := get(t.Context(), s, objectstore.Range{Offset: 2, Length: 3}); err == nil {
				t.Errorf("%d %q is taken for bytes 2 to 4", answer.status, answer.r)
			}
		})
	}
}

// TestDisorder has listings that are not in the order of bytes.
func TestDisorder(t *testing.T) {
	disorder := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("pageToken") == "" {
			item := `{"name":"root/key/b","size":"1","generation":"1"}`
			fmt.Fprintf(w, `{"nextPageToken":"t","items":[%s%s]}`, item, strings.Repeat(`,{"name":"root/key/ "}`, pageSize-1))
			return
		}
		io.WriteString(w, `{"items":[{"name":"root/key/a","size":"1","generation":"1"}]}`)
	}
	f := newFake(t, disorder)
	wantFailure(t, calls[opList](t.Context(), openGoogleAt(t, f.gcs())), opList, nil, "not in order: key/a comes behind key/b")

	f = newFake(t, func(w http.ResponseWriter, r *http.Request) { azureListing(w, blobItem("b", ""), blobItem("a", "")) })
	wantFailure(t, calls[opList](t.Context(), openAzureAt(t, f.azure())), opList, nil, "not in order: key/a comes behind key/b")

	f = newFake(t, func(w http.ResponseWriter, r *http.Request) { azureListing(w, blobItem("a", "directory")) })
	wantFailure(t, calls[opList](t.Context(), openAzureAt(t, f.azure())), opList, nil, "hierarchical namespace")
}

func azureListing(w http.ResponseWriter, items ...string) {
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>%s</Blobs><NextMarker/></EnumerationResults>`,
		strings.Join(items, ""))
}

func blobItem(name, kind string) string {
	return fmt.Sprintf(`<Blob><Name>root/key/%s</Name><Properties><Last-Modified>Mon, 02 Jan 2006 15:04:05 GMT</Last-Modified>`+
		`<Etag>0x1</Etag><ResourceType>%s</ResourceType><Content-Length>1</Content-Length></Properties></Blob>`, name, kind)
}

// sizedBody has no content.
type sizedBody struct {
	bytes.Reader
	size int64
}

func (b *sizedBody) Size() int64 { return b.size }

func TestTooLarge(t *testing.T) {
	eachKind(t, http.NotFound, func(t *testing.T, s *Store, f *fake) {
		_, err := s.Put(t.Context(), "key", &sizedBody{size: s.service.maxSize() + 1}, objectstore.PutOptions{})
		wantFailure(t, err, opPut, ErrTooLarge, "are allowed")
	})
}
