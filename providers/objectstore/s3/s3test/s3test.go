// Package s3test starts S3 servers for tests, each on a free port of the
// loopback with its objects in a temporary folder. They are stopped when the
// test ends.
//
// The server is versitygw, the one found on PATH or else one that is built once
// and kept in the user's cache; that takes a few minutes and needs the Go module
// proxy.
package s3test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest/localserver"
)

// The credentials of all servers.
const (
	AccessKey = "test-access-key"
	SecretKey = "test-secret-key"
)

// Server is a running server with one empty bucket.
type Server struct {
	Endpoint string // http://127.0.0.1:PORT, or https://
	Bucket   string
	CAFile   string // the certificate to trust, of a server with TLS
}

// Start starts a server without TLS.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, &Server{Endpoint: "http://" + localserver.FreeAddress(t)})
}

// StartTLS starts a server with TLS and a certificate of its own.
func StartTLS(t testing.TB) *Server {
	t.Helper()
	return start(t, &Server{
		Endpoint: "https://" + localserver.FreeAddress(t),
		CAFile:   filepath.Join(t.TempDir(), "certificate.pem"),
	})
}

// patience is how long a server may take to start and to stop.
const patience = 60 * time.Second

func start(t testing.TB, s *Server) *Server {
	t.Helper()
	address := mustParse(t, s.Endpoint).Host
	args := []string{"--port", address, "--keep-alive", "--quiet"}
	if s.CAFile != "" {
		keyFile := writeCertificate(t, s.CAFile)
		args = append(args, "--cert", s.CAFile, "--key", keyFile)
	}
	args = append(args, "posix", t.TempDir())
	server := exec.Command(versitygw(t), args...)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	localserver.Run(t, address, server, patience)
	s.Bucket = s.NewBucket(t, "bucket")
	return s
}

// NewBucket makes a bucket and returns its name.
func (s *Server) NewBucket(t testing.TB, name string) string {
	t.Helper()
	endpoint := mustParse(t, s.Endpoint)
	transport, err := minio.DefaultTransport(endpoint.Scheme == "https")
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	if s.CAFile != "" {
		transport.TLSClientConfig.RootCAs = trust(t, s.CAFile)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:     credentials.NewStaticV4(AccessKey, SecretKey, ""),
		Secure:    endpoint.Scheme == "https",
		Region:    "us-east-1",
		Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.MakeBucket(context.Background(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatalf("make bucket: %v", err)
	}
	return name
}

// URL is the repository URL of a prefix in the bucket; an empty one is the whole
// bucket.
func (s *Server) URL(prefix string) string {
	query := url.Values{"endpoint": {s.Endpoint}}
	if s.CAFile != "" {
		query.Set("ca", s.CAFile)
	}
	return (&url.URL{Scheme: "s3", Host: s.Bucket, Path: "/" + prefix, RawQuery: query.Encode()}).String()
}

// Environ is what a process needs in its environment to use the server.
func (s *Server) Environ() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey}
}

func mustParse(t testing.TB, endpoint string) *url.URL {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
