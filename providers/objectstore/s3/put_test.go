package s3

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// TestPutRequest checks what a store is told, header by header.
func TestPutRequest(t *testing.T) {
	var got http.Header
	var body []byte
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("ETag", `"answered"`)
		w.Header().Set("Date", "Wed, 21 Oct 2015 07:28:00 GMT")
	})
	const none = ""
	for name, test := range map[string]struct {
		change func(*Options)
		put    objectstore.PutOptions
		want   map[string]string
	}{
		"plain": {func(*Options) {}, objectstore.PutOptions{}, map[string]string{
			"Content-Length": "7", "If-None-Match": none, "If-Match": none, "X-Amz-Storage-Class": none,
			"X-Amz-Server-Side-Encryption": none, "Content-Md5": none, "X-Amz-Decoded-Content-Length": none,
			"X-Amz-Checksum-Crc32c": checksum("content"),
			"X-Amz-Content-Sha256":  "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73",
		}},
		"if absent": {func(*Options) {}, objectstore.PutOptions{IfAbsent: true}, map[string]string{"If-None-Match": "*", "If-Match": none}},
		"if match":  {func(*Options) {}, objectstore.PutOptions{IfMatch: "e"}, map[string]string{"If-Match": `"e"`, "If-None-Match": none}},
		"md5": {func(o *Options) { o.Checksum = ChecksumMD5 }, objectstore.PutOptions{}, map[string]string{
			"Content-Md5": "mgNkuembtIDdJeHwKEyFVQ==", "X-Amz-Checksum-Crc32c": none,
		}},
		"storage class": {func(o *Options) { o.StorageClass = "STANDARD_IA" }, objectstore.PutOptions{IfAbsent: true}, map[string]string{
			"X-Amz-Storage-Class": "STANDARD_IA", "If-None-Match": "*",
		}},
		"encryption": {func(o *Options) { o.Encryption = EncryptAES256 }, objectstore.PutOptions{}, map[string]string{
			"X-Amz-Server-Side-Encryption": "AES256",
		}},
		"encryption with a key": {func(o *Options) { o.Encryption, o.KMSKey = EncryptKMS, "key" }, objectstore.PutOptions{}, map[string]string{
			"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "key",
		}},
	} {
		options := f.options()
		test.change(&options)
		info, err := openAt(t, options).Put(t.Context(), "key", strings.NewReader("content"), test.put)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if info.Key != "key" || info.Size != 7 || info.ETag != "answered" || info.ModTime.Year() != 2015 {
			t.Errorf("%s: put answers %+v", name, info)
		}
		if string(body) != "content" {
			t.Errorf("%s: sent %q", name, body)
		}
		for header, want := range test.want {
			if got.Get(header) != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got.Get(header), want)
			}
		}
	}
}

