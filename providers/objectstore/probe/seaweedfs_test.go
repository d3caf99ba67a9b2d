//go:build servers && seaweedfs

package probe_test

import (
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore/s3/s3test"
)

// TestSeaweedFS needs weed on PATH, and both tags: servers and seaweedfs.
func TestSeaweedFS(t *testing.T) { wantLacks(t, run(t, openS3(t, s3test.StartSeaweedFS(t)))) }
