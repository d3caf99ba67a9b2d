package s3

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// TestAnswers sends every error of S3 that means something to every method.
func TestAnswers(t *testing.T) {
	withoutBody := []string{opStat}
	for _, test := range []struct {
		status   int
		code     string
		message  string
		sentinel error
		not      []string // methods to which it means something else
		texts    []string
	}{
		{404, "NoSuchKey", "", objectstore.ErrNotExist, []string{opStat, opDelete, opList}, []string{"s3://bucket/root/key at 127.0.0.1"}},
		{404, "NoSuchBucket", "The bucket is not there", ErrNoBucket, nil, []string{"make the bucket first"}},
		{503, "SlowDown", "Please reduce your request rate", objectstore.ErrThrottled, withoutBody, []string{"SlowDown: Please reduce your request rate (503, request REQUEST7)"}},
		{503, "SlowDownRead", "x", objectstore.ErrThrottled, withoutBody, nil},
		{429, "TooManyRequests", "x", objectstore.ErrThrottled, nil, nil},
		{400, "RequestLimitExceeded", "x", objectstore.ErrThrottled, withoutBody, nil},
		{403, "AccessDenied", "Access Denied", objectstore.ErrDenied, nil, nil},
		{403, "AccessDenied", "Access Denied", objectstore.ErrDenied, []string{opPut, opList, opDelete}, []string{"may not list the bucket"}},
		{401, "Unauthorized", "x", objectstore.ErrDenied, nil, nil},
		{403, "SignatureDoesNotMatch", "x", objectstore.ErrDenied, nil, nil},
		{403, "InvalidAccessKeyId", "x", objectstore.ErrDenied, withoutBody, []string{"does not know this access key"}},
		{403, "RequestTimeTooSkewed", "The difference is too large.", objectstore.ErrDenied, withoutBody, []string{"the clock of this machine is wrong"}},
		{400, "ExpiredToken", "x", objectstore.ErrDenied, withoutBody, []string{"temporary credentials have expired"}},
		{400, "ExpiredToken", "x", nil, []string{opPut, opGet, opList, opDelete}, []string{"credentials have expired"}},
		{507, "XMinioStorageFull", "x", objectstore.ErrNoSpace, nil, nil},
		{403, "QuotaExceeded", "x", objectstore.ErrNoSpace, withoutBody, nil},
		{400, "XMinioAdminBucketQuotaExceeded", "x", objectstore.ErrNoSpace, withoutBody, nil},
		{500, "InternalError", "x", objectstore.ErrUnavailable, nil, nil},
		{502, "BadGateway", "x", objectstore.ErrUnavailable, nil, nil},
		{503, "ServiceUnavailable", "x", objectstore.ErrUnavailable, nil, nil},
		{400, "RequestTimeout", "x", objectstore.ErrUnavailable, withoutBody, nil},
		{409, "OperationAborted", "x", objectstore.ErrUnavailable, withoutBody, nil},
		{400, "BadDigest", "x", objectstore.ErrUnavailable, withoutBody, nil},
		{501, "NotImplemented", "x", nil, nil, nil},
		{501, "NotImplemented", "x", nil, []string{opGet, opStat, opList, opDelete}, []string{"checksum=md5"}},
		{403, "InvalidObjectState", "x", nil, withoutBody, []string{"archive"}},
		{400, "AuthorizationHeaderMalformed", "the region is wrong", nil, withoutBody, []string{"region us-east-1"}},
		{301, "PermanentRedirect", "x", nil, nil, []string{"region us-east-1"}},
		{405, "MethodNotAllowed", "x", nil, nil, []string{"(405"}},
		{400, "Strange", "bell \a and escape \x1b[31m " + strings.Repeat("long ", 200), nil, withoutBody, []string{"bell and escape", "..."}},
	} {
		t.Run(test.code, func(t *testing.T) {
			t.Parallel() // minio-go sleeps after some failures
			store, f := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
				refuse(w, test.status, test.code, test.message)
			})
			for op, call := range calls {
				if slices.Contains(test.not, op) {
					continue
				}
				texts := test.texts
				if op == opStat && test.code != "ExpiredToken" {
					texts = nil // an answer without a body cannot say that much
				}
				f.requests.Store(0)
				err := call(t.Context(), store)
				wantFailure(t, err, op, test.sentinel, texts...)
				if n := f.requests.Load(); n != 1 && (op != opStat || test.status != 404) {
					t.Errorf("%s: %d requests, want 1", op, n)
				}
				if strings.ContainsAny(err.Error(), "\a\x1b") || len(err.Error()) > 700 {
					t.Errorf("%s: error repeats what the server sent: %q", op, err)
				}
			}
		})
	}
}

func TestConditionsFail(t *testing.T) {
	ifAbsent := objectstore.PutOptions{IfAbsent: true}
	ifMatch := objectstore.PutOptions{IfMatch: "etag"}
	for _, test := range []struct {
		status int
		code   string
		opts   objectstore.PutOptions
		want   error
	}{
		{412, "PreconditionFailed", ifAbsent, objectstore.ErrExist},
		{412, "PreconditionFailed", ifMatch, objectstore.ErrPrecondition},
		{404, "NoSuchKey", ifMatch, objectstore.ErrPrecondition},
		{409, "ConditionalRequestConflict", ifAbsent, objectstore.ErrUnavailable},
		{409, "ConditionalRequestConflict", ifMatch, objectstore.ErrUnavailable},
		{404, "NoSuchBucket", ifMatch, ErrNoBucket},
	} {
		store, f := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
			refuse(w, test.status, test.code, "message")
		})
		err := put(t.Context(), store, test.opts)
		t.Run(test.code, func(t *testing.T) { wantFailure(t, err, opPut, test.want, "bucket/root/key") })
		if f.requests.Load() != 1 {
			t.Errorf("%s: %d requests, want 1", test.code, f.requests.Load())
		}
	}
}

