//go:build servers

package cloud_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/snapctl/snapctl/providers/objectstore"
	"github.com/snapctl/snapctl/providers/objectstore/cloud"
	"github.com/snapctl/snapctl/providers/objectstore/cloud/cloudtest"
)

// everyCall runs each method on an object that is not there.
func everyCall(t *testing.T, s objectstore.Store) map[string]error {
	errs := map[string]error{}
	_, errs["put"] = s.Put(t.Context(), "key", strings.NewReader("x"), objectstore.PutOptions{})
	_, errs["put if absent"] = s.Put(t.Context(), "key", strings.NewReader("x"), objectstore.PutOptions{IfAbsent: true})
	_, errs["get"] = s.Get(t.Context(), "key", objectstore.Range{})
	_, errs["stat"] = s.Stat(t.Context(), "key")
	for _, err := range s.List(t.Context(), "", "") {
		errs["list"] = err
	}
	errs["delete"] = s.Delete(t.Context(), "key")
	return errs
}

// TestNoContainer is Azure's alone: the emulator of Google makes buckets as it
// needs them.
func TestNoContainer(t *testing.T) {
	server := cloudtest.StartAzure(t)
	store := openAzure(t, server, "root", func(o *cloud.AzureOptions) { o.Container = "elsewhere" })
	for call, err := range everyCall(t, store) {
		if !errors.Is(err, cloud.ErrNoBucket) || errors.Is(err, objectstore.ErrNotExist) {
			t.Errorf("%s: %v, want no container", call, err)
		} else if !strings.Contains(err.Error(), "azblob://"+server.Account+"/elsewhere/root/") {
			t.Errorf("%s: %v does not name the container", call, err)
		}
	}
}

// TestWrongKey is Azure's alone: the emulator of Google takes all credentials.
func TestWrongKey(t *testing.T) {
	server := cloudtest.StartAzure(t)
	for name, credentials := range map[string]*cloud.AzureCredentials{
		"wrong key": cloud.AzureSharedKey("d3Jvbmc="),
		"none":      cloud.AnonymousAzure(),
	} {
		store := openAzure(t, server, "", func(o *cloud.AzureOptions) { o.Credentials = credentials })
		for call, err := range everyCall(t, store) {
			if !errors.Is(err, objectstore.ErrDenied) {
				t.Errorf("%s, %s: %v, want denied", name, call, err)
			}
		}
	}
}
