package s3

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"testing"
)

// TestAddresses sees where requests go, without sending them.
func TestAddresses(t *testing.T) {
	for repository, want := range map[string]string{
		"s3://bucket?region=eu-west-1":                                                       "bucket.s3.eu-west-1.amazonaws.com:443",
		"s3://bucket?region=us-east-1":                                                       "bucket.s3.us-east-1.amazonaws.com:443",
		"s3://bucket?region=cn-north-1":                                                      "bucket.s3.cn-north-1.amazonaws.com.cn:443",
		"s3://bucket?region=eu-west-1&path-style=true":                                       "s3.eu-west-1.amazonaws.com:443",
		"s3://dotted.bucket?region=eu-west-1":                                                "s3.eu-west-1.amazonaws.com:443",
		"s3://bucket?region=eu-west-1&endpoint=https://s3.dualstack.eu-west-1.amazonaws.com": "bucket.s3.dualstack.eu-west-1.amazonaws.com:443",
		"s3://bucket?endpoint=https://account.r2.cloudflarestorage.com&region=auto":          "account.r2.cloudflarestorage.com:443",
		"s3://bucket?endpoint=https://storage.googleapis.com":                                "bucket.storage.googleapis.com:443",
		"s3://bucket?endpoint=http://minio.example:9000":                                     "minio.example:9000",
		"s3://bucket?endpoint=http://minio.example":                                          "minio.example:80",
		"s3://bucket?endpoint=https://ceph.example:8443&path-style=false":                    "bucket.ceph.example:8443",
	} {
		options, err := ParseURL(repository)
		if err != nil {
			t.Fatal(err)
		}
		options.Credentials = StaticCredentials("a", "b", "")
		if got := dialed(t, options); got != want {
			t.Errorf("%s goes to %s, want %s", repository, got, want)
		}
	}
}

// dialed is the first address that a store connects to.
func dialed(t *testing.T, options Options) string {
	t.Helper()
	store := openAt(t, options)
	address := ""
	store.transport.DialContext = func(_ context.Context, _, to string) (net.Conn, error) {
		address = to
		return nil, errors.New("not sent")
	}
	if err := calls[opDelete](t.Context(), store); err == nil {
		t.Error("a call without a connection succeeds")
	}
	return address
}

func TestProxy(t *testing.T) {
	options := Options{Bucket: "bucket", Endpoint: "http://store", Credentials: StaticCredentials("a", "b", "")}
	t.Setenv("HTTP_PROXY", "http://from-the-environment:1")
	if got := dialed(t, options); got != "store:80" {
		t.Errorf("without a proxy: %s", got)
	}
	options.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy:3128") }
	if got := dialed(t, options); got != "proxy:3128" {
		t.Errorf("with a proxy: %s", got)
	}
}
