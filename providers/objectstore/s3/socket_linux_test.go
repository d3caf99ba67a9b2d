package s3

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore"
)

// TestStalledUpload sends more than the kernel buffers to a server that reads
// nothing. Options.Timeout would end it in an hour.
func TestStalledUpload(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	store := openAt(t, Options{
		Bucket: "bucket", Endpoint: "http://" + listener.Addr().String(), Credentials: StaticCredentials("a", "b", ""),
		Timeout: time.Hour, StallTimeout: 300 * time.Millisecond,
	})
	_, err = store.Put(t.Context(), "key", bytes.NewReader(make([]byte, 32<<20)), objectstore.PutOptions{})
	wantFailure(t, err, opPut, objectstore.ErrUnavailable, "")
	// The reader of the connection hears of the timeout, or its writer does, whoever is first;
	// the other one finds the connection broken.
	if text := err.Error(); !strings.Contains(text, "timed out") && !strings.Contains(text, "broken pipe") {
		t.Errorf("%q does not say why", text)
	}
}
