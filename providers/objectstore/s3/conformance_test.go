//go:build servers

package s3_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest"
	"github.com/snapctl/snapctl/providers/objectstore/s3"
	"github.com/snapctl/snapctl/providers/objectstore/s3/s3test"
)

// open opens the store that a URL names, with the credentials of all servers.
func open(t *testing.T, url string) *s3.Store {
	t.Helper()
	return openChanged(t, url, func(*s3.Options) {})
}

func openChanged(t *testing.T, url string, change func(*s3.Options)) *s3.Store {
	t.Helper()
	options, err := s3.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options.Credentials = s3.StaticCredentials(s3test.AccessKey, s3test.SecretKey, "")
	change(&options)
	store, err := s3.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// lacks are the faults of the server. TestReadersSeeWholeVersions checks what
// can be checked of the first.
var lacks = []objectstoretest.Lack{
	objectstoretest.Without("get/whole versions", "versitygw "+s3test.Version+
		" may answer a put beside a delete of the same key with ExistingObjectIsDirectory"),
}

// TestConformance gives every case a part of one bucket.
func TestConformance(t *testing.T) {
	server := s3test.Start(t)
	var cases atomic.Int64
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		return open(t, server.URL(fmt.Sprintf("case-%d/below", cases.Add(1))))
	}, lacks...)
}

// TestConformanceOfBuckets gives every case a bucket, over TLS.
func TestConformanceOfBuckets(t *testing.T) {
	server := s3test.StartTLS(t)
	var cases atomic.Int64
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		bucket := server.NewBucket(t, fmt.Sprintf("case-%d", cases.Add(1)))
		return openChanged(t, server.URL(""), func(o *s3.Options) { o.Bucket = bucket })
	}, lacks...)
}
