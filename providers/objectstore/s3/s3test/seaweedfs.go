package s3test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest/localserver"
)

// StartSeaweedFS starts another kind of server. Its program weed must be on
// PATH: it takes too long to build for a test.
func StartSeaweedFS(t testing.TB) *Server {
	t.Helper()
	program, err := exec.LookPath("weed")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.json")
	text := fmt.Sprintf(`{"identities":[{"name":"test","credentials":[{"accessKey":%q,"secretKey":%q}],"actions":["Admin","Read","Write","List","Tagging"]}]}`,
		AccessKey, SecretKey)
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"server", "-dir", dir, "-ip", "127.0.0.1", "-ip.bind", "127.0.0.1",
		"-filer", "-s3", "-s3.config", keys, "-s3.port.iceberg=0", "-iam=false",
		"-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=100"}
	for _, port := range []string{"master", "volume", "filer"} {
		args = append(args, freePorts(t, "-"+port)...)
	}
	address := localserver.FreeAddress(t)
	_, s3Port, _ := net.SplitHostPort(address)
	args = append(args, "-s3.port", s3Port)
	args = append(args, freePorts(t, "-s3")[2:]...)
	localserver.Run(t, address, exec.Command(program, args...), patience)
	s := &Server{Endpoint: "http://" + address}
	s.awaitBuckets(t)
	s.Bucket = s.NewBucket(t, "bucket")
	return s
}

// freePorts are the flags for one of the ports of a component, and for that of
// its gRPC.
func freePorts(t testing.TB, component string) []string {
	t.Helper()
	var flags []string
	for _, flag := range []string{".port", ".port.grpc"} {
		_, port, _ := net.SplitHostPort(localserver.FreeAddress(t))
		flags = append(flags, component+flag, port)
	}
	return flags
}

// awaitBuckets waits until the server can do more than listen.
func (s *Server) awaitBuckets(t testing.TB) {
	t.Helper()
	tries := time.NewTicker(100 * time.Millisecond)
	defer tries.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tries.C {
		resp, err := http.Get(s.Endpoint + "/healthz")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			http.DefaultClient.CloseIdleConnections()
			return
		}
	}
	t.Fatal("the server does not become ready")
}
