package cloud

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// pipes connects a store with a server in the same bubble, where time passes
// only when everybody waits.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// inBubble runs a test with a store of each kind at a server with this handler.
func inBubble(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, s *Store)) {
	t.Helper()
	connections := map[string]func(t *testing.T, transport *http.Transport) (*Store, error){
		"google": func(t *testing.T, transport *http.Transport) (*Store, error) {
			options := GCSOptions{Bucket: "bucket", Endpoint: "http://store", Credentials: AnonymousGoogle()}
			options.Connection = options.Connection.withDefaults()
			return connectGCS(t.Context(), options, transport)
		},
		"azure": func(t *testing.T, transport *http.Transport) (*Store, error) {
			options := AzureOptions{Account: "account", Container: "container", Endpoint: "http://store", Credentials: AnonymousAzure()}
			options.Connection = options.Connection.withDefaults()
			return connectAzure(t.Context(), options, transport)
		},
	}
	for name, connect := range connections {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { besideServer(t, handler, connect, test) })
		})
	}
}

func besideServer(t *testing.T, handler http.HandlerFunc, connect func(*testing.T, *http.Transport) (*Store, error), test func(*testing.T, *Store)) {
	t.Helper()
	transport, err := newTransport(Connection{})
	if err != nil {
		t.Fatal(err)
	}
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	transport.DialContext = listener.dial
	server := &http.Server{Handler: handler}
	go server.Serve(listener)
	defer server.Shutdown(context.Background()) // waits for its handlers
	store, err := connect(t, transport)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	test(t, store)
}

// silence takes a request and lets its client wait until that gives up. Only a
// server that has read the body notices.
func silence(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func wantTime(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(start); took != want {
		t.Errorf("it took %v, want %v", took, want)
	}
}

func TestNoAnswer(t *testing.T) {
	inBubble(t, silence, func(t *testing.T, s *Store) {
		for op, call := range calls {
			start := time.Now()
			wantFailure(t, call(t.Context(), s), op, objectstore.ErrUnavailable, "no answer within 1m0s")
			wantTime(t, start, time.Minute)
		}
	})
}

// TestLargeUploadHasMoreTime puts 4 MiB at a server that reads them and says
// nothing: 1024 seconds more at 4 KiB a second.
func TestLargeUploadHasMoreTime(t *testing.T) {
	inBubble(t, silence, func(t *testing.T, s *Store) {
		start := time.Now()
		_, err := s.Put(t.Context(), "key", bytes.NewReader(make([]byte, 4<<20)), objectstore.PutOptions{})
		wantFailure(t, err, opPut, objectstore.ErrUnavailable, "no answer within 18m4s")
		wantTime(t, start, time.Minute+1024*time.Second)
	})
}

// dribble serves so many bytes one by one, with a pause before each but the
// first, as the body of an object that is larger.
func dribble(bytes int, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		w.Header().Set("Content-Length", "1000000")
		for range bytes {
			io.WriteString(w, "x")
			http.NewResponseController(w).Flush()
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
			}
		}
		silence(w, r)
	}
}

func TestStalledDownload(t *testing.T) {
	inBubble(t, dribble(5, 0), func(t *testing.T, s *Store) {
		start := time.Now()
		reader, err := s.Get(t.Context(), "key", objectstore.Range{})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		data, err := io.ReadAll(reader)
		if string(data) != "xxxxx" {
			t.Errorf("read %q before the stall", data)
		}
		wantFailure(t, err, opGet, objectstore.ErrUnavailable, "no byte within 1m0s", "after 5 of 1000000 bytes")
		wantTime(t, start, time.Minute)
	})
}

// TestDribble reads one byte each 50 seconds: it never stalls, and would take
// more than a year.
func TestDribble(t *testing.T) {
	inBubble(t, dribble(1000, 50*time.Second), func(t *testing.T, s *Store) {
		start := time.Now()
		wantFailure(t, get(t.Context(), s, objectstore.Range{}), opGet, objectstore.ErrUnavailable, "all not within 5m4s")
		wantTime(t, start, time.Minute+244*time.Second) // 1,000,000 bytes at 4096 a second
	})
}

// TestSlowReader takes an hour between two reads.
func TestSlowReader(t *testing.T) {
	content := strings.Repeat("0123456789", 100_000)
	inBubble(t, func(w http.ResponseWriter, r *http.Request) { serve(w, content) }, func(t *testing.T, s *Store) {
		reader, err := s.Get(t.Context(), "key", objectstore.Range{})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		var got bytes.Buffer
		for err == nil {
			time.Sleep(time.Hour)
			_, err = io.CopyN(&got, reader, 100_000)
		}
		if err != io.EOF || got.String() != content {
			t.Errorf("read %d of %d bytes: %v", got.Len(), len(content), err)
		}
	})
}

// TestCancel gives up calls that wait, in the middle of an answer and before.
func TestCancel(t *testing.T) {
	inBubble(t, silence, func(t *testing.T, s *Store) {
		for op, call := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			wantFailure(t, call(ctx, s), op, context.DeadlineExceeded)
			wantTime(t, start, time.Second)
			cancel()
		}
	})
	inBubble(t, dribble(5, 0), func(t *testing.T, s *Store) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("enough")) })
		wantFailure(t, get(ctx, s, objectstore.Range{}), opGet, context.Canceled)
	})
}
