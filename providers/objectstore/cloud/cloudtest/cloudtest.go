// Package cloudtest starts emulators of Google Cloud Storage (fake-gcs-server)
// and Azure Blob Storage (azurite) for tests, each on a free port of the
// loopback with its objects in memory. They are stopped when the test ends.
//
// The programs are those found on PATH, fake-gcs-server and azurite-blob, or
// else they are installed once and kept in the user's cache: the one is built,
// which takes some minutes and needs the Go module proxy, the other is JavaScript
// and needs node and npm.
package cloudtest

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest/localserver"
)

// GCS is a running emulator of Google Cloud Storage with one empty bucket. It
// takes all requests, whatever credentials they have.
type GCS struct {
	Endpoint string // http://127.0.0.1:PORT
	Bucket   string
}

// StartGCS starts an emulator of Google Cloud Storage.
func StartGCS(t testing.TB) *GCS {
	t.Helper()
	address := localserver.FreeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	run(t, address, exec.Command(fakeGCSServer(t), "-scheme", "http", "-host", host, "-port", port,
		"-public-host", address, "-backend", "memory", "-log-level", "error"))
	g := &GCS{Endpoint: "http://" + address}
	g.Bucket = g.NewBucket(t, "bucket")
	return g
}

func run(t testing.TB, address string, server *exec.Cmd) {
	t.Helper()
	server.Dir = t.TempDir() // whatever it writes unasked
	localserver.Run(t, address, server, 2*time.Minute)
}

// NewBucket makes a bucket and returns its name.
func (g *GCS) NewBucket(t testing.TB, name string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(g.Endpoint+"/storage/v1/b?project=test", "application/json", strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("make bucket: %s", resp.Status)
	}
	return name
}

// Azure is a running emulator of Azure Blob Storage with one empty container.
type Azure struct {
	Endpoint  string // http://127.0.0.1:PORT/ACCOUNT
	Account   string
	Key       string // in base64
	Container string
}

// StartAzure starts an emulator of Azure Blob Storage.
func StartAzure(t testing.TB) *Azure {
	t.Helper()
	address := localserver.FreeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	a := &Azure{Account: "testaccount", Key: base64.StdEncoding.EncodeToString([]byte("a key that is no secret"))}
	a.Endpoint = "http://" + address + "/" + a.Account
	// It does not know all versions of the protocol that the SDK knows.
	server := azurite(t, "--blobHost", host, "--blobPort", port, "--inMemoryPersistence",
		"--skipApiVersionCheck", "--disableTelemetry", "--silent")
	server.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+a.Account+":"+a.Key)
	run(t, address, server)
	a.Container = a.NewContainer(t, "container")
	return a
}

// NewContainer makes a container and returns its name.
func (a *Azure) NewContainer(t testing.TB, name string) string {
	t.Helper()
	key, err := container.NewSharedKeyCredential(a.Account, a.Key)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}}
	client, err := container.NewClientWithSharedKeyCredential(a.Endpoint+"/"+name, key, options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(context.Background(), nil); err != nil {
		t.Fatalf("make container: %v", err)
	}
	return name
}
