package s3

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// TestShortAnswers ends the body of an answer early, in every way in which
// connections do that.
func TestShortAnswers(t *testing.T) {
	content := string(pattern(1 << 20))
	for name, end := range map[string]func(w http.ResponseWriter){
		"closed": func(w http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"reset":  reset,
	} {
		store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			io.WriteString(w, content[:1000])
			http.NewResponseController(w).Flush()
			end(w)
		})
		reader, err := store.Get(t.Context(), "key", objectstore.Range{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(reader)
		t.Run(name, func(t *testing.T) {
			wantFailure(t, err, opGet, objectstore.ErrUnavailable, "of 1048576 bytes", "s3://bucket/root/key")
		})
		if name == "closed" && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v is not an unexpected end", name, err)
		}
		if !strings.HasPrefix(content, string(got)) {
			t.Errorf("%s: read bytes that were not sent", name)
		}
		if err := reader.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
}

// TestWrongRanges answers with other bytes than were asked for.
func TestWrongRanges(t *testing.T) {
	const content = "0123456789"
	for _, test := range []struct {
		name         string
		r            objectstore.Range
		status       int
		contentRange string
		body         string
		want         string // what is read, or
		refused      string // why not
	}{
		{name: "as asked", r: objectstore.Range{Offset: 2, Length: 3}, status: 206, contentRange: "bytes 2-4/10", body: "234", want: "234"},
		{name: "cut at the end", r: objectstore.Range{Offset: 8, Length: 5}, status: 206, contentRange: "bytes 8-9/10", body: "89", want: "89"},
		{name: "to the end", r: objectstore.Range{Offset: 8}, status: 206, contentRange: "bytes 8-9/10", body: "89", want: "89"},
		{name: "all instead of a start", r: objectstore.Range{Length: 3}, status: 200, body: content, want: "012"},
		{name: "all is what was asked", r: objectstore.Range{Length: 30}, status: 200, body: content, want: content},
		{name: "range ignored", r: objectstore.Range{Offset: 2}, status: 200, body: content, refused: "ignores the range"},
		{name: "other offset", r: objectstore.Range{Offset: 2}, status: 206, contentRange: "bytes 3-9/10", body: content[3:], refused: `range "bytes 3-9/10"`},
		{name: "too much", r: objectstore.Range{Offset: 2, Length: 3}, status: 206, contentRange: "bytes 2-5/10", body: "2345", refused: `4 bytes of range`},
		{name: "too little", r: objectstore.Range{Offset: 2, Length: 3}, status: 206, contentRange: "bytes 2-3/10", body: "23", refused: `2 bytes of range`},
		{name: "not to the end", r: objectstore.Range{Offset: 2}, status: 206, contentRange: "bytes 2-3/10", body: "23", refused: `2 bytes of range`},
		{name: "body is shorter", r: objectstore.Range{Offset: 2}, status: 206, contentRange: "bytes 2-9/10", body: "23", refused: `2 bytes of range`},
		{name: "size unknown", r: objectstore.Range{Offset: 8}, status: 206, contentRange: "bytes 8-9/*", body: "89", refused: `Content-Range "bytes 8-9/*"`},
		{name: "no range", r: objectstore.Range{Offset: 2}, status: 206, body: content[2:], refused: `Content-Range ""`},
	} {
		store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			if test.contentRange != "" {
				w.Header().Set("Content-Range", test.contentRange)
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(test.body)))
			w.WriteHeader(test.status)
			io.WriteString(w, test.body)
		})
		reader, err := store.Get(t.Context(), "key", test.r)
		if test.refused != "" {
			t.Run(test.name, func(t *testing.T) { wantFailure(t, err, opGet, nil, test.refused) })
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		got, err := io.ReadAll(reader)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: read %q, %v, want %q", test.name, got, err, test.want)
		}
		reader.Close()
	}
}

func TestRangeHeaders(t *testing.T) {
	for _, test := range []struct {
		r    objectstore.Range
		want string
	}{
		{objectstore.Range{}, ""},
		{objectstore.Range{Length: 1}, "bytes=0-0"},
		{objectstore.Range{Offset: 1}, "bytes=1-"},
		{objectstore.Range{Offset: 1, Length: 1}, "bytes=1-1"},
		{objectstore.Range{Offset: 5, Length: math.MaxInt64 - 5}, "bytes=5-9223372036854775806"},
		{objectstore.Range{Offset: 5, Length: math.MaxInt64}, "bytes=5-"},
		{objectstore.Range{Length: math.MaxInt64}, "bytes=0-9223372036854775806"},
	} {
		options, err := getOptions("key", test.r)
		if got := options.Header().Get("Range"); err != nil || got != test.want {
			t.Errorf("%+v: %q, %v, want %q", test.r, got, err, test.want)
		}
	}
}

// TestStartOfEmptyObject asks for the first bytes of an object that has none:
// S3 calls that range invalid.
func TestStartOfEmptyObject(t *testing.T) {
	size := "0"
	store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Content-Length", size)
			return
		}
		refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "x")
	})
	if err := get(t.Context(), store, objectstore.Range{Length: 5}); err != nil {
		t.Errorf("get of an empty object: %v", err)
	}
	wantFailure(t, get(t.Context(), store, objectstore.Range{Offset: 1}), opGet, objectstore.ErrRange)
	size = "7"
	wantFailure(t, get(t.Context(), store, objectstore.Range{Length: 5}), opGet, objectstore.ErrRange)
}

// TestConnectionsAreUsedAgain reads objects to their end and others not: what
// is closed early costs its connection, and leaks nothing.
func TestConnectionsAreUsedAgain(t *testing.T) {
	content := string(pattern(4 << 20))
	clients := map[string]bool{}
	store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
		clients[r.RemoteAddr] = true
		serve(w, content)
	})
	for range 10 {
		if err := get(t.Context(), store, objectstore.Range{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(clients) != 1 {
		t.Errorf("10 whole reads took %d connections, want 1", len(clients))
	}
	for range 10 {
		reader, err := store.Get(t.Context(), "key", objectstore.Range{})
		if err != nil {
			t.Fatal(err)
		}
		io.CopyN(io.Discard, reader, 10)
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := get(t.Context(), store, objectstore.Range{}); err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsDecompressed(t *testing.T) {
	gzip := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0}
	store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" && r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("Accept-Encoding: %s", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		serve(w, string(gzip))
	})
	got, err := objectstore.ReadAll(t.Context(), store, "key", 100)
	if err != nil || !bytes.Equal(got, gzip) {
		t.Errorf("read %x, %v, want the bytes as they are", got, err)
	}
}
