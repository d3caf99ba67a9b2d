//go:build servers

package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/file"
	"github.com/snapctl/snapctl/providers/objectstore/s3"
	"github.com/snapctl/snapctl/providers/objectstore/s3/s3test"
)

// TestSoakBucket is TestSoak in a bucket.
func TestSoakBucket(t *testing.T) {
	dir := soakDir(t)
	server := s3test.Start(t)
	store := func() objectstore.Store {
		opts, err := s3.ParseURL(server.URL("soak"))
		if err != nil {
			t.Fatal(err)
		}
		opts.Credentials = s3.StaticCredentials(s3test.AccessKey, s3test.SecretKey, "")
		store, err := s3.Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	s := newSoak(t, dir, server.URL("soak"), store)
	s.env = server.Environ()
	s.ledger.late = true
	t.Cleanup(func() {
		if t.Failed() { // the server's folder goes with the test
			s.copyBucket()
		}
	})
	s.soak()
}

// copyBucket keeps the objects in a directory, which is a repository like the bucket.
func (s *soak) copyBucket() {
	ctx := context.Background() // that of the test is over
	kept, err := file.Create(s.dir + "/repo")
	if err != nil {
		s.t.Error(err)
		return
	}
	defer kept.Close()
	bucket := s.store()
	for info, err := range bucket.List(ctx, "", "") {
		if err != nil {
			s.t.Error(err)
			return
		}
		object, err := objectstore.ReadAll(ctx, bucket, info.Key, info.Size)
		if err == nil {
			_, err = kept.Put(ctx, info.Key, bytes.NewReader(object), objectstore.PutOptions{})
		}
		if err != nil {
			s.t.Errorf("%s is not kept: %v", info.Key, err)
		}
	}
}
