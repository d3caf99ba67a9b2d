package cloud

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// tokens give one token, or fail.
type tokens struct{ err error }

func (s tokens) Token(context.Context) (*auth.Token, error) {
	return &auth.Token{Value: "TOKEN"}, s.err
}

func (s tokens) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "TOKEN", ExpiresOn: time.Now().Add(time.Hour)}, s.err
}

// withTokens opens a store of each kind at a server with TLS: Azure's SDK sends
// tokens over nothing else.
func withTokens(t *testing.T, tokens tokens, handler http.HandlerFunc) (*fake, []*Store) {
	f := &fake{Server: httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(w, r) }))}
	t.Cleanup(f.Close)
	ca := writeCertificate(t, f.Server)
	gcs, azure := f.gcs(), f.azure()
	gcs.Connection.CAFile, azure.Connection.CAFile = ca, ca
	gcs.Credentials, azure.Credentials = GoogleTokens(tokens), AzureTokens(tokens)
	return f, []*Store{openGoogleAt(t, gcs), openAzureAt(t, azure)}
}

func TestTokensAreSent(t *testing.T) {
	var requests atomic.Int64
	_, stores := withTokens(t, tokens{}, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if got := r.Header.Get("Authorization"); got != "Bearer TOKEN" {
			t.Errorf("%s is authorized by %q", r.URL, got)
		}
		w.WriteHeader(http.StatusForbidden)
	})
	for _, s := range stores {
		for op, call := range calls {
			wantFailure(t, call(t.Context(), s), op, objectstore.ErrDenied)
		}
	}
	if n := requests.Load(); n != 10 {
		t.Errorf("%d requests, want 10", n)
	}
}

// TestNoTokens tells a server of tokens that is out of order from one that
// refuses. The store is not asked.
func TestNoTokens(t *testing.T) {
	refused := &auth.Error{Response: &http.Response{StatusCode: http.StatusBadRequest}, Body: []byte("invalid_grant")}
	busy := &auth.Error{Response: &http.Response{StatusCode: http.StatusServiceUnavailable}, Body: []byte("busy")}
	for _, test := range []struct {
		err      error
		sentinel error
	}{
		{errors.New("there are none"), objectstore.ErrDenied},
		{fmt.Errorf("no token: %w", refused), objectstore.ErrDenied},
		{fmt.Errorf("no token: %w", busy), objectstore.ErrUnavailable},
		{fmt.Errorf("no token: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), objectstore.ErrUnavailable},
	} {
		_, stores := withTokens(t, tokens{test.err}, func(http.ResponseWriter, *http.Request) { t.Error("a request without token") })
		for _, s := range stores {
			for op, call := range calls {
				wantFailure(t, call(t.Context(), s), op, test.sentinel)
			}
		}
	}
}

// hangingTokens never come.
type hangingTokens struct{ asked chan struct{} }

func (h hangingTokens) Token(ctx context.Context) (*auth.Token, error) {
	h.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestWaitingForTokens gives up one call that waits for a token, and one that
// waits for the first to get it.
func TestWaitingForTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := hangingTokens{make(chan struct{}, 10)}
		store := openGoogleAt(t, GCSOptions{Bucket: "bucket", Credentials: GoogleTokens(hanging)})
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithTimeout(t.Context(), time.Second)
		defer cancelSecond()
		done := make(chan error, 1)
		go func() { done <- calls[opStat](first, store) }()
		<-hanging.asked
		wantFailure(t, calls[opStat](second, store), opStat, context.DeadlineExceeded)
		cancelFirst()
		wantFailure(t, <-done, opStat, context.Canceled)
		if len(hanging.asked) > 0 {
			t.Error("two calls asked for tokens at once")
		}
	})
}

func TestServiceAccountKey(t *testing.T) {
	for name, key := range map[string]string{"no JSON": "x", "other kind": `{"type":"external_account"}`} {
		if _, err := GoogleServiceAccount([]byte(key), nil); err == nil {
			t.Errorf("%s is taken for the key of a service account", name)
		}
	}
}

// TestNobodysCredentials has credentials where Google's SDK looks for them. They
// are not asked for: with them it could sign an address.
func TestNobodysCredentials(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account, _ := json.Marshal(map[string]string{
		"type":         "service_account",
		"client_email": "somebody@example.com",
		"private_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri":    "http://127.0.0.1:1",
	})
	file := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(file, account, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	t.Setenv("GCE_METADATA_HOST", "127.0.0.1:1")
	if _, err := GoogleServiceAccount(account, nil); err != nil {
		t.Fatal(err) // they are good
	}
	store := openGoogleAt(t, GCSOptions{Bucket: "bucket", Credentials: AnonymousGoogle()})
	signing := &storage.SignedURLOptions{Method: http.MethodGet, Expires: time.Now().Add(time.Hour)}
	if url, err := store.service.(*google).native.SignedURL("name", signing); err == nil {
		t.Errorf("the SDK has found credentials: %s", url)
	}
}
