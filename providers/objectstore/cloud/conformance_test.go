//go:build servers

package cloud_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/cloud"
	"github.com/snapctl/snapctl/providers/objectstore/cloud/cloudtest"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest"
)

func openGCS(t *testing.T, server *cloudtest.GCS, prefix string, changes ...func(*cloud.GCSOptions)) *cloud.Store {
	t.Helper()
	options := cloud.GCSOptions{
		Bucket:      server.Bucket,
		Prefix:      prefix,
		Endpoint:    server.Endpoint,
		Credentials: cloud.AnonymousGoogle(),
	}
	for _, change := range changes {
		change(&options)
	}
	store, err := cloud.OpenGCS(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func openAzure(t *testing.T, server *cloudtest.Azure, prefix string, changes ...func(*cloud.AzureOptions)) *cloud.Store {
	t.Helper()
	options := cloud.AzureOptions{
		Account:     server.Account,
		Container:   server.Container,
		Prefix:      prefix,
		Endpoint:    server.Endpoint,
		Credentials: cloud.AzureSharedKey(server.Key),
	}
	for _, change := range changes {
		change(&options)
	}
	store, err := cloud.OpenAzure(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// TestGCSConformance gives every case a part of one bucket.
func TestGCSConformance(t *testing.T) {
	server := cloudtest.StartGCS(t)
	var cases atomic.Int64
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		return openGCS(t, server, fmt.Sprintf("case-%d/below", cases.Add(1)))
	})
}

// TestGCSConformanceOfBuckets gives every case a bucket.
func TestGCSConformanceOfBuckets(t *testing.T) {
	server := cloudtest.StartGCS(t)
	var cases atomic.Int64
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		bucket := server.NewBucket(t, fmt.Sprintf("case-%d", cases.Add(1)))
		return openGCS(t, server, "", func(o *cloud.GCSOptions) { o.Bucket = bucket })
	})
}

// TestAzureConformance gives every case a part of one container.
func TestAzureConformance(t *testing.T) {
	server := cloudtest.StartAzure(t)
	var cases atomic.Int64
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		return openAzure(t, server, fmt.Sprintf("case-%d/below", cases.Add(1)))
	})
}

// TestAzureConformanceOfContainers gives every case a container.
func TestAzureConformanceOfContainers(t *testing.T) {
	server := cloudtest.StartAzure(t)
	var cases atomic.Int64
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		name := server.NewContainer(t, fmt.Sprintf("case-%d", cases.Add(1)))
		return openAzure(t, server, "", func(o *cloud.AzureOptions) { o.Container = name })
	})
}
