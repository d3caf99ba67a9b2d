package cloud

import (
	"strings"
	"testing"
	"time"
)

func TestRefusedOptions(t *testing.T) {
	good := GCSOptions{Bucket: "bucket", Credentials: AnonymousGoogle()}
	for name, change := range map[string]func(*GCSOptions){
		"no bucket":       func(o *GCSOptions) { o.Bucket = "" },
		"upper case":      func(o *GCSOptions) { o.Bucket = "Bucket" },
		"a path":          func(o *GCSOptions) { o.Bucket = "bucket/x" },
		"no credentials":  func(o *GCSOptions) { o.Credentials = nil },
		"slash in front":  func(o *GCSOptions) { o.Prefix = "/a" },
		"dots":            func(o *GCSOptions) { o.Prefix = "a/../b" },
		"space":           func(o *GCSOptions) { o.Prefix = "a b" },
		"long prefix":     func(o *GCSOptions) { o.Prefix = strings.Repeat("x", MaxPrefix+1) },
		"other scheme":    func(o *GCSOptions) { o.Endpoint = "ftp://host" },
		"no scheme":       func(o *GCSOptions) { o.Endpoint = "host:80" },
		"secret":          func(o *GCSOptions) { o.Endpoint = "https://user:SECRET@host" },
		"query":           func(o *GCSOptions) { o.Endpoint = "https://host?sig=SECRET" },
		"negative":        func(o *GCSOptions) { o.Connection.Timeout = -time.Second },
		"no certificates": func(o *GCSOptions) { o.Connection.CAFile = "/nowhere" },
	} {
		options := good
		change(&options)
		if store, err := OpenGCS(t.Context(), options); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v, %v", name, store, err)
		}
	}
	for name, change := range map[string]func(*AzureOptions){
		"no account":     func(o *AzureOptions) { o.Account = "" },
		"a host":         func(o *AzureOptions) { o.Account = "account.blob" },
		"no container":   func(o *AzureOptions) { o.Container = "" },
		"two hyphens":    func(o *AzureOptions) { o.Container = "a--b" },
		"long":           func(o *AzureOptions) { o.Container = strings.Repeat("a", 64) },
		"no credentials": func(o *AzureOptions) { o.Credentials = nil },
		"prefix":         func(o *AzureOptions) { o.Prefix = "a//b" },
		"query":          func(o *AzureOptions) { o.Endpoint = "https://host?sig=SECRET" },
	} {
		options := AzureOptions{Account: "account", Container: "container", Credentials: AnonymousAzure()}
		change(&options)
		if store, err := OpenAzure(t.Context(), options); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v, %v", name, store, err)
		}
	}
}

// TestAddresses are those of the big stores if no endpoint is given.
func TestAddresses(t *testing.T) {
	google := openGoogleAt(t, GCSOptions{Bucket: "bucket", Credentials: AnonymousGoogle()})
	if google.place.host != "storage.googleapis.com" {
		t.Errorf("Google is at %s", google.place.host)
	}
	store := openAzureAt(t, AzureOptions{Account: "account", Container: "container", Credentials: AnonymousAzure()})
	if url := store.service.(*azure).native.URL(); url != "https://account.blob.core.windows.net/container" {
		t.Errorf("Azure is at %s", url)
	}
}