// TestStrangers checks that a web server which knows nothing of S3 does not
// make objects look absent.
func TestStrangers(t *testing.T) {
	store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		w.Write([]byte("<html><body>404 page not found</body></html>"))
	})
	for op, want := range map[string]error{
		opGet: objectstore.ErrUnavailable, opPut: objectstore.ErrUnavailable, opList: objectstore.ErrUnavailable,
		opDelete: objectstore.ErrUnavailable, opStat: objectstore.ErrUnavailable,
	} {
		err := calls[op](t.Context(), store)
		wantFailure(t, err, op, want, "no S3 error", "is this the address of an S3 API?")
		if !Advised(err) {
			t.Errorf("%s: the error does not know that it says what to do", op)
		}
	}
}

func TestAdvice(t *testing.T) {
	for code, want := range map[string]bool{"RequestTimeTooSkewed": true, "SignatureDoesNotMatch": true, "SlowDown": false, "Strange": false} {
		store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) { refuse(w, http.StatusForbidden, code, "message") })
		if got := Advised(put(t.Context(), store, objectstore.PutOptions{})); got != want {
			t.Errorf("%s: advised is %v, want %v", code, got, want)
		}
	}
}

// TestStatFindsNothing answers HEAD with 404 and no reason, as all stores do.
func TestStatFindsNothing(t *testing.T) {
	for code, want := range map[string]error{
		"NoSuchKey":          objectstore.ErrNotExist,
		"NoSuchBucket":       ErrNoBucket,
		"XAdminUserNotFound": objectstore.ErrDenied,
		"Strange":            nil,
	} {
		store, f := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
			refuse(w, http.StatusNotFound, code, "message")
		})
		_, err := store.Stat(t.Context(), "key")
		t.Run(code, func(t *testing.T) { wantFailure(t, err, opStat, want, "bucket/root/key") })
		if n := f.requests.Load(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	}
}

// TestStatBesidePut puts the object between the two requests of Stat.
func TestStatBesidePut(t *testing.T) {
	first := true
	store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
		if first {
			first = false
			w.WriteHeader(http.StatusNotFound)
			return
		}
		serve(w, "content")
	})
	info, err := store.Stat(t.Context(), "key")
	if err != nil || info.Size != 7 || info.ETag != "etag" {
		t.Errorf("stat: %+v, %v", info, err)
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"":                              0,
		"7":                             7 * time.Second,
		"0":                             0,
		"-3":                            0,
		"nonsense":                      0,
		"Wed, 21 Oct 2015 07:28:00 GMT": 0, // over long ago
	} {
		store, _ := newFakeStore(t, func(w http.ResponseWriter, r *http.Request) {
			if header != "" {
				w.Header().Set("Retry-After", header)
			}
			refuse(w, http.StatusServiceUnavailable, "SlowDown", "x")
		})
		err := calls[opGet](t.Context(), store)
		wantFailure(t, err, opGet, objectstore.ErrThrottled)
		if got := objectstore.RetryAfter(err); got != want {
			t.Errorf("Retry-After %q: %v, want %v", header, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
		err := waiting(http.Header{"Retry-After": {at}}, objectstore.ErrUnavailable)
		if got := objectstore.RetryAfter(err); got != 90*time.Second {
			t.Errorf("Retry-After %s: %v", at, got)
		}
	})
}

func TestConnectionRefused(t *testing.T) {
	store, f := newFakeStore(t, nil)
	f.Close()
	for op, call := range calls {
		wantFailure(t, call(t.Context(), store), op, objectstore.ErrUnavailable, "connection refused", f.Listener.Addr().String())
	}
}

func TestHostWithoutAddress(t *testing.T) {
	store := openAt(t, Options{Bucket: "bucket", Endpoint: "https://s3.invalid", Credentials: StaticCredentials("a", "b", "")})
	notFound := true
	store.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "no such host", Name: "s3.invalid", IsNotFound: notFound, IsTemporary: !notFound,
		}}
	}
	wantFailure(t, calls[opGet](t.Context(), store), opGet, nil, "host s3.invalid has no address", "check the endpoint")
	notFound = false
	wantFailure(t, calls[opGet](t.Context(), store), opGet, objectstore.ErrUnavailable, "host s3.invalid has no address")
}

func newTLSServer(t *testing.T) *httptest.Server {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains about clients that do not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestUnknownCertificate(t *testing.T) {
	server := newTLSServer(t)
	options := Options{Bucket: "bucket", Endpoint: server.URL, Credentials: StaticCredentials("a", "b", "")}
	for op, call := range calls {
		err := call(t.Context(), openAt(t, options))
		wantFailure(t, err, op, nil, "no secure connection", "ca=FILE", server.Listener.Addr().String())
	}
}

func TestWrongScheme(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { refuse(w, 400, "x", "x") })
	options := f.options()
	options.Endpoint = strings.Replace(f.URL, "http:", "https:", 1)
	wantFailure(t, calls[opGet](t.Context(), openAt(t, options)), opGet, nil, "plain HTTP")

	server := newTLSServer(t)
	options.Endpoint = strings.Replace(server.URL, "https:", "http:", 1)
	wantFailure(t, calls[opGet](t.Context(), openAt(t, options)), opGet, nil, "write https://")
}
