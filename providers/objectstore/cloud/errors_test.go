package cloud

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// refusal is an error of a store and what all methods but those in not make of
// it.
type refusal struct {
	status   int
	code     string
	message  string
	sentinel error
	not      []string
	texts    []string
}

func (r refusal) check(t *testing.T, s *Store, f *fake) {
	t.Helper()
	for op, call := range calls {
		if slices.Contains(r.not, op) {
			continue
		}
		f.requests.Store(0)
		err := call(t.Context(), s)
		wantFailure(t, err, op, r.sentinel, r.texts...)
		if n := f.requests.Load(); n != 1 {
			t.Errorf("%s, %s: %d requests, want 1", r.code, op, n)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\u0085\u009b\n") || len(err.Error()) > 700) {
			t.Errorf("%s, %s: error is not short and plain: %q", r.code, op, err)
		}
	}
}

var long = "line\u0085and escape\u009b[31m " + strings.Repeat("long ", 200)

// TestGoogleAnswers sends every error of Google that means something to every
// method.
func TestGoogleAnswers(t *testing.T) {
	bucketOnly := []string{opPut, opList, opDelete}
	for _, r := range []refusal{
		{404, "notFound", "No such object: bucket/root/key", objectstore.ErrNotExist, bucketOnly, []string{"gs://bucket/root/key at 127.0.0.1"}},
		{404, "notFound", "Not Found", ErrNoBucket, []string{opGet, opStat, opDelete}, nil},
		{404, "notFound", "The specified bucket does not exist.", ErrNoBucket, nil, []string{"make it first"}},
		{412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.", objectstore.ErrPrecondition, nil, nil},
		{416, "requestedRangeNotSatisfiable", "Request range not satisfiable", objectstore.ErrRange, []string{opGet}, nil},
		{429, "rateLimitExceeded", "The object exceeded the rate limit", objectstore.ErrThrottled, nil, []string{"rateLimitExceeded: The object exceeded the rate limit (429, request REQUEST7)"}},
		{403, "userRateLimitExceeded", "x", objectstore.ErrThrottled, nil, nil},
		{429, "other", "x", objectstore.ErrThrottled, nil, nil},
		{401, "required", "Anonymous caller does not have storage.objects.get access", objectstore.ErrDenied, nil, []string{"Anonymous caller"}},
		{403, "forbidden", "x does not have storage.objects.create access", objectstore.ErrDenied, nil, nil},
		{403, "accountDisabled", "The billing account is disabled", objectstore.ErrDenied, nil, []string{"no account to pay with"}},
		{403, "quotaExceeded", "x", objectstore.ErrNoSpace, nil, nil},
		{400, "invalid", `Provided CRC32C "a" doesn't match calculated CRC32C "b".`, objectstore.ErrUnavailable, nil, nil},
		{409, "conflict", "x", objectstore.ErrUnavailable, nil, nil},
		{408, "requestTimeout", "x", objectstore.ErrUnavailable, nil, nil},
		{500, "internalError", "x", objectstore.ErrUnavailable, nil, nil},
		{503, "backendError", "x", objectstore.ErrUnavailable, nil, nil},
		{501, "notImplemented", "x", nil, nil, nil},
		{400, "invalid", long, nil, nil, []string{"line and escape", "..."}},
	} {
		store, f := googleThat(t, func(w http.ResponseWriter) { refuseAsGoogle(w, r.status, r.code, r.message) })
		r.check(t, store, f)
	}
}

func googleThat(t *testing.T, answer func(w http.ResponseWriter)) (*Store, *fake) {
	t.Helper()
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	return openGoogleAt(t, f.gcs()), f
}

// TestAzureAnswers sends every error of Azure that means something to every
// method. Those to Stat come without their body.
func TestAzureAnswers(t *testing.T) {
	bucketOnly := []string{opPut, opList, opDelete}
	for _, r := range []refusal{
		{404, "BlobNotFound", "x", objectstore.ErrNotExist, bucketOnly, []string{"azblob://account/container/root/key at 127.0.0.1"}},
		{404, "ContainerNotFound", "x", ErrNoBucket, nil, []string{"make it first"}},
		{404, "ResourceNotFound", "x", ErrNoBucket, nil, nil},
		{409, "ContainerBeingDeleted", "x", ErrNoBucket, nil, nil},
		{412, "ConditionNotMet", "x", objectstore.ErrPrecondition, nil, nil},
		{409, "BlobAlreadyExists", "x", objectstore.ErrPrecondition, nil, nil},
		{416, "InvalidRange", "x", objectstore.ErrRange, []string{opGet}, nil},
		{503, "ServerBusy", "x", objectstore.ErrThrottled, nil, []string{"ServerBusy", "(503, request REQUEST7)"}},
		{429, "TooManyRequests", "x", objectstore.ErrThrottled, nil, nil},
		{403, "AuthenticationFailed", "x", objectstore.ErrDenied, nil, []string{"key of this account"}},
		{403, "AuthorizationPermissionMismatch", "x", objectstore.ErrDenied, nil, nil},
		{409, "PublicAccessNotPermitted", "x", objectstore.ErrDenied, nil, nil},
		{409, "BlobImmutableDueToPolicy", "x", objectstore.ErrDenied, nil, nil},
		{400, "Md5Mismatch", "x", objectstore.ErrUnavailable, nil, nil},
		{500, "InternalError", "x", objectstore.ErrUnavailable, nil, nil},
		{500, "OperationTimedOut", "x", objectstore.ErrUnavailable, nil, nil},
		{503, "Other", "x", objectstore.ErrUnavailable, nil, nil},
		{412, "LeaseIdMissing", "x", nil, nil, []string{"lease"}},
		{409, "BlobArchived", "x", nil, nil, []string{"archive"}},
		{400, "InvalidHeaderValue", "x", nil, nil, []string{"version of the protocol"}},
		{400, "Strange", long, nil, []string{opStat}, []string{"line and escape", "..."}},
	} {
		f := newFake(t, func(w http.ResponseWriter, _ *http.Request) { refuseAsAzure(w, r.status, r.code, r.message) })
		r.check(t, openAzureAt(t, f.azure()), f)
	}
}

// TestGoogleDownloads has errors of the XML API, which downloads use.
func TestGoogleDownloads(t *testing.T) {
	for _, r := range []refusal{
		{404, "NoSuchKey", "The specified key does not exist.", objectstore.ErrNotExist, nil, nil},
		{404, "NoSuchBucket", "The specified bucket does not exist.", ErrNoBucket, nil, []string{"make it first"}},
		{503, "SlowDown", "x", objectstore.ErrThrottled, nil, []string{"SlowDown: x (503"}},
		{403, "AccessDenied", "Access denied.", objectstore.ErrDenied, nil, nil},
		{416, "InvalidRange", "x", objectstore.ErrRange, nil, nil},
	} {
		store, f := googleThat(t, func(w http.ResponseWriter) { refuseAsAzure(w, r.status, r.code, r.message) })
		wantFailure(t, get(t.Context(), store, objectstore.Range{Offset: 1}), opGet, r.sentinel, r.texts...)
		if n := f.requests.Load(); n != 1 {
			t.Errorf("%s: %d requests, want 1", r.code, n)
		}
	}
}

// TestStrangers has absence told by others than the store: nothing is absent.
func TestStrangers(t *testing.T) {
	for name, page := range map[string]string{"page": "<html><title>404</title></html>", "nothing": "", "JSON": `{"message":"no"}`} {
		handler := func(w http.ResponseWriter, r *http.Request) { http.Error(w, page, http.StatusNotFound) }
		eachKind(t, handler, func(t *testing.T, s *Store, f *fake) {
			for op, call := range calls {
				t.Log(op, name)
				wantFailure(t, call(t.Context(), s), op, objectstore.ErrUnavailable, "is this the address of the store?")
			}
		})
	}
}

// TestRedirections are not followed: what is signed is for the store.
func TestRedirections(t *testing.T) {
	elsewhere := newFake(t, func(w http.ResponseWriter, r *http.Request) { serve(w, "content") })
	handler := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }
	eachKind(t, handler, func(t *testing.T, s *Store, f *fake) {
		for op, call := range calls {
			wantFailure(t, call(t.Context(), s), op, nil, "(302)")
		}
	})
	if n := elsewhere.requests.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

func TestWaiting(t *testing.T) {
	for after, want := range map[string]time.Duration{"7": 7 * time.Second, "0": 0, "soon": 0, "": 0} {
		handler := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", after)
			refuseAsAzure(w, http.StatusServiceUnavailable, "ServerBusy", "x")
		}
		eachKind(t, handler, func(t *testing.T, s *Store, f *fake) {
			for op, call := range calls {
				if got := objectstore.RetryAfter(call(t.Context(), s)); got != want {
					t.Errorf("%s: Retry-After %q is %v, want %v", op, after, got, want)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		header := http.Header{"Retry-After": {time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)}}
		if got := objectstore.RetryAfter(waiting(header, objectstore.ErrThrottled)); got != time.Minute {
			t.Errorf("a date in a minute is %v", got)
		}
	})
}

func TestConnectionRefused(t *testing.T) {
	eachKind(t, nil, func(t *testing.T, s *Store, f *fake) {
		f.Close()
		for op, call := range calls {
			wantFailure(t, call(t.Context(), s), op, objectstore.ErrUnavailable, "connection refused")
		}
	})
}

func TestUntrusted(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = silentLog()
	server.StartTLS()
	defer server.Close()
	f := &fake{Server: server}
	for _, s := range []*Store{openGoogleAt(t, f.gcs()), openAzureAt(t, f.azure())} {
		for op, call := range calls {
			wantFailure(t, call(t.Context(), s), op, nil, "no secure connection", "CAFile")
		}
	}
}

// TestSecretsStayInside looks for a shared access signature in errors.
func TestSecretsStayInside(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("sig") != "SECRET" || r.URL.Query().Get("sv") != "2026" {
			t.Errorf("the signature is not in %s", r.URL)
		}
		refuseAsAzure(w, http.StatusForbidden, "AuthenticationFailed", "x")
	})
	options := f.azure()
	options.Credentials = AzureSignature("?sv=2026&sig=SECRET")
	store := openAzureAt(t, options)
	check := func() {
		for op, call := range calls {
			if err := call(t.Context(), store); err == nil || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%s: %v", op, err)
			}
		}
	}
	check()
	f.Close()
	check()
	if _, err := OpenAzure(t.Context(), AzureOptions{Account: "account", Container: "container", Credentials: AzureSharedKey("SECRET!")}); err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("a key that is none: %v", err)
	}
}
