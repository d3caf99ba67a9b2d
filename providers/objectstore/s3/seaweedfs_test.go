//go:build servers && seaweedfs

package s3_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/objectstoretest"
	"github.com/snapctl/snapctl/providers/objectstore/s3/s3test"
)

// TestConformanceOnSeaweedFS needs weed on PATH, and both tags: servers and
// seaweedfs.
func TestConformanceOnSeaweedFS(t *testing.T) {
	server := s3test.StartSeaweedFS(t)
	var cases atomic.Int64
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
		return open(t, server.URL(fmt.Sprintf("case-%d/below", cases.Add(1))))
	})
}