func checksum(content string) string {
	sum := crc32.Checksum([]byte(content), crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

func TestGoogleGetsMD5(t *testing.T) {
	options := Options{Bucket: "bucket", Endpoint: "https://storage.googleapis.com", Credentials: StaticCredentials("a", "b", "")}
	if store := openAt(t, options); !store.put.md5 {
		t.Error("Google does not know CRC32C in S3's header")
	}
	options.Endpoint = "https://s3.example.com"
	if store := openAt(t, options); store.put.md5 {
		t.Error("other stores do")
	}
}

type hugeBody struct{ objectstore.Body }

func (hugeBody) Size() int64 { return MaxSize + 1 }

func (hugeBody) ReadAt([]byte, int64) (int, error) { panic("read") }

func TestPutTooLarge(t *testing.T) {
	store, f := newFakeStore(t, nil)
	_, err := store.Put(t.Context(), "key", hugeBody{}, objectstore.PutOptions{})
	wantFailure(t, err, opPut, ErrTooLarge, "5368709121 bytes", "5368709120 are allowed")
	if f.requests.Load() != 0 {
		t.Error("a request was sent")
	}
}

// TestBodyFails reads a body that can be read once only: the checksum is right,
// the upload is not.
func TestBodyFails(t *testing.T) {
	store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	body := &onceBody{Body: bytes.NewReader(pattern(2 << 20))}
	_, err := store.Put(t.Context(), "key", body, objectstore.PutOptions{})
	wantFailure(t, err, opPut, nil)
	if !errors.Is(err, errOnce) {
		t.Errorf("put: %v, want the error of the body", err)
	}
}

var errOnce = errors.New("body cannot be read again")

type onceBody struct {
	objectstore.Body
	read atomic.Int64
}

func (b *onceBody) ReadAt(p []byte, off int64) (int, error) {
	n, err := b.Body.ReadAt(p, off)
	if b.read.Add(int64(n)) > b.Size()*3/2 {
		return 0, errOnce
	}
	return n, err
}

// TestBodyIsFreeAfterPut lets a server refuse uploads before it has read them,
// and changes the body as soon as Put returns: the race detector sees whoever
// still reads it.
func TestBodyIsFreeAfterPut(t *testing.T) {
	store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusForbidden, "AccessDenied", "x") // minio-go sleeps after what may be repeated
	})
	content := pattern(8 << 20)
	for range 20 {
		body := &watchedBody{Body: bytes.NewReader(content)}
		_, err := store.Put(t.Context(), "key", body, objectstore.PutOptions{})
		body.over.Store(true)
		clear(content)
		if !errors.Is(err, objectstore.ErrDenied) && !errors.Is(err, objectstore.ErrUnavailable) {
			t.Fatal(err)
		}
		runtime.Gosched()
		if body.late.Load() {
			t.Fatal("the body was read after Put had returned")
		}
	}
}

type watchedBody struct {
	objectstore.Body
	over, late atomic.Bool
}

func (b *watchedBody) ReadAt(p []byte, off int64) (int, error) {
	if b.over.Load() {
		b.late.Store(true)
	}
	return b.Body.ReadAt(p, off)
}

// TestUploadIsCut closes the connection in the middle of a body; the next Put
// must send all of it again.
func TestUploadIsCut(t *testing.T) {
	content := pattern(8 << 20)
	var got []byte
	first := true
	store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
		if first {
			first = false
			io.CopyN(io.Discard, r.Body, 1<<20)
			reset(w)
			return
		}
		got, _ = io.ReadAll(r.Body)
	})
	body := bytes.NewReader(content)
	_, err := store.Put(t.Context(), "key", body, objectstore.PutOptions{IfAbsent: true})
	wantFailure(t, err, opPut, objectstore.ErrUnavailable)
	if _, err = store.Put(t.Context(), "key", body, objectstore.PutOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, content) {
		t.Errorf("the second put sent %d bytes, want all %d", len(got), len(content))
	}
}

// TestAnswerIsLost stores an upload and closes the connection: nobody may be
// told that the object existed before.
func TestAnswerIsLost(t *testing.T) {
	store, f := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		reset(w)
	})
	wantFailure(t, put(t.Context(), store, objectstore.PutOptions{IfAbsent: true}), opPut, objectstore.ErrUnavailable)
	if n := f.requests.Load(); n != 1 {
		t.Errorf("%d requests: a second one would have found the object of the first", n)
	}
}

// reset closes the connection of a request with a reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// TestIdleConnectionIsDead takes a connection from the idle ones that takes no
// byte any more. Put must not fail: nothing of it was sent.
func TestIdleConnectionIsDead(t *testing.T) {
	var got []byte
	store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) { got, _ = io.ReadAll(r.Body) })
	var dead atomic.Bool
	store.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		first := !dead.Load()
		return &mortal{conn, func() bool { return first && dead.Load() }}, err
	}
	content := pattern(1 << 20)
	for range 2 {
		if _, err := store.Put(t.Context(), "key", bytes.NewReader(content), objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, content) {
			t.Errorf("sent %d bytes, want all %d", len(got), len(content))
		}
		dead.Store(true)
	}
}

type mortal struct {
	net.Conn
	dead func() bool
}

func (c *mortal) Write(p []byte) (int, error) {
	if c.dead() {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}
