//go:build servers

package probe_test

import (
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore/s3"
	"github.com/snapctl/snapctl/providers/objectstore/s3/s3test"
)

// TestVersitygw probes a real server through the real client.
func TestVersitygw(t *testing.T) { wantLacks(t, run(t, openS3(t, s3test.Start(t)))) }

func openS3(t *testing.T, server *s3test.Server) *s3.Store {
	t.Helper()
	options, err := s3.ParseURL(server.URL("probed"))
	if err != nil {
		t.Fatal(err)
	}
	options.Credentials = s3.StaticCredentials(s3test.AccessKey, s3test.SecretKey, "")
	store, err := s3.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}
